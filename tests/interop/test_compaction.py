"""Compaction of data tables with Hudi 1.0.2: it executes our plans, we execute its plans, and both go on with what the other has compacted."""

from __future__ import annotations

from pathlib import Path

import pytest

import pyhudi_core as hudi
from pyhudi_core.formats.avro.container import decode_record
from pyhudi_core.model.instant import Action, Instant, State

from .judges import JudgeProcess, assert_same_rows
from .merge_on_read_cases import KEY, QUICK, Case, agree, call, keys, make, names, ours


def plan_of(table: hudi.HudiTable, instant: Instant) -> dict[str, object]:
    folder = table._opened.context().folder
    path = folder.file(Instant(instant.requested_time, Action.COMPACTION, State.REQUESTED))
    return decode_record(table._opened.storage.get(path), "HoodieCompactionPlan")


def pending(table: hudi.HudiTable) -> Instant:
    [found] = [i for i in table.timeline.pending if i.action is Action.COMPACTION]
    return found


def relay(judge: JudgeProcess, case: Case, path: Path) -> None:
    """We compact; Hudi executes our plan; we execute Hudi's; each with a write between plan and execution."""
    ordering = ["hoodie.payload.ordering.field=ts"] if case.ordering is not None else []
    options = {"options": ",".join(["hoodie.compact.inline.max.delta.commits=1", *ordering])}
    table = make(case, path)
    before = table.scan().to_arrow()
    assert table.compaction.run()
    kept = [name for name in before.column_names if name != "_hoodie_file_name"]
    assert_same_rows(table.scan().to_arrow(), before, by=KEY, columns=kept)
    agree(judge, path, base_files=True)
    table.upsert(case.rows((7, 400, "ours"), (50, 1, "ours")))
    planned = table.compaction.schedule()
    assert planned is not None
    table.upsert(case.rows((8, 400, "between")))
    call(judge, path, "run", timestamp=planned.requested_time, **options)
    assert ours(path).timeline.find(planned.requested_time).is_completed  # type: ignore[union-attr]
    found = names(agree(judge, path, base_files=True))
    assert (found[7], found[50], found[8]) == ("ours", "ours", "between")
    # The other way round, and Hudi's plan is what ours would have been.
    judge.write(path, case.rows((7, 500, "hudi"), (9, 500, "hudi")), "upsert", **case.hudis_options())
    ours_now = ours(path).compaction.plan()
    call(judge, path, "schedule", **options)
    theirs = plan_of(ours(path), pending(ours(path)))
    operations = [operation.to_avro() for operation in ours_now.operations]
    assert theirs == {**theirs, "operations": operations, "version": 2, "strategy": None, "extraMetadata": {}}
    judge.write(path, case.rows((9, 600, "later")), "upsert", **case.hudis_options())
    done = ours(path).compaction.execute()
    assert done.log_files == ours_now.figures["log_files"]
    found = names(agree(judge, path, base_files=True))
    assert (found[7], found[9]) == ("hudi", "later")
    judge.write(path, case.rows((10, 700, "last")), "upsert", **case.hudis_options())
    ours(path).delete(keys(case, 11))
    agree(judge, path)
    assert ours(path).check().ok


@pytest.mark.row("C5", "L6", "Q3")
def test_hudi_executes_our_compaction_plan_and_we_execute_hudis(first_release: JudgeProcess, tmp_path: Path) -> None:
    relay(first_release, QUICK, tmp_path / "mor")
