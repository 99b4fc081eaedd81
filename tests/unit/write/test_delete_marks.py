"""Rows whose text in one column marks them as deletes, and values that are not repeated (version 9, RFC-97), in every kind of table.

The judge is a dictionary: the law of one key is a few lines of Python.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.metadata_tables import assert_metadata_is_true

import pyhudi as hudi
from pyhudi_core.errors import DataError, InvalidOptionError, SchemaMismatchError

MODEL = "org.apache.hudi.common.model"
FIELD, MARKER = "hoodie.payload.delete.field", "hoodie.payload.delete.marker"
LEFT_OUT = "__debezium_unavailable_value"
SCHEMA = pa.schema(
    [
        ("id", pa.string()), ("day", pa.string()), ("_event_lsn", pa.int64()), ("_event_bin_file", pa.string()), ("_event_pos", pa.int64()),
        ("Op", pa.string()), ("_change_operation_type", pa.string()), ("text", pa.string()), ("raw", pa.binary()), ("number", pa.int64()),
    ]
)  # fmt: skip
LAWS: dict[str, tuple[dict[str, str], tuple[str, ...], tuple[str, str]]] = {
    "dms": ({"hoodie.compaction.payload.class": f"{MODEL}.AWSDmsAvroPayload"}, (), ("Op", "D")),
    "postgres": (
        {"hoodie.compaction.payload.class": f"{MODEL}.debezium.PostgresDebeziumAvroPayload"},
        ("_event_lsn",),
        ("_change_operation_type", "d"),
    ),
    "mysql": (
        {"hoodie.compaction.payload.class": f"{MODEL}.debezium.MySqlDebeziumAvroPayload"},
        ("_event_bin_file", "_event_pos"),
        ("_change_operation_type", "d"),
    ),
    "a user's own mark": ({FIELD: "number", MARKER: "-1"}, ("_event_lsn",), ("number", "-1")),
    "a user's own mark, commit time": ({FIELD: "Op", MARKER: "gone"}, (), ("Op", "gone")),
}
"""By name: options of the table, its ordering columns, and its mark."""
KINDS: dict[str, dict[str, Any]] = {
    "copy-on-write": {},
    "merge-on-read": {"table_type": "merge_on_read"},
    "merge-on-read with a record index": {
        "table_type": "merge_on_read",
        "options": {"hoodie.metadata.record.index.enable": "true"},
    },
    "copy-on-write, rows move": {
        "partition_by": "day",
        "options": {
            "hoodie.metadata.global.record.level.index.enable": "true",
            "hoodie.index.type": "RECORD_INDEX",
            "hoodie.record.index.update.partition.path": "true",
        },
    },
    "merge-on-read with change logs": {"table_type": "merge_on_read", "options": {"hoodie.table.cdc.enabled": "true"}},
    "buckets": {
        "table_type": "merge_on_read",
        "options": {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "2"},
    },
}
REFUSED = [("postgres", "copy-on-write, rows move"), ("postgres", "merge-on-read with change logs")]
"""Tables that no merger has here; docs/refusals.md says why."""


def made(place: Path, kind: str, law: str) -> hudi.HudiTable:
    given, (options, ordering, _) = dict(KINDS[kind]), LAWS[law]
    options = {**options, **given.pop("options", {}), "hoodie.clean.automatic": "false"}
    return hudi.create_table(str(place), SCHEMA, "id", ordering=ordering, version=9, options=options, **given)


def row(chance: random.Random, key: str, time: int, mark: tuple[str, str]) -> dict[str, Any]:
    one: dict[str, Any] = {
        "id": key, "day": chance.choice("ab"), "_event_lsn": time, "_event_bin_file": f"f{time // 10:03}", "_event_pos": time % 10, "Op": "U",
        "_change_operation_type": "u", "text": chance.choice([None, LEFT_OUT, f"t{time}"]), "raw": chance.choice([LEFT_OUT.encode(), b"x"]),
        "number": time,
    }  # fmt: skip
    if chance.random() < 0.3:
        one[mark[0]] = -1 if mark[0] == "number" else mark[1]
    return one


def merged(old: dict[str, Any] | None, new: dict[str, Any], law: str) -> dict[str, Any] | None:
    """What is left of a key: None if it is deleted."""
    _, ordering, mark = LAWS[law]
    late = old is not None and [new[name] for name in ordering] < [old[name] for name in ordering]
    if str(new[mark[0]]) == mark[1]:
        return old if late else None
    if old is None or law != "postgres":
        return old if late else new
    high, low = (old, new) if late else (new, old)
    return {name: low[name] if value in (LEFT_OUT, LEFT_OUT.encode()) else value for name, value in high.items()}


def state(table: hudi.HudiTable) -> dict[str, dict[str, Any]]:
    return {one["id"]: one for one in table.scan(meta=False).to_arrow().to_pylist()}


@pytest.mark.row("Q2")
@pytest.mark.parametrize(("law", "kind"), [(law, kind) for law in LAWS for kind in KINDS if (law, kind) not in REFUSED])
def test_rows_that_are_marked_delete_in_every_kind_of_table(law: str, kind: str, tmp_path: Path) -> None:
    table, chance, expected = (
        made(tmp_path / "t", kind, law),
        random.Random(f"{law}{kind}"),
        dict[str, dict[str, Any]](),
    )
    mark, removed = LAWS[law][2], set[str]()
    for number in range(5):
        keys = chance.sample([f"k{n:02}" for n in range(30)], 12)
        given = []
        for key in keys:
            # A row that is older than the delete of its key is another subject (decision 0039).
            late = key in expected and chance.random() < 0.3
            given.append(row(chance, key, 5 * number + (0 if late else 20 * number + 20), mark))
            # Entries of logs meet each other before the base row. So a late row may fill what the base row has, and the base row what a new row
            # lacks whose key was deleted: that is Hudi's law, too, and not the subject here.
            if KINDS[kind].get("table_type") and late:
                given[-1] |= {"text": LEFT_OUT, "raw": LEFT_OUT.encode()}
            elif KINDS[kind].get("table_type") and key in removed:
                given[-1] |= {"text": "again", "raw": b"x"}
        if "rows move" in kind:
            given = [
                {**one, "day": expected[one["id"]]["day"]}
                if one["_event_lsn"] < 20 * number and one["id"] in expected
                else one
                for one in given
            ]
        table.upsert(pa.Table.from_pylist(given, SCHEMA))
        for one in given:
            left = merged(expected.get(one["id"]), one, law)
            if left is None:
                expected.pop(one["id"], None)
                removed.add(one["id"])
            else:
                expected[one["id"]] = left
        assert state(table) == expected, number
    assert removed - expected.keys(), "no row was deleted for good"
    assert_metadata_is_true(table)
    assert table.count() == len(expected)
    for service in (table.log_compaction, table.compaction, table.clustering):
        if service is not table.clustering or kind != "buckets":
            service.run()
        assert state(table) == expected
    key = min(expected)
    assert table.scan(where=f"id = '{key}'", meta=False).to_arrow().to_pylist() == [expected[key]]
    table.insert(
        pa.Table.from_pylist(
            [{**row(random.Random(3), "new", 900, ("Op", "U")), mark[0]: -1 if mark[0] == "number" else mark[1]}],
            SCHEMA,
        )
    )
    assert state(table) == expected, "an insert of a marked row adds nothing"
    assert not table.check().errors
    assert set(table.schema.names) == set(SCHEMA.names)


@pytest.mark.row("Q2")
@pytest.mark.parametrize("kind", ["copy-on-write", "merge-on-read"])
def test_of_two_rows_of_a_key_in_one_batch_a_marked_one_deletes(kind: str, tmp_path: Path) -> None:
    table = made(tmp_path / "t", kind, "dms")
    rows = [row(random.Random(1), f"k{n}", 5, ("Op", "U")) for n in range(3)]
    table.upsert(pa.Table.from_pylist([*rows, rows[0] | {"Op": "D"}, rows[1] | {"Op": "d"}], SCHEMA))
    assert state(table).keys() == {"k1", "k2"}, "the case of a mark counts"
    table.upsert(pa.Table.from_pylist([rows[1] | {"Op": "D"}, rows[1] | {"number": 77}], SCHEMA))
    assert state(table)["k1"]["number"] == 77


def test_a_rule_of_the_table_does_not_judge_marked_rows(tmp_path: Path) -> None:
    options = {FIELD: "Op", MARKER: "D"}
    rules = hudi.TableRules(not_null=["text"])
    table = hudi.create_table(str(tmp_path / "t"), SCHEMA, "id", version=9, options=options, rules=rules)
    good = row(random.Random(1), "k1", 5, ("Op", "U")) | {"text": "here"}
    table.upsert(pa.Table.from_pylist([good], SCHEMA))
    table.upsert(pa.Table.from_pylist([good | {"text": None, "Op": "D"}], SCHEMA))
    assert table.count() == 0
    with pytest.raises(DataError, match="text"):
        table.upsert(pa.Table.from_pylist([good | {"text": None}], SCHEMA))


@pytest.mark.parametrize(
    ("options", "version", "says"),
    [
        ({FIELD: "Op"}, 9, MARKER),
        ({MARKER: "D"}, 9, FIELD),
        ({FIELD: "Op", MARKER: "D"}, 8, "version=9"),
        ({FIELD: "nothing", MARKER: "D"}, 9, "is not there"),
        ({FIELD: "Op", MARKER: "D", "hoodie.compaction.payload.class": f"{MODEL}.debezium.PostgresDebeziumAvroPayload"}, 9, "would not keep"),
    ],
)  # fmt: skip
def test_a_mark_that_a_table_would_not_keep_is_refused(
    options: dict[str, str], version: int, says: str, tmp_path: Path
) -> None:
    ordering = "_event_lsn" if "hoodie.compaction.payload.class" in options else None
    with pytest.raises(InvalidOptionError) as raised:
        hudi.create_table(str(tmp_path / "t"), SCHEMA, "id", ordering=ordering, version=version, options=options)
    assert says in str(raised.value)
    assert "Nothing was created." in str(raised.value)
    assert not (tmp_path / "t").exists()


def test_a_payload_class_that_demands_its_ordering_columns_says_so(tmp_path: Path) -> None:
    options = {"hoodie.compaction.payload.class": f"{MODEL}.debezium.MySqlDebeziumAvroPayload"}
    with pytest.raises(InvalidOptionError, match=r"_event_bin_file, _event_pos"):
        hudi.create_table(str(tmp_path / "t"), SCHEMA, "id", ordering="_event_lsn", version=9, options=options)


@pytest.mark.row("Q2")
@pytest.mark.parametrize("law", ["dms", "postgres"])
@pytest.mark.parametrize("kind", ["copy-on-write", "merge-on-read"])
def test_a_payload_class_that_marks_deletes_goes_to_version_8_and_back(law: str, kind: str, tmp_path: Path) -> None:
    table = made(tmp_path / "t", kind, law)
    rows = [row(random.Random(1), f"k{n}", 5, ("Op", "U")) | {"text": f"t{n}", "raw": b"x"} for n in range(6)]
    table.upsert(pa.Table.from_pylist(rows, SCHEMA))
    expected, before = state(table), dict(table.config.raw)
    if kind == "merge-on-read":
        table.compaction.run()
    table.downgrade(8)
    table = hudi.open_table(str(tmp_path / "t"))
    assert table.config.version == 8
    assert table.config.payload_class == LAWS[law][0]["hoodie.compaction.payload.class"]
    assert not [key for key in table.config.raw if "record.merge.property" in key or "partial.update" in key]
    assert state(table) == expected
    table.upgrade(9)
    table = hudi.open_table(str(tmp_path / "t"))
    laws = [key for key in before if "merge" in key or "legacy" in key or "partial" in key or "ordering" in key]
    assert {key: table.config.raw.get(key) for key in laws} == {key: before[key] for key in laws}
    assert state(table) == expected


@pytest.mark.row("Q2")
@pytest.mark.parametrize(
    ("payload", "missing", "ordering"),
    [
        ("PartialUpdateAvroPayload", None, "_event_lsn"),
        ("debezium.PostgresDebeziumAvroPayload", LEFT_OUT, "_event_lsn"),
    ],
)
def test_a_late_row_fills_what_a_stored_row_lacks_and_is_part_of_the_commit(
    payload: str, missing: str | None, ordering: str, tmp_path: Path
) -> None:
    options = {"hoodie.compaction.payload.class": f"{MODEL}.{payload}"}
    table = hudi.create_table(str(tmp_path / "t"), SCHEMA, "id", ordering=ordering, version=9, options=options)
    one = row(random.Random(1), "k1", 50, ("Op", "U")) | {"Op": "U", "text": missing, "raw": b"x"}
    other = one | {"id": "k2", "text": "here"}
    table.upsert(pa.Table.from_pylist([one, other], SCHEMA))
    before = table.timeline.commits[-1].completion_time
    late = {"_event_lsn": 10, "text": "late", "number": 7}
    done = table.upsert(pa.Table.from_pylist([one | late, other | late], SCHEMA))
    assert state(table) == {"k1": one | {"text": "late"}, "k2": other}
    assert done.stats.rows_updated == 1
    assert [changed["id"] for changed in table.incremental(after=before).to_arrow().to_pylist()] == ["k1"]


def _merge(table: hudi.HudiTable, rows: pa.Table) -> None:
    table.merge(rows, on="id").when_matched_update_all().when_not_matched_insert_all().run()


def _in_a_transaction(table: hudi.HudiTable, rows: pa.Table) -> None:
    other = hudi.create_table(f"{table.location}-other", SCHEMA, "id")
    with hudi.transaction([table, other]) as changes:
        changes.upsert(table, rows)
        changes.upsert(other, rows)


DOORS: dict[str, Callable[[hudi.HudiTable, pa.Table], object]] = {
    "upsert": lambda table, rows: table.upsert(rows),
    "batch": lambda table, rows: table.upsert(rows, batch=True),
    "partial": lambda table, rows: table.upsert(rows.select(["id", "Op"]), partial=True),
    "merge": _merge,
    "update": lambda table, rows: table.update({"Op": "'D'"}, where="id = 'k1'"),
    "sql": lambda table, rows: hudi.sql("UPDATE t SET Op = 'D' WHERE id = 'k1'", tables={"t": table}),
    "overwrite": lambda table, rows: table.insert_overwrite_table(
        pa.concat_tables([table.to_arrow().slice(0, 1), rows])
    ),
    "transaction": _in_a_transaction,
}


@pytest.mark.row("Q2")
@pytest.mark.parametrize("kind", ["copy-on-write", "merge-on-read"])
@pytest.mark.parametrize("door", DOORS)
def test_a_marked_row_deletes_at_every_door(door: str, kind: str, tmp_path: Path) -> None:
    table = made(tmp_path / "t", kind, "dms")
    rows = [row(random.Random(n), f"k{n}", 5, ("Op", "U")) | {"Op": "U"} for n in range(2)]
    table.upsert(pa.Table.from_pylist(rows, SCHEMA))
    DOORS[door](table, pa.Table.from_pylist([rows[1] | {"Op": "D"}], SCHEMA))
    table = hudi.open_table(str(tmp_path / "t"))
    assert state(table) == {"k0": rows[0]}
    assert not table.check().errors


def test_a_table_with_a_mark_keeps_the_values_of_its_own_column_of_deletes(tmp_path: Path) -> None:
    schema = pa.schema([*SCHEMA, ("_hoodie_is_deleted", pa.bool_())])
    table = hudi.create_table(str(tmp_path / "t"), schema, "id", version=9, options={FIELD: "Op", MARKER: "D"})
    one = row(random.Random(1), "k1", 5, ("Op", "U")) | {"Op": "U", "_hoodie_is_deleted": None}
    others = [one | {"id": "k2", "_hoodie_is_deleted": True}, one | {"id": "k3", "Op": "D"}]
    table.upsert(pa.Table.from_pylist([one, *others], schema))
    assert state(table) == {"k1": one}
    text = pa.schema([*SCHEMA, ("_hoodie_is_deleted", pa.string())])
    table = hudi.create_table(str(tmp_path / "s"), text, "id", version=9, options={FIELD: "Op", MARKER: "D"})
    with pytest.raises(SchemaMismatchError, match="make it boolean"):
        table.upsert(pa.Table.from_pylist([one | {"_hoodie_is_deleted": "no"}], text))


@pytest.mark.parametrize(
    "kind", [pa.binary(), pa.float64(), pa.decimal128(9, 2), pa.date32(), pa.list_(pa.string())], ids=str
)
def test_a_column_whose_values_have_several_texts_marks_nothing(kind: pa.DataType, tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.string()), ("m", kind)])
    with pytest.raises(InvalidOptionError, match="text, integers or booleans"):
        hudi.create_table(str(tmp_path / "t"), schema, "id", version=9, options={FIELD: "m", MARKER: "1.0"})


def test_a_table_of_mysql_has_the_ordering_of_version_8_after_a_downgrade(tmp_path: Path) -> None:
    options, ordering, _ = LAWS["mysql"]
    schema = pa.schema([*SCHEMA, ("_event_seq", pa.string())])
    table = hudi.create_table(str(tmp_path / "t"), schema, "id", ordering=ordering, version=9, options=options)
    table.downgrade(8)
    table = hudi.open_table(str(tmp_path / "t"))
    assert table.config.raw["hoodie.table.precombine.field"] == "_event_seq"
    table.upgrade(9)
    assert tuple(hudi.open_table(str(tmp_path / "t")).config.ordering_fields) == ordering
