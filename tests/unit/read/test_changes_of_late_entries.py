"""Changes of rows that a commit changed although its own version of them lost: told once, with what was there before and after."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from support.log_tables import append_block, next_time
from support.tables import make

import pyhudi_core as hudi
from pyhudi_core.formats.log.blocks import BlockType, Header
from pyhudi_core.formats.log.contents import DeleteRecord, write_deletes, write_records
from pyhudi_core.model.meta_fields import META_FIELDS, with_meta_fields
from pyhudi_core.model.schema import to_avro

SCHEMA = pa.schema(
    [("id", pa.string()), ("ts", pa.int32()), ("a", pa.string()), ("f", pa.float64()), ("l", pa.list_(pa.int64()))]
)
NAN = float("nan")


def merge_on_read(location: Path, properties: str = "", **row: Any) -> hudi.HudiTable:
    """A table with one row, whose updates go to logs."""
    make(str(location), SCHEMA, ordering="ts").bulk_insert(pa.Table.from_pylist([row], SCHEMA))
    path = location / ".hoodie" / "hoodie.properties"
    lines = [
        line for line in path.read_text().splitlines() if not properties or not line.startswith("hoodie.record.merge.")
    ]
    path.write_text("\n".join([*lines, properties]).replace("COPY_ON_WRITE", "MERGE_ON_READ"))
    return hudi.open_table(str(location))


def upsert(table: hudi.HudiTable, partial: bool = False, **row: Any) -> hudi.HudiTable:
    """A block with one row, of these columns only if it is partial."""
    columns = [item for item in with_meta_fields(SCHEMA) if item.name in META_FIELDS or item.name in row or not partial]
    schema = to_avro(pa.schema(columns), "row")
    meta = dict.fromkeys(META_FIELDS, "") | {"_hoodie_commit_time": next_time(table), "_hoodie_record_key": row["id"]}
    record = dict.fromkeys(SCHEMA.names) | meta | row
    headers = {Header.SCHEMA: schema} | ({Header.IS_PARTIAL: "true"} if partial else {})
    [piece] = table.scan().slices()
    content = write_records(schema, [{item.name: record[item.name] for item in columns}])
    append_block(table, piece, BlockType.AVRO_DATA, headers, content)
    return hudi.open_table(table.location)


def newest_changes(table: hudi.HudiTable) -> list[dict[str, Any]]:
    """What the newest commit changed."""
    *_, before, _ = sorted(instant.completion_time or "" for instant in table.timeline.commits)
    found: list[dict[str, Any]] = table.changes(after=before).to_arrow().to_pylist()
    return found


def test_a_late_row_that_fills_what_a_partial_update_left_out_is_told(tmp_path: Path) -> None:
    table = merge_on_read(tmp_path / "t", id="x", ts=1, a="base", f=NAN, l=[1])
    table = upsert(table, partial=True, id="x", ts=9, f=NAN)
    assert [change["op"] for change in newest_changes(table)] == ["u"]
    table = upsert(table, id="x", ts=5, a="late", f=2.0, l=[2])
    [change] = newest_changes(table)
    assert (change["op"], change["before"]["a"], change["after"]["a"]) == ("u", "base", "late")
    assert (change["before"]["l"], change["after"]["l"], change["after"]["ts"]) == ([1], [2], 9)


def test_a_late_row_that_changes_nothing_is_not_told(tmp_path: Path) -> None:
    table = merge_on_read(tmp_path / "t", id="x", ts=7, a="base", f=NAN, l=[1])
    assert newest_changes(upsert(table, id="x", ts=5, a="late", f=1.0)) == []


def test_a_base_row_that_is_back_after_a_late_delete_is_told(tmp_path: Path) -> None:
    payload = "hoodie.record.merge.mode=CUSTOM\nhoodie.record.merge.strategy.id=00000000-0000-0000-0000-000000000000\n"
    payload += "hoodie.compaction.payload.class=org.apache.hudi.common.model.OverwriteWithLatestAvroPayload"
    table = merge_on_read(tmp_path / "t", payload, id="x", ts=7, a="base")
    table = upsert(table, id="x", ts=2, a="log")
    [piece] = table.scan().slices()
    append_block(table, piece, BlockType.DELETE, {}, write_deletes([DeleteRecord("x", "", 3, "IntWrapper")]))
    [change] = newest_changes(hudi.open_table(table.location))
    assert (change["op"], change["before"]["a"], change["after"]["a"]) == ("u", "log", "base")


def test_rows_of_one_key_are_told_apart(tmp_path: Path) -> None:
    """Hudi's inserts may put a key into a file twice; what a commit left alone is no change."""
    table = merge_on_read(tmp_path / "t", id="x", ts=7, a="one")
    [piece] = table.scan().slices()
    path = Path(table.location, piece.base.path)
    row = pq.read_table(path)
    twice = pa.concat_tables([row, row.set_column(row.schema.get_field_index("a"), "a", pa.array(["two"]))])
    pq.write_table(twice, path)
    table = upsert(table, id="y", ts=1, a="new")
    assert [(change["op"], change["after"]["id"]) for change in newest_changes(table)] == [("i", "y")]
    table = upsert(table, id="x", ts=9, a="three")
    told = [(change["op"], change["before"]["a"], change["after"]["a"]) for change in newest_changes(table)]
    assert sorted(told) == [("u", "one", "three"), ("u", "two", "three")]


def test_a_log_without_an_entry_changes_nothing(tmp_path: Path) -> None:
    table = merge_on_read(tmp_path / "t", id="x", ts=7, a="one")
    [piece] = table.scan().slices()
    append_block(table, piece, BlockType.DELETE, {}, write_deletes([]), rows=0)
    table = hudi.open_table(table.location)
    assert table.scan().to_arrow().column("a").to_pylist() == ["one"]
    assert newest_changes(table) == []
