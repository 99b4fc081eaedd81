"""A token names a state: the same rows later, or an error; never other rows."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.golden import unpack
from support.tables import make, orders

import pyhudi_core as hudi
from pyhudi_core.errors import InvalidOptionError, SnapshotExpiredError
from pyhudi_core.model.snapshot_token import SnapshotToken


@pytest.mark.row("D4", "R10")
def test_a_token_reads_the_same_rows_after_later_commits(location: str) -> None:
    table = make(location)
    empty = table.snapshot_token()
    table.upsert(orders((1, "a", 1.0, 1), (2, "b", 1.0, 1)))
    token = table.snapshot_token()
    before = table.scan().to_arrow()
    table.upsert(orders((1, "a", 2.0, 2), (3, "a", 1.0, 1)))
    table.delete_partitions(["day=b"])
    assert table.scan(as_of=token).to_arrow().equals(before)
    assert table.scan(as_of=str(token)).to_arrow().equals(before)
    assert table.snapshot_token(as_of=token) == token
    assert table.scan(as_of=empty).to_arrow().num_rows == 0
    assert table.snapshot_token() not in (token, empty)


def test_a_token_is_a_point_in_time_for_incremental_reads(location: str) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0, 1)))
    token = table.snapshot_token()
    table.upsert(orders((2, "b", 1.0, 1)))
    until = table.snapshot_token()
    table.upsert(orders((3, "b", 1.0, 1)))
    assert table.incremental(after=token, until=until, columns=["id"]).to_arrow().to_pylist() == [{"id": 2}]
    assert table.changes(after=str(token), until=until).to_arrow().num_rows == 1


def test_a_token_whose_files_were_cleaned_says_so(location: str, tmp_path: Path) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0, 1)))
    token = table.snapshot_token()
    old = [piece.base.path for piece in table.scan().slices()]
    table.upsert(orders((1, "a", 2.0, 2)))
    for path in old:
        Path(location, path).unlink()  # what a clean of Hudi does
    with pytest.raises(SnapshotExpiredError, match="cleaned"):
        table.scan(as_of=token)
    assert table.scan(columns=["price"]).to_arrow().to_pylist() == [{"price": 2.0}]


def test_a_token_of_a_commit_that_was_taken_back_says_so(location: str) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0, 1)))
    table.upsert(orders((1, "a", 2.0, 2)))
    token = table.snapshot_token()
    for path in Path(location, ".hoodie", "timeline").glob(f"{table.timeline[-1].requested_time}*"):
        path.unlink()  # what a restore of Hudi does
    with pytest.raises(SnapshotExpiredError):
        table.scan(as_of=token)


def test_states_of_merge_on_read_tables_have_tokens_too(tmp_path: Path) -> None:
    table = hudi.open_table(unpack("hudi-1.0.2/mor_avro", tmp_path / "table"))
    tokens = [table.snapshot_token(as_of=instant) for instant in table.timeline.commits]
    assert len(set(tokens)) > 1
    for token in tokens:
        assert table.scan(as_of=token).to_arrow().num_rows >= 0
        assert table.snapshot_token(as_of=token) == token


@pytest.mark.parametrize(
    "text", ["s1-2026-abc", "s1-٢٠٢٦٠١٠١٠٠٠٠٠٠٠٠٠-" + "0" * 32, "s2-20260101000000000-" + "0" * 32]
)
def test_what_only_looks_like_a_token_is_refused(location: str, text: str) -> None:
    assert SnapshotToken.of(text) is None
    with pytest.raises(InvalidOptionError, match="snapshot token"):
        make(location).scan(as_of=text)
