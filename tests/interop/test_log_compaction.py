"""Log compaction with Hudi 1.0.2: it reads what we have merged, goes on with it, and compacts it; we go on with what Hudi has made of it."""

from __future__ import annotations

from pathlib import Path

import pytest

import pyhudi_core as hudi

from .judges import JudgeProcess, assert_same_rows
from .merge_on_read_cases import KEY, QUICK, agree, call, keys, make, names, ours


def low(path: Path) -> hudi.HudiTable:
    return hudi.open_table(str(path), options={"hoodie.log.compaction.blocks.threshold": "2"})


@pytest.mark.slow
@pytest.mark.row("C6", "N4", "Q3")
def test_hudi_reads_and_compacts_what_we_have_log_compacted(first_release: JudgeProcess, tmp_path: Path) -> None:
    case, path = QUICK, tmp_path / "mor"
    table = make(case, path)
    table.upsert(case.rows((7, 300, "first"), (8, 300, "first")))
    table.delete(keys(case, 9))
    before = table.scan().to_arrow()
    done = low(path).log_compaction.run()
    assert done.log_files > done.file_groups
    kept = [name for name in before.column_names if name != "_hoodie_file_name"]
    assert_same_rows(ours(path).scan().to_arrow(), before, by=KEY, columns=kept)
    agree(first_release, path)
    # Hudi appends, we merge again, and Hudi compacts all of it.
    first_release.write(path, case.rows((7, 500, "hudi"), (10, 500, "hudi")), "upsert", **case.hudis_options())
    table = ours(path)
    table.upsert(case.rows((8, 600, "ours")))
    assert low(path).log_compaction.run()
    found = names(agree(first_release, path))
    assert (found[7], found[8], found[10]) == ("hudi", "ours", "hudi")
    ordering = ["hoodie.payload.ordering.field=ts"] if case.ordering is not None else []
    options = ",".join(["hoodie.compact.inline.max.delta.commits=1", *ordering])
    for op in ("schedule", "run"):
        call(first_release, path, op, options=options)
    found = names(agree(first_release, path, base_files=True))
    assert (found[7], found[8], found[10]) == ("hudi", "ours", "hudi")
    assert ours(path).check().ok
