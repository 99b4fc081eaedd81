"""Tables whose rows have no meta columns, or no key columns: they take new rows and overwrites; what needs keys is refused by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.disk import contents
from support.golden import unpack
from support.tables import create_plain, make, orders, reopen, rows

import pyhudi_core as hudi
from pyhudi_core.errors import (
    CommitConflictError,
    DataError,
    DuplicateKeyError,
    InvalidOptionError,
    SchemaMismatchError,
    UnsupportedTableError,
)
from pyhudi_core.model.meta_fields import META_FIELDS

TYPES = ["COPY_ON_WRITE", "MERGE_ON_READ"]
WITHOUT_META = {"hoodie.populate.meta.fields": "false"}


def written(table: hudi.HudiTable) -> list[Path]:
    """The base files of the last commit."""
    return [Path(table.location, stat.path) for stat in table.commit_metadata(table.timeline.commits[-1]).stats]


@pytest.mark.one_in(3)
@pytest.mark.row("E10")
@pytest.mark.parametrize("metadata", ["false", "true"])
@pytest.mark.parametrize("kind", TYPES)
def test_a_table_without_meta_columns_takes_new_rows_and_overwrites(location: str, kind: str, metadata: str) -> None:
    options = WITHOUT_META | {"hoodie.metadata.enable": metadata}
    table = make(location, table_type=kind, options=options, ordering="ts")
    table.insert(orders((1, "a", 1.0, 5), (2, "b", 2.0, 5)))
    [first, *_] = written(table)
    table.bulk_insert(orders((3, "a", 3.0, 5)))
    table.insert_overwrite(orders((4, "b", 4.0, 5)))
    assert rows(table, "id", "day") == [(1, "a"), (3, "a"), (4, "b")]
    assert table.check().ok
    stored = pq.read_table(first)
    assert stored.column_names[:5] == list(META_FIELDS)
    assert all(stored[name].null_count == len(stored) for name in META_FIELDS)
    footer = pq.read_metadata(first).metadata
    assert not {b"org.apache.hudi.bloomfilter", b"hoodie_min_record_key", b"hoodie_max_record_key"} & footer.keys()


@pytest.mark.row("E10")
def test_keys_of_rows_without_meta_columns_are_computed_and_compared(location: str) -> None:
    table = make(location, record_key=["id", "ts"], options=WITHOUT_META)
    table.insert(orders((1, "a", 1.0, 1), (2, "b", 2.0, 1)))
    with pytest.raises(DuplicateKeyError):
        table.insert(orders((7, "a", 7.0, 1), (1, "a", 1.0, 1)))
    commit = reopen(table, hoodie__datasource__write__insert__drop__duplicates="true").insert(
        orders((1, "a", 9.0, 1), (1, "a", 2.0, 2))
    )
    assert commit.stats.rows_inserted == 1
    assert rows(table, "id", "ts", "price") == [(1, 1, 1.0), (1, 2, 2.0), (2, 1, 2.0)]


@pytest.mark.row("E10", "K7")
def test_two_inserts_of_one_key_at_the_same_time_conflict_without_meta_columns(location: str) -> None:
    table = make(location, options=WITHOUT_META)
    with table.begin("insert") as one, table.begin("insert") as other, table.begin("insert") as third:
        one.write(orders((1, "a", 1.0)))
        other.write(orders((2, "a", 2.0), (1, "a", 9.0)))
        third.write(orders((3, "a", 3.0)))
        one.commit()
        third.commit()
        with pytest.raises(CommitConflictError, match="key"):
            other.commit()
    assert rows(table, "id", "price") == [(1, 1.0), (3, 3.0)]


@pytest.mark.row("E10")
@pytest.mark.parametrize("kind", TYPES)
def test_what_needs_keys_is_refused_by_name_without_meta_columns(location: str, kind: str) -> None:
    table = make(location, record_key="id", table_type=kind, options=WITHOUT_META)
    table.insert(orders((1, "a", 1.0)))
    before = contents(location)
    for operation in ("upsert", "delete"):
        with pytest.raises(UnsupportedTableError, match=f"no meta columns.* no {operation}"):
            getattr(table, operation)(orders((1, "a", 2.0)))
    with pytest.raises(UnsupportedTableError, match="no meta columns.* no delete"):
        table.delete(where="id = 1")
    with pytest.raises(InvalidOptionError, match=r"hoodie\.index\.type"):
        reopen(table, hoodie__index__type="GLOBAL_SIMPLE").insert(orders((2, "a", 2.0)))
    assert contents(location) == before


KEY = "_hoodie_record_key"
RECORD_INDEX = {"hoodie.metadata.enable": "true", "hoodie.metadata.record.index.enable": "true"}


def corrected(found: pa.Table, price: float) -> pa.Table:
    """The rows of a scan with another price."""
    at = found.schema.get_field_index("price")
    return found.set_column(at, found.field(at), pa.array([price] * len(found)))


@pytest.fixture(params=[(kind, options) for kind in TYPES for options in ({}, RECORD_INDEX)], ids=str)
def events(location: str, request: pytest.FixtureRequest) -> hudi.HudiTable:
    """A table whose keys are generated, with two rows that are equal."""
    kind, options = request.param
    table = make(location, record_key=(), table_type=kind, options=options)
    table.insert(orders((1, "a", 1.0), (1, "a", 1.0), (2, "a", 2.0), (3, "b", 3.0)))
    return table


@pytest.mark.row("J7")
def test_rows_with_generated_keys_are_deleted_by_a_condition(events: hudi.HudiTable) -> None:
    assert events.delete(where="id = 1 OR price > 2.5").stats.rows_deleted == 3
    assert rows(events, "id", "day") == [(2, "a")]
    assert not events.delete(where="id = 1")
    assert events.check().ok


@pytest.mark.row("J7")
def test_rows_with_generated_keys_are_corrected_by_their_keys(events: hudi.HudiTable) -> None:
    found = events.scan(where="id = 1").to_arrow()
    commit = events.upsert(corrected(found.slice(0, 1), 9.0))
    assert (commit.stats.rows_updated, commit.stats.rows_inserted) == (1, 0)
    assert rows(events, "id", "price") == [(1, 1.0), (1, 9.0), (2, 2.0), (3, 3.0)]
    one = events.scan(columns=[KEY, "day", "price"], where="id = 2").to_arrow()
    events.upsert(corrected(one, 8.0), partial=True)
    events.delete(events.scan(columns=[KEY, "day"], where="id = 3").to_arrow())
    assert rows(events, "id", "price") == [(1, 1.0), (1, 9.0), (2, 8.0)]
    kept = events.scan().to_arrow().column(KEY).to_pylist()
    assert set(kept) <= {*found.column(KEY).to_pylist(), *one.column(KEY).to_pylist()}
    assert events.lookup(one.select([KEY])).to_arrow().column("price").to_pylist() == [8.0]
    assert events.check().ok


@pytest.mark.row("J7")
def test_a_correction_that_names_no_row_is_refused_and_nothing_is_written(events: hudi.HudiTable) -> None:
    found = events.scan(where="id = 2").to_arrow()
    other_day = found.set_column(found.schema.get_field_index("day"), "day", pa.array(["b"]))
    without = found.drop_columns([KEY])
    null = found.set_column(found.schema.get_field_index(KEY), KEY, pa.array([None], pa.string()))
    cases = {"generated record keys": without, "no value in the key column": null, "in their partition": other_day}
    for words, batch in cases.items():
        with pytest.raises(DataError, match=words):
            events.upsert(batch)
    with pytest.raises(SchemaMismatchError, match=KEY):
        events.delete(without)
    events.delete(where="id = 2")
    with pytest.raises(SchemaMismatchError, match="generated record key that the table does not have"):
        events.upsert(corrected(found, 7.0))
    assert rows(events, "id", "price") == [(1, 1.0), (1, 1.0), (3, 3.0)]
    assert events.check().ok


@pytest.mark.row("J7")
def test_rows_with_generated_keys_are_erased(location: str) -> None:
    table = make(location, record_key=(), options={"pyhudi.clean.keep.seconds": "0"})
    table.insert(orders((1, "a", 1.0), (2, "a", 2.0)))
    table.insert(orders((3, "a", 3.0)))
    keys = table.scan(columns=[KEY, "day"], where="id = 1").to_arrow()
    assert table.erasure.run(keys)
    assert rows(table, "id") == [(2,), (3,)]


@pytest.mark.row("J7", "K7")
def test_two_corrections_of_one_row_conflict(location: str) -> None:
    table = make(location, record_key=())
    table.insert(orders((1, "a", 1.0), (2, "a", 2.0)))
    found = table.scan(where="id = 1").to_arrow()
    with table.begin("upsert") as one, table.begin("delete") as other:
        one.write(corrected(found, 5.0))
        other.write(found)
        one.commit()
        with pytest.raises(CommitConflictError):
            other.commit()
    assert rows(table, "id", "price") == [(1, 5.0), (2, 2.0)]


@pytest.mark.row("E10")
def test_indexes_of_keys_are_not_built_without_meta_columns(location: str) -> None:
    table = make(location, options=WITHOUT_META)
    table.insert(orders((1, "a", 1.0)))
    with pytest.raises(UnsupportedTableError, match="record_index .* no meta columns"):
        table.metadata_table.create(["record_index"])


@pytest.mark.row("E10")
def test_rows_are_added_to_a_table_of_hudi_without_meta_columns(location: str) -> None:
    table = hudi.open_table(unpack("hudi-1.0.2/cow_virtual_keys", location))
    before = table.scan(columns=table.schema.names).to_arrow()
    with pytest.raises(DuplicateKeyError):
        table.insert(before)
    table.insert_overwrite_table(before)
    after = table.scan(columns=table.schema.names).to_arrow()
    order = [(name, "ascending") for name in table.config.record_key_fields]
    assert after.sort_by(order) == before.sort_by(order)


@pytest.mark.one_in(2)
@pytest.mark.row("J7")
@pytest.mark.parametrize("kind", TYPES)
def test_generated_keys_have_hudis_form_and_are_unique(location: str, kind: str) -> None:
    options = {"hoodie.metadata.enable": "true", "hoodie.metadata.record.index.enable": "true"}
    table = make(location, record_key=(), table_type=kind, options=options)
    assert "hoodie.table.recordkey.fields" not in table.config.raw
    batch = orders(*((1, "ab"[n % 2], float(n)) for n in range(40)))
    first, second = table.insert(batch), table.bulk_insert(batch)
    table.insert_overwrite(orders((9, "a", 9.0), (9, "a", 9.0)))
    found = table.scan().to_arrow()
    keys = found["_hoodie_record_key"].to_pylist()
    assert len(found) == 40 + 2
    assert len(set(keys)) == len(keys)
    times = {key.split("_")[0] for key in keys if all(part.isdigit() for part in key.split("_"))}
    assert {first.instant, second.instant} < times
    assert [key.split("_")[0] for key in keys] == found["_hoodie_commit_time"].to_pylist()
    assert table.check().ok


@pytest.mark.row("J7")
def test_generated_keys_are_kept_by_rewrites(location: str) -> None:
    table = make(location, record_key=(), partition_by=())
    table.insert(orders((1, "a", 1.0), (2, "a", 2.0)))
    before = table.scan(columns=["_hoodie_record_key", "id"]).to_arrow().sort_by("id")
    table.insert(orders((3, "a", 3.0)))  # fills the small file
    table.clustering.run()
    after = table.scan(columns=["_hoodie_record_key", "id"], where="id < 3").to_arrow().sort_by("id")
    assert after == before


@pytest.mark.row("J7")
@pytest.mark.parametrize(
    ("arguments", "word"), [({"ordering": "ts"}, "ordering"), ({"options": WITHOUT_META}, "populate.meta.fields")]
)
def test_a_table_with_generated_keys_has_nothing_that_needs_key_columns(
    location: str, arguments: dict[str, Any], word: str
) -> None:
    with pytest.raises(InvalidOptionError, match=word):
        make(location, record_key=(), **arguments)


@pytest.mark.row("J7")
def test_options_about_equal_keys_are_refused_where_keys_are_generated(location: str) -> None:
    table = make(location, record_key=())
    with pytest.raises(InvalidOptionError, match=r"combine\.before\.insert"):
        reopen(table, hoodie__combine__before__insert="true").insert(orders((1, "a", 1.0)))


def test_a_look_up_by_keys_is_refused_by_name(location: str) -> None:
    table = create_plain(location, orders().schema)
    table.insert(orders((1, "a", 1.0)))
    with pytest.raises(InvalidOptionError, match="no key columns"):
        table.lookup(orders((1, "a")).select(["id"]))
