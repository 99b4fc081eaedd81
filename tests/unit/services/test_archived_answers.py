"""What has left the active timeline is still found, and no answer changes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.archival import FAST, MANUAL, everything, filled, history_files
from support.disk import contents
from support.golden import unpack
from support.homes import context_of
from support.tables import make, orders, rows

import pyhudi_core as hudi
from pyhudi_core.errors import CorruptTimelineError
from pyhudi_core.model.instant import Action
from pyhudi_core.services.archival.archival import archive
from pyhudi_core.services.archival.limits import ArchivalRules
from pyhudi_core.transaction.status import CommitStatus


@pytest.mark.row("B9")
def test_archived_commits_are_still_found(location: str) -> None:
    table, done = filled(location)
    old = [next(i for i in table.timeline if i.requested_time == commit.instant) for commit in done]
    said = [table.commit_metadata(instant) for instant in old]
    table.archival.run()
    fresh = hudi.open_table(location)
    assert [fresh.commit_metadata(instant) for instant in old] == said
    assert [fresh.commit_status(commit.token) for commit in done] == [CommitStatus.COMMITTED] * len(done)
    assert rows(fresh.scan(as_of=done[0]), "id") == rows(fresh.scan(as_of=done[0].completion_time), "id")
    wrong = done[0].token[:-1] + ("0" if done[0].token[-1] != "0" else "1")
    assert fresh.commit_status(wrong) is CommitStatus.NOT_COMMITTED


steps = st.lists(
    st.tuples(
        st.sampled_from(["upsert", "upsert", "delete", "grow", "rollback"]), st.integers(0, 6), st.sampled_from("ab")
    ),
    min_size=4,
    max_size=6,
)


@pytest.mark.row("B9")
@settings(
    derandomize=True,
    max_examples=2 * int(os.environ.get("PYHUDI_EXPLORE", "1")),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(steps, st.integers(1, 3))
def test_archival_changes_no_answer(tmp_path_factory: pytest.TempPathFactory, taken: list[Any], keep: int) -> None:
    options = {**MANUAL, "hoodie.keep.min.commits": keep, "hoodie.timeline.compaction.batch.size": 2}
    table = make(str(tmp_path_factory.mktemp("t") / "t"), options=options)
    done = [table.upsert(orders((n, "ab"[n % 2], 0.0, n))) for n in range(3)]
    wider = False
    for number, (kind, key, day) in enumerate(taken):
        batch = orders((key, day, float(number), number))
        if kind == "rollback":
            with table.begin() as write:
                write.write(batch if not wider else batch.append_column("more", pa.array(["x"])))
            continue
        wider = wider or kind == "grow"
        if kind == "delete":
            done.append(table.delete(pa.table({"id": [key], "day": [day]})))
        else:
            done.append(table.upsert(batch.append_column("more", pa.array(["x"])) if wider else batch))
    done = [commit for commit in done if commit]  # a delete of absent keys makes none
    before = everything(hudi.open_table(table.location), done)
    while table.archival.plan():
        context = context_of(table)
        limited = ArchivalRules(keep_min=max(keep, len(table.timeline.commits) - 2), keep_max=None)
        archive(context, limited)
        after = everything(hudi.open_table(table.location), done)
        assert after == before


def test_the_schema_of_an_archived_time_is_what_it_was(location: str) -> None:
    table, done = filled(location, 3)
    grown = orders((50, "a", 1.0, 9)).append_column("more", pa.array(["x"]))
    for _ in range(4):
        table.upsert(grown)
    table.archival.run()
    assert "more" not in table.scan(as_of=done[2].instant).schema.names
    assert "more" in table.schema.names


def test_a_reader_that_loaded_the_timeline_before_reads_on(location: str) -> None:
    table, _ = filled(location)
    before = rows(table)
    scan = hudi.open_table(location).scan()
    table.archival.run()
    assert rows(scan) == before


def test_two_files_of_one_name_become_two_names(location: str) -> None:
    table, done = filled(location)
    folder = Path(location, ".hoodie/timeline/history")
    folder.mkdir()
    taken = folder / f"{done[0].instant}_{done[4].instant}_0.parquet"
    taken.write_bytes(b"left by a process that died")
    table.archival.run()
    assert taken.read_bytes() == b"left by a process that died"
    assert f"{done[0].instant}_{int(done[4].instant) + 1}_0.parquet" in history_files(location)
    assert [table.commit_status(c.token) for c in done] == [CommitStatus.COMMITTED] * 7
    for n in range(4):
        for m in range(3):
            table.upsert(orders((300 + 3 * n + m, "a", 1.0)))
        table.archival.run()
    assert not taken.exists(), "later runs sweep it"


def test_archived_rollbacks_go_along(location: str) -> None:
    table, _ = filled(location, 2)
    with table.begin() as write:
        write.write(orders((5, "a", 1.0)))
    (undone,) = [i for i in table.timeline if i.action is Action.ROLLBACK]
    for n in range(4):
        table.upsert(orders((100 + n, "a", 1.0)))
    result = table.archival.run()
    assert undone in result.instants
    assert table.timeline.filter(action="rollback").instants == ()
    history = context_of(table).folder.history
    row = history.content(undone)
    assert row is not None
    assert (row.action, row.plan) == ("rollback", None)
    assert history.find(undone.requested_time) is None, "it is no commit"
    assert history.find(undone.requested_time, Action.ROLLBACK) == undone


@pytest.mark.one_in(2)
@pytest.mark.row("B7")
@pytest.mark.row("B9")
@pytest.mark.parametrize("release", ["hudi-1.0.2", "hudi-1.2.0"])
def test_a_history_that_hudi_wrote_is_read_and_continued(release: str, tmp_path: Path) -> None:
    location = unpack(f"{release}/cow_archived", tmp_path / "t")
    options = {**FAST, "hoodie.keep.min.commits": 2, "hoodie.keep.max.commits": 3, "hoodie.archive.automatic": False}
    table = hudi.open_table(location, storage_options={"fsync": "false"}, options=options)
    folder = context_of(table).folder
    theirs = folder.history.completed_between("", "9" * 17)
    assert len(theirs) > 10
    everything_of_them = {i: table.commit_metadata(i) for i in theirs}
    compacted = table.archival.plan().instants
    assert compacted
    assert all((i.completion_time or "") < _last_compaction(location) for i in compacted), (
        "what the metadata table needs stays"
    )
    before, version = rows(table), int(Path(location, ".hoodie/timeline/history/_version_").read_text())
    schema = table.schema
    table.upsert(pa.table([table.scan().to_arrow().slice(0, 2)[name] for name in schema.names], schema=schema))
    cleans = table.timeline.filter(action="clean")
    moved = table.archival.run().instants
    assert {i.action for i in moved} == {Action.COMMIT, Action.CLEAN}
    assert int(Path(location, ".hoodie/timeline/history/_version_").read_text()) == version + 1
    again = hudi.open_table(location)
    history = context_of(again).folder.history
    assert {i: again.commit_metadata(i) for i in theirs} == everything_of_them
    for clean in (i for i in moved if i.action is Action.CLEAN):
        assert clean in cleans.instants
        row = history.content(clean)
        assert row is not None
        assert row.plan is not None
        assert row.metadata is not None
    assert len(rows(again)) == len(before)


def _last_compaction(location: str) -> str:
    folder = Path(location, ".hoodie/metadata/.hoodie/timeline")
    return max(path.name.partition("_")[0] for path in folder.glob("*.commit"))


def test_a_damaged_history_is_read_where_it_can_be_and_never_written_on(location: str) -> None:
    table, done = filled(location)
    table.archival.run()
    for n in range(3):
        table.upsert(orders((100 + n, "a", 1.0)))
    snapshot = rows(table)
    folder = Path(location, ".hoodie/timeline/history")
    (folder / "manifest_1").write_bytes(b"{")
    before = contents(location)
    fresh = hudi.open_table(location, options=MANUAL)
    assert rows(fresh) == snapshot
    for ask in (
        fresh.archival.run,
        lambda: fresh.commit_status(done[0].token),
        lambda: fresh.scan(as_of=done[1].instant),
        lambda: fresh.upsert(orders((1, "a", 1.0))),
    ):
        with pytest.raises(CorruptTimelineError, match="manifest"):
            ask()
    with pytest.raises(hudi.errors.SnapshotExpiredError, match="manifest"):
        fresh.incremental(after=done[0].completion_time)
    assert {path: data for path, data in contents(location).items() if "history" in path} == {
        path: data for path, data in before.items() if "history" in path
    }
    assert rows(fresh) == snapshot
