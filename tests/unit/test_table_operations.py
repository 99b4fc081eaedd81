"""Every operation of a table is one commit, and does what its name says."""

from __future__ import annotations

import pyarrow as pa
import pytest
from support.disk import contents, data_files
from support.tables import ORDERS, make, orders, read_avro, reopen, rows, timeline_names

import pyhudi_core as hudi
from pyhudi_core.errors import DuplicateKeyError, InvalidOptionError, SchemaMismatchError
from pyhudi_core.model.instant import Action
from pyhudi_core.model.meta_fields import META_FIELDS


@pytest.mark.row("C1", "D1", "D3", "D9")
def test_upsert_inserts_new_keys_and_replaces_known_ones(location: str) -> None:
    table = make(location)
    first = table.upsert(orders((1, "a", 1.0), (2, "a", 2.0), (3, "b", 3.0)))
    second = table.upsert(orders((2, "a", 20.0), (4, "b", 4.0)))
    assert rows(table, "id", "day", "price") == [(1, "a", 1.0), (2, "a", 20.0), (3, "b", 3.0), (4, "b", 4.0)]
    assert (first.stats.rows_inserted, first.stats.rows_updated) == (3, 0)
    assert (second.stats.rows_inserted, second.stats.rows_updated, second.stats.rows_written) == (1, 1, 4)
    assert second.stats.write_amplification == 2.0
    assert second.stats.partitions == ("day=a", "day=b")


@pytest.mark.row("C1")
def test_a_commit_says_where_it_stands_on_the_timeline(location: str) -> None:
    table = make(location)
    commit = table.upsert(orders((1,)))
    [instant] = table.timeline
    assert (instant.requested_time, instant.completion_time) == (commit.instant, commit.completion_time)
    assert commit.instant < commit.completion_time
    assert len(commit.instant) == len(commit.completion_time) == 17
    assert instant.file_name() == f"{commit.instant}_{commit.completion_time}.commit"
    assert commit.operation == "UPSERT"
    assert commit.retries == 0
    assert commit.lock_held >= 0 <= commit.lock_wait
    assert commit.instant in str(commit)
    assert commit.instant in commit._repr_html_()


def test_extra_metadata_is_kept_in_the_commit(location: str) -> None:
    table = make(location)
    commit = table.upsert(orders((1,)), extra_metadata={"dagster.run_id": "r-1", "empty": ""})
    extra = table.commit_metadata(table.timeline[0]).extra
    assert (extra["dagster.run_id"], extra["empty"]) == ("r-1", "")
    assert extra["pyhudi.commit_token"] == commit.token


@pytest.mark.parametrize(
    "extra", [{"schema": "{}"}, {"pyhudi.commit_token": "x"}, {"n": 1}, {1: "n"}, {"n": "\ud800"}, "n", [("a", "b")]]
)
def test_extra_metadata_takes_strings_and_leaves_the_commits_own_keys_alone(location: str, extra: dict) -> None:
    table = make(location)
    before = contents(location)
    with pytest.raises(InvalidOptionError, match="extra_metadata"):
        table.upsert(orders((1,)), extra_metadata=extra)
    assert contents(location) == before


def test_the_last_of_several_rows_with_one_key_wins_within_a_batch(location: str) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0), (2, "a", 5.0), (1, "a", 2.0), (1, "a", 3.0)))
    assert rows(table, "id", "price") == [(1, 3.0), (2, 5.0)]


def test_without_combining_a_repeated_key_is_an_error_and_nothing_is_published(location: str) -> None:
    table = make(location, options={"hoodie.combine.before.upsert": "false"})
    with pytest.raises(DuplicateKeyError, match="repeat a record key"):
        table.upsert(orders((1, "a", 1.0), (1, "a", 2.0)))
    assert rows(table) == []
    assert data_files(location) == []


def test_insert_adds_rows_with_new_keys(location: str) -> None:
    table = make(location)
    table.insert(orders((1, "a", 1.0)))
    table.insert(orders((2, "a", 2.0), (3, "b", 3.0)))
    assert rows(table, "id") == [(1,), (2,), (3,)]
    assert len(data_files(location)) == 3, "the second insert went into the small file group of day a"


@pytest.mark.parametrize("operation", ["insert", "bulk_insert"])
def test_inserting_a_known_key_is_an_error_and_changes_no_row(location: str, operation: str) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0), (2, "b", 2.0)))
    with pytest.raises(
        DuplicateKeyError, match="1 rows of the batch have a record key that the table has already"
    ) as caught:
        getattr(table, operation)(orders((1, "a", 10.0), (3, "a", 3.0)))
    assert caught.value.table == location
    assert rows(table, "id", "price") == [(1, 1.0), (2, 2.0)]
    assert len(data_files(location)) == 2


@pytest.mark.parametrize("operation", ["insert", "bulk_insert"])
def test_an_insert_that_drops_duplicates_leaves_known_keys_as_they_are(location: str, operation: str) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0), (2, "b", 2.0)))
    dropping = reopen(table, hoodie__datasource__write__insert__drop__duplicates="true")
    commit = getattr(dropping, operation)(orders((1, "a", 10.0), (3, "a", 3.0), (4, "c", 4.0)))
    assert rows(table, "id", "price") == [(1, 1.0), (2, 2.0), (3, 3.0), (4, 4.0)]
    assert (commit.stats.rows_inserted, commit.stats.rows_updated) == (2, 0)


@pytest.mark.parametrize("operation", ["insert", "bulk_insert"])
def test_a_key_twice_in_an_insert_is_an_error_unless_rows_are_combined(location: str, operation: str) -> None:
    table = make(location)
    with pytest.raises(DuplicateKeyError, match="repeat a record key"):
        getattr(table, operation)(orders((1, "a", 1.0), (1, "a", 2.0)))
    combining = reopen(table, hoodie__combine__before__insert="true")
    getattr(combining, operation)(orders((1, "a", 1.0), (1, "a", 2.0)))
    assert rows(table, "id", "price") == [(1, 2.0)]


def test_bulk_insert_makes_new_file_groups(location: str) -> None:
    table = make(location)
    table.bulk_insert(orders((1, "a", 1.0)))
    table.bulk_insert(orders((2, "a", 2.0)))
    assert rows(table, "id") == [(1,), (2,)]
    assert len({slice_.file_id for slice_ in table.snapshot().view.all_slices()}) == 2


@pytest.mark.row("C3")
def test_insert_overwrite_replaces_the_partitions_that_the_data_touches(location: str) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0), (2, "a", 2.0), (3, "b", 3.0)))
    commit = table.insert_overwrite(orders((9, "a", 9.0), (10, "c", 10.0)))
    assert rows(table, "id", "day") == [(3, "b"), (9, "a"), (10, "c")]
    assert [partition for partition, _ in commit.stats.replaced] == ["day=a"]
    assert table.timeline[-1].action is Action.REPLACECOMMIT
    assert table.timeline[-1].file_name().endswith(".replacecommit")


@pytest.mark.row("C3")
def test_insert_overwrite_table_replaces_everything(location: str) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0), (3, "b", 3.0)))
    commit = table.insert_overwrite_table(orders((9, "c", 9.0)))
    assert rows(table, "id", "day") == [(9, "c")]
    assert sorted(partition for partition, _ in commit.stats.replaced) == ["day=a", "day=b"]


@pytest.mark.row("C3")
def test_insert_overwrite_of_an_empty_table_is_a_load(location: str) -> None:
    table = make(location)
    commit = table.insert_overwrite_table(orders((1, "a", 1.0)))
    assert commit.stats.replaced == ()
    assert rows(table, "id") == [(1,)]


@pytest.mark.row("C3", "D9")
def test_delete_partitions_takes_whole_partitions_away(location: str) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0), (2, "b", 2.0), (3, "c", 3.0)))
    commit = table.delete_partitions(["day=a", "day=c", "day=a"])
    assert rows(table, "id") == [(2,)]
    assert commit.stats.files == ()
    record = read_avro(table, table.timeline[-1], "HoodieReplaceCommitMetadata")
    assert record["operationType"] == "DELETE_PARTITION"
    assert sorted(record["partitionToReplaceFileIds"]) == ["day=a", "day=c"]


@pytest.mark.row("C3")
def test_a_partition_can_be_filled_again_after_it_was_deleted(location: str) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0)))
    table.delete_partitions(["day=a"])
    table.upsert(orders((1, "a", 2.0)))
    assert rows(table, "id", "price") == [(1, 2.0)]


@pytest.mark.parametrize("wrong", ["day=a", [], ()])
def test_delete_partitions_takes_a_list_with_something_in_it(location: str, wrong: object) -> None:
    table = make(location)
    with pytest.raises(InvalidOptionError, match="list of partition paths"):
        table.delete_partitions(wrong)  # type: ignore[arg-type]


def test_delete_partitions_needs_a_partitioned_table(location: str) -> None:
    table = make(location, partition_by=())
    with pytest.raises(InvalidOptionError, match="no partitions"):
        table.delete_partitions(["day=a"])


@pytest.mark.parametrize("wrong", ["day=a", "", [], (), None, 5])
def test_a_handle_drops_a_list_of_partitions_with_something_in_it(location: str, wrong: object) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0)))
    with (
        table.begin("delete_partition") as write,
        pytest.raises(InvalidOptionError, match="list of partition paths") as caught,
    ):
        write.drop(wrong)  # type: ignore[arg-type]
    assert caught.value.table == location
    assert rows(table, "id") == [(1,)]


@pytest.mark.parametrize("wrong", ["../day=a", "/day=a", "", ".hoodie", 5])
def test_what_is_not_the_path_of_a_partition_is_dropped_by_no_handle(location: str, wrong: object) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0)))
    with table.begin("delete_partition") as write, pytest.raises(InvalidOptionError, match="not the path of a part"):
        write.drop(("day=a", wrong))  # type: ignore[arg-type]
    assert rows(table, "id") == [(1,)]


def test_a_handle_that_drops_needs_a_partitioned_table(location: str) -> None:
    table = make(location, partition_by=())
    with table.begin("delete_partition") as write, pytest.raises(InvalidOptionError, match="no partitions"):
        write.drop(("day=a",))


def test_a_handle_drops_partitions_below_prefixes_by_their_own_names_and_each_once(location: str) -> None:
    table = make(location, options={"pyhudi.partition.random.prefix": 2})
    table.upsert(orders((1, "a", 1.0), (2, "b", 2.0)))
    with table.begin("delete_partition") as write:
        commit = write.drop(("day=a", "day=a")).commit()
    assert commit.stats.rows_replaced == 1
    assert rows(table, "id") == [(2,)]


@pytest.mark.row("D9")
def test_delete_by_keys_removes_the_rows_and_nothing_else(location: str) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0), (2, "a", 2.0), (1, "b", 3.0)))
    commit = table.delete(pa.table({"id": [1, 77], "day": ["a", "a"]}))
    assert rows(table, "id", "day") == [(1, "b"), (2, "a")]
    assert commit.stats.rows_deleted == 1
    assert commit.operation == "DELETE"


def test_deleted_keys_can_come_back(location: str) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0)))
    table.delete(pa.table({"id": [1], "day": ["a"]}))
    assert rows(table) == []
    table.insert(orders((1, "a", 2.0)))
    assert rows(table, "id", "price") == [(1, 2.0)]


def test_delete_takes_whole_rows_too(location: str) -> None:
    table = make(location)
    batch = orders((1, "a", 1.0), (2, "b", 2.0))
    table.upsert(batch)
    table.delete(batch.slice(0, 1))
    assert rows(table, "id") == [(2,)]


def test_delete_finds_keys_in_several_groups_of_a_partition(location: str) -> None:
    table = make(location)
    for start in (0, 10, 20):
        table.bulk_insert(orders(*((start + i, "a", 1.0) for i in range(10))))
    commit = table.delete(pa.table({"id": [3, 13, 23], "day": ["a"] * 3}))
    assert commit.stats.rows_deleted == 3
    assert rows(table, "id") == [(i,) for i in range(30) if i not in (3, 13, 23)]


@pytest.mark.row("D9")
def test_delete_where_removes_what_matches(location: str) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0), (2, "a", 20.0), (3, "b", 30.0)))
    commit = table.delete(where="price > 10")
    assert rows(table, "id") == [(1,)]
    assert commit.stats.rows_deleted == 2


def test_delete_where_nothing_matches_makes_no_commit(location: str) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0)))
    before = contents(location)
    assert not table.delete(where="price > 10")
    assert contents(location) == before


@pytest.mark.parametrize("arguments", [{}, {"keys": orders((1,)), "where": "id = 1"}])
def test_delete_takes_keys_or_a_condition(location: str, arguments: dict) -> None:
    with pytest.raises(InvalidOptionError, match="keys or where"):
        make(location).delete(**arguments)


def test_data_of_several_kinds_can_be_written(location: str) -> None:
    import pandas as pd

    table = make(location)
    table.upsert(orders((1, "a", 1.0)).to_batches()[0])
    table.upsert(pa.RecordBatchReader.from_batches(ORDERS, orders((2, "a", 2.0)).to_batches()))
    table.upsert(pd.DataFrame({"id": [3], "day": ["a"], "price": [3.0], "ts": [0]}))
    assert rows(table, "id", "price") == [(1, 1.0), (2, 2.0), (3, 3.0)]


def test_a_named_index_of_a_pandas_frame_is_a_column_and_one_that_numbers_the_rows_is_none(location: str) -> None:
    pd = pytest.importorskip("pandas")
    table = make(location)
    frame = orders((1, "a", 1.0, 1), (2, "a", 2.0, 1), (3, "b", 3.0, 1)).to_pandas()
    chosen = frame[frame["price"] > 1.0]
    with pytest.raises(SchemaMismatchError, match="index without a name, 0.5, 1.5") as refused:
        table.upsert(chosen.set_index(pd.Index([0.5, 1.5])))
    assert "reset_index(drop=True)" in str(refused.value.hint)
    table.upsert(chosen)
    assert table.schema.names == ORDERS.names
    assert rows(table, "id") == [(2,), (3,)]
    table.delete(frame[frame["id"] == 3].set_index("id")[["day"]])
    table.upsert(frame[frame["id"] == 1].set_index(["id", "day"]))
    assert table.schema.names == ORDERS.names
    assert rows(table, "id", "day") == [(1, "a"), (2, "a")], (
        "an index with names is columns, as pandas' own writers have it"
    )


def test_columns_may_come_in_any_order_and_the_meta_columns_of_a_scan_are_passed_over(location: str) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0)))
    found = table.scan().to_arrow()
    table.upsert(found.select(["price", *META_FIELDS[::-1], "ts", "day", "id"]))
    assert len(table.timeline) == 2
    with pytest.raises(SchemaMismatchError, match="name of a meta column"):
        table.upsert(found.select(["price", "_hoodie_record_key", "ts", "day", "id", "_hoodie_commit_time"]))
    assert rows(table, "id", "price") == [(1, 1.0)]


def test_a_table_says_what_it_is(location: str) -> None:
    table = make(location, name="orders")
    assert (table.name, table.location) == ("orders", location)
    assert table.schema.names == ORDERS.names
    assert "orders" in repr(table)
    assert "key id" in repr(table)
    assert timeline_names(table) == []
    assert isinstance(hudi.open_table(location), hudi.HudiTable)


def test_every_service_of_a_table_is_its_attribute_of_the_same_name(location: str) -> None:
    table = make(location)
    for name, service in table.services.items():
        assert type(getattr(table, name)) is type(service)
