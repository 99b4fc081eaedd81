"""The sizes of tables that Hudi wrote: what Hudi's own rows count, by a listing and from commit to commit."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.golden import FIXTURES, unpack

import pyhudi_core as hudi
from pyhudi_core.errors import SnapshotExpiredError

COPY_ON_WRITE = sorted(str(path.relative_to(FIXTURES)) for path in FIXTURES.glob("hudi-*/cow_*"))


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", COPY_ON_WRITE)
def test_a_table_of_hudi_has_as_many_rows_as_it_says_at_every_commit(name: str, tmp_path: Path) -> None:
    table = hudi.open_table(unpack(name, tmp_path))
    known, seen = None, 0
    for commit in table.timeline.commits:
        try:
            rows = table.scan(as_of=commit).to_arrow().num_rows
        except SnapshotExpiredError:  # cleaned: neither its rows nor its size can be told
            with pytest.raises(SnapshotExpiredError):
                table.size(as_of=commit)
            continue
        size = table.size(as_of=commit)
        assert size.size.rows == rows
        assert known is None or table.size(as_of=commit, known=known) == size
        known, seen = size, seen + 1
    assert seen


@pytest.mark.parametrize("name", ["hudi-1.0.2/mor_avro", "hudi-1.2.0/mor_logcompact"])
def test_rows_of_a_table_with_logs_are_not_guessed(name: str, tmp_path: Path) -> None:
    table = hudi.open_table(unpack(name, tmp_path))
    found = table.size().size
    assert found.rows is None
    assert found.bytes == sum(
        (piece.base.size if piece.base else 0) + sum(log.size for log in piece.logs)
        for piece in table.snapshot().view.all_slices()
    )
