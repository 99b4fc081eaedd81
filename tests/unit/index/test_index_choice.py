"""Which index a write uses: the named one, or one that suits the table and the batch; the commit says which one it was, and why."""

from __future__ import annotations

from uuid import uuid4

import pytest
from support.disk import contents
from support.metadata_tables import SCHEMA, assert_metadata_is_true, build, metadata_of
from support.metadata_tables import rows as keyed
from support.tables import create_plain, make, orders, reopen, rows

import pyhudi_core as hudi
from pyhudi_core.errors import DuplicateKeyError, InvalidOptionError
from pyhudi_core.formats.base_file import BaseFileReader
from pyhudi_core.index.choice import MANY_GROUPS, Facts, IndexType, choose
from pyhudi_core.index.elsewhere import Elsewhere
from pyhudi_core.metadata_table import names
from pyhudi_core.options import WriteOptions

SMALL = {"hoodie.index.bloom.num_entries": 100, "hoodie.bloom.index.filter.dynamic.max.entries": 100}
NO_NAME = WriteOptions.parse({}).index


def in_groups(location: str, count: int, **options: object) -> hudi.HudiTable:
    """Keys 0, 10, 20, … of one partition, each with its successor in its own file group."""
    table = make(location, options=SMALL)
    for number in range(count):
        table.bulk_insert(orders((10 * number, "a", 1.0, 1), (10 * number + 1, "a", 1.0, 1)))
    return reopen(table, **SMALL, **options)


def indexed(location: str, **options: object) -> hudi.HudiTable:
    """60 rows in three partitions, with all four partitions of the metadata table."""
    table = create_plain(location, SCHEMA, "id", "day", ordering="ts")
    table.insert(keyed(0, 60))
    build(table)
    return reopen(table, **options)


@pytest.fixture
def key_reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths of base files whose rows were read for their keys alone."""
    found: list[str] = []
    real = BaseFileReader.iter_batches

    def watching(self: BaseFileReader, *arguments: object, **named: object) -> object:
        if self._file._columns == ["_hoodie_record_key"]:  # type: ignore[attr-defined]
            found.append(self.footer().path)
        return real(self, *arguments, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(BaseFileReader, "iter_batches", watching)
    return found


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        (Facts(partitioned=True, record_index=True, bucketed=False, groups=500, rows=1), IndexType.RECORD_INDEX),
        (Facts(partitioned=True, record_index=False, bucketed=None, groups=MANY_GROUPS, rows=1), IndexType.BLOOM),
        (
            Facts(partitioned=True, record_index=False, bucketed=None, groups=MANY_GROUPS - 1, rows=1),
            IndexType.SIMPLE,
        ),
        (
            Facts(partitioned=True, record_index=False, bucketed=None, groups=MANY_GROUPS, rows=10_000_000),
            IndexType.SIMPLE,
        ),
    ],
)
def test_an_index_that_nobody_named_suits_the_table_and_the_batch(facts: Facts, expected: IndexType) -> None:
    choice = choose(NO_NAME, facts)
    assert choice.type is expected
    assert choice.elsewhere is Elsewhere.IGNORED, "keys of other partitions are never touched unasked"
    assert choice.why


@pytest.mark.row("I11")
def test_a_bloom_filter_keeps_files_without_the_key_from_being_read(location: str, key_reads: list[str]) -> None:
    table = in_groups(location, 3, hoodie__index__type="BLOOM")
    # Between the keys of each file's range, so only the filters can tell; 11 is in one of the files.
    table.upsert(orders((5, "a", 2.0, 2), (11, "a", 2.0, 2), (15, "a", 2.0, 2)))
    assert len(key_reads) == 1
    assert [row for row in rows(table, "id", "price") if row[1] == 2.0] == [(5, 2.0), (11, 2.0), (15, 2.0)]
    assert len(rows(table)) == 8


@pytest.mark.row("I11")
def test_what_a_filter_wrongly_claims_is_checked_in_the_file(location: str) -> None:
    options = {"hoodie__index__bloom__fpp": 0.5, "hoodie__index__type": "BLOOM"}
    table = reopen(make(location), **options)
    for number in range(4):
        table.bulk_insert(orders(*((1000 * n + number, "a", 1.0, 1) for n in range(40))))
    commit = table.upsert(orders(*((n, "a", 2.0, 2) for n in range(200))))
    assert (commit.stats.rows_updated, commit.stats.rows_inserted) == (4, 196)
    assert commit.stats.index == "BLOOM: named by hoodie.index.type"


def test_the_commit_says_which_index_found_its_keys(location: str) -> None:
    table = in_groups(location, 2)
    commit = table.upsert(orders((0, "a", 2.0, 2)))
    assert commit.stats.index == f"SIMPLE: fewer than {MANY_GROUPS} file groups in the partitions of the batch"
    assert commit.stats.index in str(commit)
    newest = table.timeline.commits[-1]
    assert table._opened.context().folder.read_commit(newest).extra["pyhudi.index"] == commit.stats.index
    assert table.insert_overwrite(orders((0, "a", 3.0, 3))).stats.index == "", "no key is looked up"


@pytest.mark.row("I5")
def test_a_record_index_tags_without_a_look_at_the_files(location: str, key_reads: list[str]) -> None:
    table = indexed(location)
    for _ in range(2):
        table.bulk_insert(keyed(100, 130) if _ else keyed(200, 230))
    key_reads.clear()
    table.upsert(keyed(110, 118))
    commit = table.upsert(keyed(0, 8))
    assert commit.stats.index == "RECORD_INDEX: the table has a record index"
    assert (commit.stats.rows_updated, commit.stats.rows_inserted) == (8, 0)
    assert key_reads == []
    assert_metadata_is_true(table)
    with pytest.raises(DuplicateKeyError):
        table.insert(keyed(117, 120))
    assert table.delete(keyed(0, 500).select(["id", "day"])).stats.rows_deleted == 120
    assert_metadata_is_true(table)


@pytest.mark.row("I5")
def test_a_named_record_index_updates_a_row_where_its_key_is(location: str) -> None:
    """As Hudi does it: hoodie.record.index.update.partition.path is false by default."""
    table = indexed(location, hoodie__index__type="RECORD_INDEX")
    batch = keyed(3, 5).set_column(1, "day", [["elsewhere", "elsewhere"]]).set_column(2, "ts", [[90, 91]])
    commit = table.upsert(batch.cast(SCHEMA))
    assert (commit.stats.rows_updated, commit.stats.rows_inserted) == (2, 0)
    found = table.scan(where="ts >= 90").to_arrow()
    assert sorted(found.column("_hoodie_partition_path").to_pylist()) == ["day=d0", "day=d1"]
    assert_metadata_is_true(table)
    assert table.delete(batch.select(["id", "day"])).stats.rows_deleted == 2
    assert_metadata_is_true(table)


@pytest.mark.row("I5")
def test_two_rows_of_a_key_in_two_partitions_are_one_row_under_a_global_index(location: str) -> None:
    table = indexed(location, hoodie__index__type="RECORD_INDEX")
    twice = keyed(700, 702).set_column(0, "id", [["k700", "k700"]]).set_column(2, "ts", [[9, 8]]).cast(SCHEMA)
    assert table.upsert(twice).stats.rows_inserted == 1
    assert rows(table.scan(where="id = 'k700'"), "ts", "day") == [(9, "d1")]
    with pytest.raises(DuplicateKeyError, match="repeat a record key"):
        table.insert(twice.set_column(0, "id", [["k800", "k800"]]).cast(SCHEMA))
    assert_metadata_is_true(table)


def test_a_key_in_two_partitions_of_a_batch_is_refused_if_the_table_has_a_record_index(location: str) -> None:
    table = indexed(location)
    twice = keyed(700, 702).set_column(0, "id", [["k700", "k700"]]).cast(SCHEMA)
    with pytest.raises(DuplicateKeyError, match="k700"):
        table.upsert(twice)
    assert_metadata_is_true(table)


def test_a_record_index_that_the_table_has_not_is_refused_with_what_to_do(location: str) -> None:
    table = in_groups(location, 2, hoodie__index__type="RECORD_INDEX")
    before = contents(location)
    with pytest.raises(InvalidOptionError, match="no record index") as caught:
        table.upsert(orders((0, "a", 2.0, 2)))
    assert "Omit the option" in (caught.value.hint or "")
    assert caught.value.table == table.location
    assert contents(location) == before


def test_a_commit_after_the_start_of_a_write_is_not_in_the_index_that_it_asks(location: str) -> None:
    table = indexed(location)
    start = table.timeline
    table.upsert(keyed(500, 510))
    slices = metadata_of(table).slices
    slices.data = start
    assert slices.is_ahead
    old = slices.of_state()
    assert not old.is_ahead
    index = hudi.metadata_table.reader.MetadataTable(old, (names.RECORD_INDEX,))
    assert index.record_locations(["k500", "k1"]).column("key").to_pylist() == ["k1"]


@pytest.mark.parametrize(("index", "comes_back"), [({}, True), ({"hoodie.index.type": "SIMPLE"}, False)])
def test_a_late_row_of_a_deleted_key_is_a_new_key_by_the_record_index(
    index: dict[str, object], comes_back: bool
) -> None:
    """The delete took the key off the record index; SIMPLE finds the file group, and the row loses against the delete in its log."""
    options = {"hoodie.metadata.enable": True, "hoodie.metadata.record.index.enable": True}
    table = create_plain(f"memory://{uuid4()}/t", SCHEMA, "id", "day", ordering="ts", table_type="mor", options=options)
    table.insert(keyed(5, 9))
    table.delete(keyed(5, 6).select(["id", "day", "ts"]))
    late = keyed(5, 6).set_column(2, "ts", [[1]])
    hudi.open_table(table.location, options=index).upsert(late)
    found = table.scan(columns=["id"]).to_arrow().column("id").to_pylist()
    assert ("k5" in found) is comes_back
