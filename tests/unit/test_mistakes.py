"""What somebody is told who makes a mistake: what happened, to which table, and what to do now; and never by another library's error."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from support.tables import FAST, ORDERS, create_plain, make, orders

import pyhudi_core as hudi
from pyhudi_core.errors import ConfigError, CorruptionError, HudiError, InvalidOptionError

ROW = orders((1, "a", 1.0, 1))
Mistake = Callable[[hudi.HudiTable], Any]


def told(act: Callable[[], Any]) -> HudiError:
    """The error that a mistake ends in."""
    with pytest.raises(HudiError) as caught:
        act()
    return caught.value


READS: dict[str, Mistake] = {
    "unknown column": lambda table: table.scan(columns=["prize"]),
    "unknown column in a condition": lambda table: table.scan(where="prize = 1"),
    "wrong type in a condition": lambda table: table.scan(where="price = 'much'"),
    "condition that is no SQL": lambda table: table.scan(where="price = = 1"),
    "bytes of a command line in a condition": lambda table: table.scan(where="day = '\udcff'"),
    "bytes of a command line as a key": lambda table: table.key_history("\udcff"),
    "condition that is no condition": lambda table: table.scan(where=1),
    "unknown column in an expression": lambda table: table.scan(where=pc.field("prize") == 1),
    "wrong type in an expression": lambda table: table.scan(where=pc.field("price") == "much"),
    "bad time": lambda table: table.scan(as_of="yesterday"),
    "seconds since 1970 as a time": lambda table: table.scan(as_of="1735689600"),
    "milliseconds since 1970 as a time": lambda table: table.incremental(after="1735689600000"),
    "join on keys alone": lambda table: table.scan(semi_join="id"),  # type: ignore[arg-type]
    "join on a column that is no name": lambda table: table.scan(semi_join=([1], 1)),  # type: ignore[arg-type]
    "metadata of a time": lambda table: table.commit_metadata(table.timeline[0].requested_time),  # type: ignore[arg-type]
    "session that is none": lambda table: table.scan().to_spark("local[2]"),
    "bad start": lambda table: table.incremental(after="yesterday"),
    "bad start of changes": lambda table: table.changes(after="yesterday"),
    "unknown mode": lambda table: table.scan(mode="incremental"),
    "keys that are no rows": lambda table: table.lookup([1]),
    "text without quotes": lambda table: table.scan(where="day = a"),
    "keys without the key column": lambda table: table.lookup(pa.table({"number": [1]})),
    "keys of another type": lambda table: table.lookup(pa.table({"id": ["one"]})),
    "join on an unknown column": lambda table: table.scan(semi_join=(pa.array([1]), "prize")),
}

WRITES: dict[str, Mistake] = {
    "bytes of a command line in a value": lambda table: table.update({"price": "length('\udcff')"}),
    "bytes of a command line as a name of a check": lambda table: table.alter(add_check={"\udcff": "price > 0"}),
    "no data": lambda table: table.upsert(None),
    "missing column": lambda table: table.upsert(ROW.drop(["price"])),
    "column in other letters": lambda table: table.upsert(ROW.rename_columns(["ID", "day", "price", "ts"])),
    "key that pandas made a real number": lambda table: table.upsert(
        pd.DataFrame({**ROW.to_pydict(), "id": [None]}).astype({"id": float})
    ),
    "wrong type": lambda table: table.upsert(ROW.set_column(2, "price", pa.array(["much"]))),
    "values of two types": lambda table: table.upsert(ROW.to_pandas().astype({"price": object}).assign(price=["much"])),
    "values of two types in one column": lambda table: table.upsert(pd.DataFrame({"id": [1, "one"]})),
    "null key": lambda table: table.upsert(orders((None, "a"))),
    "unsafe partition": lambda table: table.upsert(orders((1, ".."))),
    "key that is there": lambda table: table.insert(ROW),
    "key twice": lambda table: table.insert(orders((7,), (7,))),
    "partial insert": lambda table: table.begin("insert", partial=True),
    "partial rows without a key": lambda table: table.upsert(ROW.drop(["id"]), partial=True),
    "partial rows with new keys": lambda table: table.upsert(orders((99,)).drop(["price"]), partial=True),
    "delete of nothing": lambda table: table.delete(),
    "delete by an unknown column": lambda table: table.delete(where="prize = 1"),
    "notes that are no text": lambda table: table.upsert(ROW, extra_metadata={"a": 1}),  # type: ignore[dict-item]
    "unknown operation": lambda table: table.begin("merge"),
    "notes that are a list": lambda table: table.upsert(ROW, extra_metadata=["a"]),  # type: ignore[arg-type]
    "requirements that are none": lambda table: table.begin(requirements=["latest"]),  # type: ignore[list-item]
    "requirement without a list": lambda table: table.begin(requirements=hudi.LatestInstantIs(None)),  # type: ignore[arg-type]
    "rows for a write that drops": lambda table: table.begin("delete_partition").write(ROW),
    "partitions for a write of rows": lambda table: table.begin("upsert").drop(("day=a",)),
    "bad token": lambda table: table.commit_status("mine"),
    "commit as a token": lambda table: table.commit_status(table.upsert(ROW)),  # type: ignore[arg-type]
    "rollback of no time": lambda table: table.rollback("../../x"),
    "rollback of a number": lambda table: table.rollback(20260101),  # type: ignore[arg-type]
    "condition as keys": lambda table: table.delete("id = 1"),
    "partition that is no text": lambda table: table.delete_partitions([1]),  # type: ignore[list-item]
    "partition outside of the table": lambda table: table.delete_partitions(["../../etc"]),
    "session that is none for a write": lambda table: table.upsert(ROW, spark="local[2]"),
}

PLACES: dict[str, Callable[[str], Any]] = {
    "no table": lambda location: hudi.open_table(f"{location}/absent"),
    "unknown option": lambda location: hudi.open_table(location, options={"hoodie.parquet.max.filesize": 1}),
    "bad option": lambda location: hudi.open_table(location, options={"hoodie.parquet.max.file.size": "big"}),
    "options that are text": lambda location: hudi.open_table(location, options="isolation=snapshot"),  # type: ignore[arg-type]
    "option that has no name": lambda location: hudi.open_table(location, options={1: 2}),  # type: ignore[dict-item]
    "option against the table": lambda location: hudi.open_table(
        location, options={"hoodie.table.recordkey.fields": "day"}
    ),
    "table that is there": lambda location: create_plain(location, ORDERS, "id"),
    "unknown key column": lambda location: create_plain(f"{location}-2", ORDERS, "number"),
    "key of a bad type": lambda location: create_plain(f"{location}-2", ORDERS, "price"),
    "key that is no name": lambda location: create_plain(f"{location}-2", ORDERS, 1),  # type: ignore[arg-type]
    "partition that is no name": lambda location: create_plain(f"{location}-2", ORDERS, "id", [1]),  # type: ignore[list-item]
    "ordering without a key": lambda location: create_plain(f"{location}-2", ORDERS, (), ordering="ts"),
    "schema that is none": lambda location: create_plain(f"{location}-2", ["id"], "id"),
    "type that is no word": lambda location: create_plain(f"{location}-2", ORDERS, "id", table_type=7),  # type: ignore[arg-type]
    "type that is another one in the options": lambda location: create_plain(
        f"{location}-2", ORDERS, "id", table_type="cow", options={"hoodie.table.type": "MERGE_ON_READ"}
    ),
}


def _says_all(error: HudiError, location: str) -> None:
    assert error.table is not None
    assert error.table.startswith(location)
    assert error.hint
    assert "Traceback" not in str(error)
    assert str(error).endswith((".", "?"))
    assert not str(error).endswith("..")


@pytest.mark.one_in(2)
@pytest.mark.parametrize("mistake", [*READS.values(), *WRITES.values()], ids=[*READS, *WRITES])
def test_a_mistake_at_a_table_names_the_table_and_what_to_do(location: str, mistake: Mistake) -> None:
    table = make(location)
    table.upsert(ROW)
    before = table.timeline
    _says_all(told(lambda: mistake(table)), location)
    assert len(table.timeline) - len(before) in (0, 1), "at most the write that a case makes on purpose"


@pytest.mark.parametrize("mistake", PLACES.values(), ids=[*PLACES])
def test_a_mistake_at_a_location_names_it_and_what_to_do(location: str, mistake: Callable[[str], Any]) -> None:
    make(location)
    _says_all(told(lambda: mistake(location)), location)
    assert not Path(f"{location}-2").exists()


def test_a_file_that_is_damaged_is_named_with_its_table(location: str) -> None:
    table = make(location)
    table.upsert(ROW)
    (file,) = Path(location, "day=a").glob("*.parquet")
    file.write_bytes(b"not a Parquet file")
    path = f"day=a/{file.name}"
    scan = table.scan()
    for read in (scan.to_arrow, lambda: list(scan.to_batches()), lambda: table.changes().to_arrow()):
        error = told(read)
        assert isinstance(error, CorruptionError)
        assert (error.table, error.path) == (location, path)


def test_a_commit_record_that_is_damaged_is_named_with_its_table(location: str) -> None:
    table = make(location)
    table.upsert(ROW)
    (record,) = Path(location, ".hoodie/.aux/.pyhudi").glob("commit_record*")
    with hudi.open_table(location, storage_options=FAST).begin() as write:
        write.write(ROW)
        bytes_ = record.read_bytes()
        record.write_bytes(b"nothing that anybody wrote")
        _says_all(told(write.commit), location)
        record.write_bytes(bytes_)


def test_blame_for_an_unsafe_argument_is_not_put_on_the_table(location: str) -> None:
    error = told(lambda: make(location).delete_partitions(["../../etc"]))
    assert "is not the path of a partition" in str(error)
    assert "damaged" not in str(error)


@pytest.mark.parametrize("place", [None, 7, "~/orders", "", "a\0b"], ids=repr)
def test_a_location_that_names_no_folder_is_told_before_anything_is_made(place: Any) -> None:
    for act in (lambda: hudi.open_table(place), lambda: create_plain(place, ORDERS, "id")):
        error = told(act)
        assert isinstance(error, ConfigError)
        assert error.hint
    assert not Path("~").exists()


@pytest.mark.parametrize("digits", ["20260131120000", "20260131120000123", "000"])
def test_digits_of_a_timeline_and_zeros_are_times(location: str, digits: str) -> None:
    table = make(location)
    table.upsert(ROW)
    assert table.incremental(after=digits).to_arrow().num_rows in (0, 1)


INTERNALS = ["sqlglot", "<class", "FieldRef", "pyarrow.lib", "Traceback", "botocore"]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("mistake", [*READS.values(), *WRITES.values()], ids=[*READS, *WRITES])
def test_a_message_is_in_the_words_of_this_package(location: str, mistake: Mistake) -> None:
    table = make(location)
    table.upsert(ROW)
    message = told(lambda: mistake(table)).message
    assert [word for word in INTERNALS if word in message] == []


@pytest.mark.parametrize(
    ("act", "hint"),
    [
        (lambda table: table.scan(where="day = a"), "write text in quotes"),
        (lambda table: table.scan(where=pc.field("prize") == 1), "id, day, price, ts"),
        (lambda table: table.lookup([1]), "pa.table({'id': [...]})"),
        (lambda table: table.lookup(pa.table({"id": ["one"]})), "Cast it to int64 first"),
        (lambda table: table.upsert(ROW.rename_columns(["ID", "day", "price", "ts"])), "the data has 'ID'"),
        (
            lambda table: table.upsert(ROW.rename_columns(["id", "day", "prise", "ts"])),
            "The data has 'prise'; did you mean 'price'?",
        ),
        (WRITES["key that pandas made a real number"], "Fill in or drop these rows"),
        (lambda table: table.delete("id = 1"), "delete(where='id = 1')"),
    ],
    ids=lambda value: value if isinstance(value, str) else "for",
)
def test_a_hint_is_about_the_mistake_that_was_made(location: str, act: Mistake, hint: str) -> None:
    table = make(location)
    table.upsert(ROW)
    assert hint in (told(lambda: act(table)).hint or "")


def test_what_the_disk_refuses_is_told_with_the_place(location: str) -> None:
    table = make(location)
    table.upsert(ROW)
    file = Path(location, ".hoodie/hoodie.properties")
    for place in (f"{location}/{'long' * 100}", str(file)):
        error = told(lambda place=place: create_plain(place, ORDERS, "id"))  # type: ignore[misc]
        assert error.table == place
        assert error.hint


def test_a_store_that_is_not_reached_is_told_with_what_to_check() -> None:
    nowhere = {"endpoint_url": "http://127.0.0.1:9", "region": "eu-west-1"}
    keys = {"access_key_id": "key", "secret_access_key": "very secret"}
    error = told(lambda: hudi.open_table("s3://bucket/orders", storage_options=nowhere | keys))
    assert error.table == "s3://bucket/orders"
    assert "endpoint" in (error.hint or "")
    assert "very secret" not in str(error)


def test_rows_without_a_key_are_not_counted_more_exactly_than_they_were_seen(location: str) -> None:
    many = pa.table(
        {"id": [None, *range(99_999)], "day": ["a"] * 100_000, "price": [0.0] * 100_000, "ts": [1] * 100_000}
    )
    message = told(lambda: make(location).upsert(many)).message
    assert message.startswith("At least 1 of the rows")


def test_storage_options_that_are_none_are_told(location: str) -> None:
    error = told(lambda: hudi.open_table(location, storage_options="secret=s3cr3t"))  # type: ignore[arg-type]
    assert isinstance(error, ConfigError)
    assert "cannot take storage_options, which is of type str" in str(error)
    assert "Pass a mapping" in str(error)
    assert "s3cr3t" not in str(error)


def test_a_data_frame_says_the_schema_of_a_new_table(tmp_path: Path) -> None:
    """Also a filtered one, whose unnamed index is no column."""
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"id": [1, 2, 3], "day": ["a", "b", "b"]})
    frame = frame[frame["id"] > 1]
    table = hudi.create_table(str(tmp_path / "frame"), frame, "id")
    assert table.schema.names == ["id", "day"]
    table.upsert(frame)
    assert (table.schema.names, table.scan().count()) == (["id", "day"], 2)
    with pytest.raises(InvalidOptionError, match="a DataFrame of pandas"):
        hudi.create_table(str(tmp_path / "list"), ["id"], "id")


@pytest.mark.parametrize(
    "arguments",
    [
        {"name": "\udcff"},
        {"rules": {"checks": {"\udcff": "price > 0"}}},
        {"rules": {"comment": "\udcff"}},
        {"options": {"hoodie.database.name": "\udcff"}},
        {"version": 9, "options": {"hoodie.payload.delete.field": "day", "hoodie.payload.delete.marker": "\udcff"}},
    ],
)
def test_a_text_that_no_file_can_hold_makes_no_table(arguments: dict[str, Any]) -> None:
    """The properties of such a table could be written, and not be read."""
    location = f"memory://mistakes/{len(str(arguments))}"

    def create() -> object:
        rules = hudi.TableRules(**arguments["rules"]) if "rules" in arguments else hudi.TableRules()
        return hudi.create_table(location, ORDERS, "id", **{**arguments, "rules": rules})

    assert isinstance(told(create), ConfigError)
    assert not hudi.table_exists(location)


@pytest.mark.parametrize("statement", ["SELECT * FROM t WHERE day = '{}'", "INSERT INTO t VALUES (9, '{}', 1.0, 1)"])
def test_a_statement_with_bytes_of_a_command_line_is_not_understood(statement: str) -> None:
    error = told(lambda: hudi.sql(statement.format("\udcff"), {}))
    assert "incomplete character" in error.message
    assert error.hint
