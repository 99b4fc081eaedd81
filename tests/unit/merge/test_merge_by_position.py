"""Positions in log blocks: entries meet base rows by position where every block has them, and read the same rows as by record key."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.golden import unpack

import pyhudi_core as hudi
from pyhudi_core.errors import CorruptLogBlockError
from pyhudi_core.formats.log.blocks import Header, encode_block, encode_positions
from pyhudi_core.formats.log.reader import LogReader
from pyhudi_core.merge.log_scan import LogScan

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("ts", pa.int64()),
        ("text", pa.string()),
        ("tags", pa.list_(pa.string())),
        ("_hoodie_is_deleted", pa.bool_()),
    ]
)
WITHOUT = {"hoodie.write.record.positions": "false"}


def rows_of(ids: Iterable[int], rng: np.random.Generator, *, gone: float = 0.0) -> pa.Table:
    rows = [
        {
            "id": int(number),
            "ts": int(rng.integers(0, 4)),
            "text": None if rng.random() < 0.2 else f"text {rng.integers(0, 99)}",
            "tags": ["a"] * int(rng.integers(0, 3)),
            "_hoodie_is_deleted": bool(rng.random() < gone),
        }
        for number in ids
    ]
    return pa.Table.from_pylist(rows, SCHEMA)


def made(location: str, ordering: str | None) -> None:
    hudi.create_table(location, SCHEMA, record_key="id", ordering=ordering, table_type="MERGE_ON_READ")


def changed(location: str, options: dict[str, str], seed: int) -> hudi.HudiTable:
    """Load 60 rows, then upsert, update and delete some of them in five commits."""
    rng = np.random.default_rng(seed)
    hudi.open_table(location).insert(rows_of(range(60), rng))
    table = hudi.open_table(location, options=options)
    for _ in range(5):
        table.upsert(rows_of(rng.choice(60, 15, replace=False), rng, gone=0.2))
        table.update({"text": "text || '!'"}, where=f"id % 7 = {rng.integers(0, 7)}")
        table.delete(keys=pa.table({"id": rng.choice(60, 3, replace=False)}))
    return hudi.open_table(location)


def by_position(table: hudi.HudiTable, monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Return for each slice with logs that a scan reads whether its entries met by position."""
    found: list[bool] = []
    entries = LogScan.entries

    def noted(self: LogScan, *given: object) -> object:
        result = entries(self, *given)  # type: ignore[arg-type]
        if result is not None and self.logs and ".hoodie" not in self.storage.location:
            found.append(result.by_position)
        return result

    with monkeypatch.context() as patch:
        patch.setattr(LogScan, "entries", noted)
        table.scan().to_arrow()
    return found


def values(table: hudi.HudiTable, *columns: str) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = table.scan(list(columns or SCHEMA.names)).to_arrow().sort_by("id").to_pylist()
    return rows


@pytest.mark.row("H5")
@pytest.mark.parametrize("ordering", ["ts", None], ids=["event time", "commit time"])
@pytest.mark.parametrize("seed", range(2))
def test_rows_are_the_same_by_position_as_by_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ordering: str | None, seed: int
) -> None:
    found = []
    for name, options in (("positions", {}), ("keys", WITHOUT)):
        location = str(tmp_path / name)
        made(location, ordering)
        found.append(changed(location, options, seed))
    assert all(by_position(found[0], monkeypatch))
    assert not any(by_position(found[1], monkeypatch))
    assert values(found[0]) == values(found[1])
    assert values(found[0], "id", "tags") == values(found[1], "id", "tags")
    assert [table.count() for table in found] == [len(values(found[0]))] * 2
    for table in found:
        table.compaction.run()
    compacted = [hudi.open_table(table.location) for table in found]
    assert values(compacted[0]) == values(compacted[1]) == values(found[0])


@pytest.mark.row("H5")
def test_a_key_that_a_base_file_has_twice_gets_no_position(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hudi's inserts can write a key twice. An update means both rows, and a position would be that of one."""
    location = str(tmp_path / "table")
    made(location, None)
    rng = np.random.default_rng(1)
    hudi.open_table(location).insert(rows_of(range(6), rng))
    (base,) = Path(location).glob("*.parquet")
    whole = pq.read_table(base)
    metadata = pq.read_schema(base).metadata
    pq.write_table(pa.concat_tables([whole, whole.slice(2, 1)]).replace_schema_metadata(metadata), base)
    hudi.open_table(location).upsert(rows_of([1], rng))
    assert by_position(hudi.open_table(location), monkeypatch) == [True]
    hudi.open_table(location).delete(keys=pa.table({"id": [2]}))
    table = hudi.open_table(location)
    assert by_position(table, monkeypatch) == [False]
    assert [row["id"] for row in values(table)] == [0, 1, 3, 4, 5]


def rewritten(location: str, positions: Iterator[str]) -> None:
    """Give the blocks of all logs other positions in the same base file."""
    for path in sorted(Path(location).glob(".*.log.*")):
        data = path.read_bytes()
        opened = LogReader(pa.BufferReader(data), path.name)
        parts = []
        for block in opened.blocks():
            headers = {Header(key): value for key, value in block.headers.items()}
            headers[Header.RECORD_POSITIONS] = next(positions)
            parts.append(encode_block(block.type, headers, opened.content(block).to_pybytes()))
        path.write_bytes(b"".join(parts))


@pytest.mark.row("H5")
@pytest.mark.parametrize(
    "positions",
    [([], []), ([0], [0]), (range(16), range(16)), (range(6), range(4)), (range(4), range(6)), (range(1 << 24),) * 2],
    ids=["none", "too few", "too many", "one more", "one less", "millions"],
)
def test_entries_with_another_number_of_positions_are_read_by_key(
    tmp_path: Path, positions: tuple[Iterable[int], Iterable[int]]
) -> None:
    location = str(tmp_path / "table")
    made(location, None)
    rng = np.random.default_rng(2)
    hudi.open_table(location).insert(rows_of(range(20), rng))
    for _ in range(2):  # two Avro blocks, which are read together
        hudi.open_table(location).upsert(rows_of(rng.choice(20, 5, replace=False), rng))
    right = values(hudi.open_table(location))
    rewritten(location, map(encode_positions, positions))
    tracemalloc.start()
    assert values(hudi.open_table(location)) == right
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 16 << 20


@pytest.mark.row("H5", "P9")
@pytest.mark.parametrize("position", [20, 2**40, 2**63 + 5])
def test_a_position_outside_of_the_base_file_is_an_error(tmp_path: Path, position: int) -> None:
    location = str(tmp_path / "table")
    made(location, None)
    rng = np.random.default_rng(3)
    hudi.open_table(location).insert(rows_of(range(20), rng))
    hudi.open_table(location).upsert(rows_of([4], rng))
    rewritten(location, iter([encode_positions([position])]))
    with pytest.raises(CorruptLogBlockError, match="positions of rows that the base file, with its 20 rows, does not"):
        hudi.open_table(location).scan().to_arrow()


@pytest.mark.row("H5")
@pytest.mark.parametrize("name", ["hudi-1.0.2/mor_avro"])
def test_tables_of_hudi_are_read_by_position(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    assert any(by_position(hudi.open_table(unpack(name, tmp_path / "table")), monkeypatch))
