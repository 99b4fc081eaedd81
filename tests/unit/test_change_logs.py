"""Change logs that we write: in the form of Hudi's, with the changes that `changes` finds by comparing states."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.all_types import SCHEMA as ALL_TYPES
from support.all_types import rows as rows_of_all_types
from support.golden import unpack
from support.metadata_tables import build, listing_of, metadata_of
from support.tables import create_plain, make, orders, reopen

import pyhudi_core as hudi
from pyhudi_core.errors import SnapshotExpiredError
from pyhudi_core.formats.log.blocks import BlockType, Header
from pyhudi_core.formats.log.changes import DELETE, INSERT, UPDATE, ChangeForm, ChangeWriter
from pyhudi_core.formats.log.contents import read_records
from pyhudi_core.formats.log.reader import LogReader
from pyhudi_core.model.commit import WriteStat
from pyhudi_core.model.properties import CdcMode
from pyhudi_core.model.schema import from_avro, to_avro

MODES = [mode.value for mode in CdcMode]
TYPES = ["COPY_ON_WRITE", "MERGE_ON_READ"]


def cdc(mode: str) -> dict[str, str]:
    return {"hoodie.table.cdc.enabled": "true", "hoodie.table.cdc.supplemental.logging.mode": mode}


def table_of(
    location: str, mode: str = "DATA_BEFORE_AFTER", kind: str = "COPY_ON_WRITE", **more: Any
) -> hudi.HudiTable:
    more.setdefault("ordering", "ts")
    made = make(location, table_type=kind, options=cdc(mode), **more)
    made.upsert(orders((1, "a", 1.0, 10), (2, "a", 2.0, 10), (3, "b", 3.0, 10)))
    return made


def last_stats(table: hudi.HudiTable) -> list[WriteStat]:
    return list(table.commit_metadata(table.timeline.commits[-1]).stats)


def told_in(table: hudi.HudiTable, stat: WriteStat) -> list[dict[str, Any]]:
    """The records of the change log of a file."""
    [path] = stat.change_logs
    with table._opened.storage.open_input(path) as source:
        reader = LogReader(source, path)
        blocks = [
            (block, read_records(reader.content(block), block.headers[Header.SCHEMA], path))
            for block in reader.blocks()
        ]
    assert {block.type for block, _ in blocks} == {BlockType.CDC_DATA}
    assert {block.instant_time for block, _ in blocks} == {table.timeline.commits[-1].requested_time}
    found = [row for _, records in blocks for row in records.to_pylist()]
    return sorted(found, key=lambda row: (row["op"], str(row)))


def changed(table: hudi.HudiTable, first: int = 0) -> list[str]:
    told = table.changes(after=table.timeline.commits[first].completion_time).to_arrow()
    return sorted(map(str, told.drop(["ts_ms"]).to_pylist()))


@pytest.mark.row("D6", "G6")
def test_the_bytes_of_a_change_log_are_hudis(tmp_path: Path) -> None:
    for mode in ("op_key_only", "data_before", "data_before_after"):
        location = unpack(f"hudi-1.0.2/cow_cdc_{mode}", tmp_path / mode)
        table = hudi.open_table(location)
        form = ChangeForm(table.config.cdc_mode, "", table.schema, to_avro(table.schema, table.name))
        logs = list(Path(location).rglob(".*.log.*cdc"))
        assert len(logs) > 3
        for log in logs:
            with pa.OSFile(str(log)) as source:
                reader = LogReader(source, log.name)
                [block] = reader.blocks()
                records = read_records(reader.content(block), block.headers[Header.SCHEMA], log.name)
                content = reader.content(block).to_pybytes()
            assert form.record_schema == block.headers[Header.SCHEMA]
            sink = io.BytesIO()
            writer = ChangeWriter(sink, ChangeForm(form.mode, block.instant_time, form.schema, form.avro_schema))
            for number, op in enumerate(records["op"].to_pylist()):
                row = pa.Table.from_batches([records.slice(number, 1)])
                images = [_image(row, name, op, table.schema) for name in ("before", "after")]
                writer.write(op, *images)
            writer.finish()
            assert content in sink.getvalue()


def _image(record: pa.Table, name: str, op: str, schema: pa.Schema) -> pa.Table | None:
    """The row before or after, with its key; of rows that the mode leaves out, the key alone with nulls."""
    if (name == "before" and op == INSERT) or (name == "after" and op == DELETE):
        return None
    key = record["record_key"] if "record_key" in record.column_names else pa.chunked_array([["none"]])
    if name not in record.column_names:
        rows = pa.table([pa.nulls(1, item.type) for item in schema], schema=schema)
    else:
        rows = pa.Table.from_struct_array(record[name])
    return rows.append_column("_hoodie_record_key", key)


@pytest.mark.row("D6")
@pytest.mark.parametrize("mode", MODES)
def test_a_rewrite_of_a_base_file_tells_each_change_in_the_mode_of_the_table(location: str, mode: str) -> None:
    table = table_of(location, mode)
    assert not any(stat.change_logs for stat in last_stats(table)), (
        "new file groups need no change log: all their rows are new"
    )
    table.upsert(orders((1, "a", 11.0, 11), (2, "a", 99.0, 1), (4, "a", 4.0, 1)))
    [stat] = last_stats(table)
    time = table.timeline.commits[-1].requested_time
    before = {"id": 1, "day": "a", "price": 1.0, "ts": 10}
    after, new = before | {"price": 11.0, "ts": 11}, {"id": 4, "day": "a", "price": 4.0, "ts": 1}
    expected = {
        "OP_KEY_ONLY": [{"op": "i", "record_key": "4"}, {"op": "u", "record_key": "1"}],
        "DATA_BEFORE": [
            {"op": "i", "record_key": "4", "before": None}, {"op": "u", "record_key": "1", "before": before},
        ],
        "DATA_BEFORE_AFTER": [
            {"op": "i", "ts_ms": time, "before": None, "after": new},
            {"op": "u", "ts_ms": time, "before": before, "after": after},
        ],
    }  # fmt: skip
    assert told_in(table, stat) == expected[mode]
    table.delete(pa.table({"id": [2], "day": ["a"]}))
    [told] = told_in(table, last_stats(table)[0])
    assert (told["op"], told.get("record_key", "2"), told.get("after")) == ("d", "2", None)
    [size] = last_stats(table)[0].change_log_sizes
    assert size == Path(location, last_stats(table)[0].change_logs[0]).stat().st_size


def test_a_rewrite_of_a_base_file_and_its_change_log_have_one_write_token(location: str) -> None:
    table = table_of(location)
    table.upsert(orders((1, "a", 11.0, 11)))
    [stat] = last_stats(table)
    file_id, token, time = Path(stat.path).stem.split("_")
    assert Path(stat.change_logs[0]).name == f".{file_id}_{time}.log.1_{token}.cdc"
    raw = table.commit_metadata(table.timeline.commits[-1]).raw["partitionToWriteStats"]["day=a"][0]
    assert raw["cdcStats"] == {stat.change_logs[0]: stat.change_log_sizes[0]}


@pytest.mark.one_in(2, first=1)
@pytest.mark.row("D6")
@pytest.mark.parametrize("kind", TYPES)
def test_changes_are_the_same_in_every_mode(tmp_path: Path, kind: str) -> None:
    found = []
    for mode in (*MODES, None):
        table = make(
            str(tmp_path / str(mode)), table_type=kind, ordering="ts", options={} if mode is None else cdc(mode)
        )
        table.upsert(orders((1, "a", 1.0, 10), (2, "a", 2.0, 10), (3, "b", 3.0, 10)))
        table.upsert(orders((1, "a", 11.0, 11), (3, "b", 0.0, 1), (4, "a", 4.0, 1), (5, "c", 5.0, 1)))
        table.upsert(orders((1, "a", 0.0, 20), (4, "a", 0.0, 20)).drop(["price"]), partial=True)
        table.delete(pa.table({"id": [2, 4], "day": ["a", "a"]}))
        table.insert_overwrite(orders((9, "b", 9.0, 9)))
        table.delete_partitions(["day=c"])
        found.append(changed(reopen(table), 0))
        assert table.check().ok
    assert len(found[-1]) == 10
    assert found[0] == found[1] == found[2] == found[3]


@pytest.mark.row("C2", "D6")
def test_logs_name_the_files_by_which_hudi_finds_their_changes(location: str) -> None:
    table = table_of(location, kind="MERGE_ON_READ")
    base = next(stat for stat in last_stats(table) if stat.partition == "day=a")
    logs = []
    for price in (11.0, 12.0):
        table.upsert(orders((1, "a", price, 11)))
        [raw] = table.commit_metadata(table.timeline.commits[-1]).raw["partitionToWriteStats"]["day=a"]
        logs.append(Path(raw["path"]).name)
        assert raw["baseFile"] == Path(base.path).name
        assert raw["logFiles"] == logs
        assert raw["prevCommit"] == table.timeline.commits[0].requested_time
        assert not raw["cdcStats"]
    assert not list(Path(location).rglob("*.cdc"))


def test_values_of_every_type_come_back_from_a_change_log(location: str) -> None:
    table = create_plain(location, ALL_TYPES, "id", options=cdc("DATA_BEFORE_AFTER"))
    data = rows_of_all_types()
    table.upsert(data)
    table.upsert(data.slice(0, 2))
    assert last_stats(table)[0].change_logs
    stored = {row["id"]: row for row in table.scan(columns=table.schema.names).to_arrow().to_pylist()}
    told = table.changes(after=table.timeline.commits[0].completion_time).to_arrow().to_pylist()
    assert len(told) == 2
    for change in told:
        assert str(change["before"]) == str(change["after"]) == str(stored[change["after"]["id"]])


def test_a_write_that_is_rolled_back_leaves_no_change_log(location: str) -> None:
    table = table_of(location)
    with table.begin("upsert") as write:
        write.write(orders((1, "a", 11.0, 11)))
        assert list(Path(location).rglob("*.cdc"))
    assert not list(Path(location).rglob("*.cdc"))
    assert table.upsert(orders((1, "a", 0.0, 1))).changed is False
    assert not list(Path(location).rglob("*.cdc"))


@pytest.mark.one_in(3)
@pytest.mark.row("D6")
@pytest.mark.parametrize("name", ["cow_cdc_data_before", "cow_cdc_op_key_only", "mor_cdc_data_before_after"])
def test_a_table_of_hudis_is_continued_in_its_mode(location: str, name: str) -> None:
    table = hudi.open_table(unpack(f"hudi-1.0.2/{name}", location))
    table = hudi.open_table(location)
    before = len(table.timeline.commits)
    found = table.scan(columns=table.schema.names).to_arrow().slice(0, 3)
    table.upsert(found)
    assert all(stat.change_logs for stat in last_stats(table) if stat.path.endswith(".parquet"))
    told = table.changes(after=table.timeline.commits[before - 1].completion_time).to_arrow()
    assert told["op"].to_pylist() == ["u"] * 3


@pytest.mark.row("D6", "I1")
def test_the_metadata_table_lists_change_logs(location: str) -> None:
    table = table_of(location)
    build(table, "files")
    table = reopen(table)
    table.upsert(orders((1, "a", 11.0, 11)))
    [stat] = last_stats(table)
    listed = {info.path: info.size for info in listing_of(metadata_of(table)).files("day=a")}
    assert listed[stat.change_logs[0]] == stat.change_log_sizes[0]
    assert listed[stat.path] == stat.size


def test_a_metadata_table_that_is_built_again_lists_change_logs(location: str) -> None:
    table = reopen(table_of(location, "OP_KEY_ONLY"), hoodie__metadata__enable=True)
    table.upsert(orders((1, "a", 1.5, 11)))
    table.upsert(orders((1, "a", 1.6, 12)))
    assert table.check().ok
    table.metadata_table.rebuild()
    assert table.check().findings == ()


def test_a_compaction_is_no_change(location: str) -> None:
    table = table_of(location, kind="MERGE_ON_READ")
    table.upsert(orders((1, "a", 11.0, 11)))
    told = changed(table)
    assert table.compaction.run()
    assert changed(reopen(table)) == told
    table.upsert(orders((1, "a", 12.0, 12)))
    assert len(changed(table)) == len(told) + 1
    [raw] = table.commit_metadata(table.timeline.commits[-1]).raw["partitionToWriteStats"]["day=a"]
    assert len(raw["logFiles"]) == 1, "the slice begins anew with the compacted base file"


def test_schemas_of_change_logs_name_the_table_once() -> None:
    schema = pa.schema([("id", pa.int64()), ("price", pa.decimal128(9, 2))])
    form = ChangeForm(CdcMode.DATA_BEFORE_AFTER, "1", schema, to_avro(schema, "t-1"))
    record = from_avro(form.record_schema)
    assert record.names == ["op", "ts_ms", "before", "after"]
    assert record.field("before").type == record.field("after").type == pa.struct(list(schema))


def test_many_changes_come_in_several_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyhudi_core.formats.log.changes._BLOCK_BYTES", 2_000)
    schema = pa.schema([("id", pa.int64())])
    rows_ = pa.table({"id": range(50), "_hoodie_record_key": [str(number) for number in range(50)]})
    sink = io.BytesIO()
    writer = ChangeWriter(sink, ChangeForm(CdcMode.DATA_BEFORE_AFTER, "1", schema, to_avro(schema, "t")))
    for _ in range(5):
        writer.write(UPDATE, rows_, rows_)
    writer.finish()
    reader = LogReader(pa.BufferReader(sink.getvalue()), "x")
    blocks = list(reader.blocks())
    counts = [read_records(reader.content(block), block.headers[Header.SCHEMA], "x").num_rows for block in blocks]
    assert len(counts) > 1
    assert sum(counts) == 250


def test_a_change_log_that_a_clean_deleted_is_replaced_by_the_two_states_or_named(location: str) -> None:
    table = table_of(location)
    table.upsert(orders((1, "a", 1.5, 11)))
    start = table.timeline.commits[0].completion_time
    [stat] = last_stats(table)
    told = table.changes(after=start).to_arrow()
    table._opened.storage.delete(stat.change_logs[0])
    assert table.changes(after=start).to_arrow() == told, "a clean that died had deleted only the log"
    old = next(path for path in table.commit_metadata(table.timeline.commits[0]).paths if path.startswith("day=a/"))
    table._opened.storage.delete(old)
    with pytest.raises(SnapshotExpiredError, match="cleaned"):
        table.changes(after=start).to_arrow()


@pytest.mark.parametrize("table_type", ["cow", "mor"])
def test_an_overwrite_tells_the_deletes_of_what_it_replaced_first(location: str, table_type: str) -> None:
    """Who applies the changes in turn keeps the rows that are there again. Ids of file groups are random, so one try would prove little."""
    table = make(location, table_type=table_type)
    table.upsert(orders((1, "a", 1.0), (2, "a", 2.0), (3, "a", 3.0)))
    for value in range(5):
        last = table.timeline.commits[-1]
        table.insert_overwrite(orders((1, "a", float(value)), (2, "a", 2.0)))
        found = table.changes(after=last).to_arrow().column("op").to_pylist()
        assert found == ["d"] * (len(found) - 2) + ["i"] * 2
