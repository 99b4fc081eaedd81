"""Build metadata tables for tests, and compare their listing, statistics and record index with files and rows."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import pyhudi_core as hudi
from pyhudi_core.engine import engine_for
from pyhudi_core.file_groups.listing import StorageListing
from pyhudi_core.formats.base_file import read_footer
from pyhudi_core.formats.base_file.footer import BLOOM_FILTER, BLOOM_TYPE
from pyhudi_core.merge.merged_slice import Merging
from pyhudi_core.metadata_table import names
from pyhudi_core.metadata_table.changes import CommitChanges, KeyPlaces
from pyhudi_core.metadata_table.defined_indexes import IndexedTable, file_index
from pyhudi_core.metadata_table.file_entries import GroupEntries
from pyhudi_core.metadata_table.first_records import ExistingTable
from pyhudi_core.metadata_table.index_definitions import read_definitions
from pyhudi_core.metadata_table.merging import wrapped_value
from pyhudi_core.metadata_table.reader import MetadataTable
from pyhudi_core.metadata_table.records import RecordType
from pyhudi_core.metadata_table.statistics import trusted_stats
from pyhudi_core.model.file_names import BaseFileName, parse_data_file
from pyhudi_core.runtime.system import SerialExecutor
from pyhudi_core.snapshot.snapshot import MetadataListing
from pyhudi_core.storage.below import StorageBelow
from pyhudi_core.write.first_metadata.metadata_build import build_partitions

SCHEMA = pa.schema([("id", pa.string()), ("day", pa.string()), ("ts", pa.int64()), ("price", pa.float64())])
GROUPS = {names.FILES: 1, names.COLUMN_STATS: 2, names.PARTITION_STATS: 1, names.RECORD_INDEX: 3}


def rows(first: int, last: int) -> pa.Table:
    numbers = range(first, last)
    columns = ([f"k{n}" for n in numbers], [f"d{n % 3}" for n in numbers], list(numbers), [n / 2 for n in numbers])
    return pa.table(dict(zip(SCHEMA.names, columns, strict=True)), SCHEMA)


def existing(table: hudi.HudiTable) -> CommitChanges:
    """The changes from which a new metadata table of this table is built: its files, statistics and keys."""
    storage = table._opened.storage
    found = ExistingTable(
        storage, StorageListing(storage, True), table.snapshot().view.visibility, table.schema, SerialExecutor()
    ).changes()
    everything = table.scan().to_arrow()
    files = pc.list_element(pc.split_pattern(everything.column("_hoodie_file_name"), "_"), 0)
    keys = KeyPlaces(
        everything.column("_hoodie_record_key").combine_chunks(),
        everything.column("_hoodie_partition_path").combine_chunks(),
        files.combine_chunks(),
        pa.array([], pa.string()),
    )
    return CommitChanges(found.stats, found.ranges, 17, found.columns, keys)


def build(table: hudi.HudiTable, *partitions: str) -> None:
    """Build the metadata table of a table, with all of `GROUPS` or with these partitions."""
    context = table._opened.context()
    groups_of = {name: count for name, count in GROUPS.items() if name in (partitions or GROUPS)}
    build_partitions(context, groups_of, engine_for(None, context.runtime.executor))


def metadata_of(table: hudi.HudiTable) -> MetadataTable:
    """The metadata table that a table lists, also if readers ignore it."""
    partitions = table.config.metadata_partitions
    assert partitions, "the table lists no metadata table"
    return MetadataTable.open(table.timeline, table._opened.context().folder, partitions, whole=True)


def left_in_metadata_table(table: hudi.HudiTable) -> list[str]:
    """Files of the metadata table that none of its completed instants wrote, and its pending instants."""
    metadata = metadata_of(table)
    own = metadata.slices.own
    left = [f"pending {instant.requested_time}" for instant in own.pending]
    done = {instant.requested_time for instant in own.completed}
    if own.has_history:
        done |= {instant.requested_time for instant in metadata.slices.history.begun_since("")[1]}
    for info in StorageBelow(table._opened.storage, names.FOLDER).list(""):
        name = None if "/history/" in info.path else parse_data_file(info.path.rpartition("/")[2])
        if name is not None and name.requested_time not in done or info.path.startswith(".hoodie/.temp/"):
            left.append(info.path)
    return left


def listing_of(metadata: MetadataTable) -> MetadataListing:
    """The files that the metadata table lists."""
    return MetadataListing(metadata, StorageListing(metadata.slices.storage, True))


def assert_metadata_is_true(
    table: hudi.HudiTable, *, cleaned_by_hudi: bool = False, built_by_hudi: bool = False
) -> None:
    """Check that readers use the metadata table, and that all its content is correct.

    A clean of Hudi 1.0.2 leaves the entries of the files that it deletes in expression indexes; `cleaned_by_hudi` allows these alone.
    `built_by_hudi`: an expression index may lack older files than the newest of a file group, and bloom filters have the time of their build.
    """
    assert table.snapshot().metadata is not None, "readers do not use it"
    metadata = metadata_of(table)
    _assert_files(table, metadata)
    if metadata.has(names.COLUMN_STATS):
        _assert_column_stats(table, metadata)
    if metadata.has(names.PARTITION_STATS):
        _assert_partition_stats(table, metadata)
    if metadata.has(names.RECORD_INDEX):
        _assert_record_index(table, metadata)
    if metadata.has(names.BLOOM_FILTERS):
        _assert_bloom_filters(table, metadata, built_by_hudi=built_by_hudi)
    assert_secondary_indexes(table, metadata)
    assert_expression_indexes(table, metadata, of_deleted_files=cleaned_by_hudi, of_newest_files=built_by_hudi)


def _assert_files(table: hudi.HudiTable, metadata: MetadataTable) -> None:
    """Check that it lists exactly the files that completed commits name; files of pending writes do not count."""
    stored = StorageListing(table._opened.storage, bool(table.config.partition_fields))
    admits = table.snapshot().visibility.admits
    listed = listing_of(metadata)
    for partition in {*stored.partitions(), *listed.partitions()}:
        there = {
            info.path: info.size
            for info in stored.files(partition)
            if (name := parse_data_file(info.path.rpartition("/")[2])) and admits(name.requested_time, info.path)
        }
        assert {info.path: info.size for info in listed.files(partition)} == there, partition
        assert not there or partition in listed.partitions()


def _assert_column_stats(table: hudi.HudiTable, metadata: MetadataTable) -> None:
    """The newest file of each group has statistics that hold its values, for every column that older files have them of."""
    partitions = metadata.data_partitions()
    columns = [field.name for field in table.schema if not pa.types.is_nested(field.type)]
    found = metadata.column_stats(columns, partitions)
    by_file = {(item.file, item.column): item for item in found}
    kept = {item.column for item in found}
    for partition in partitions:
        for piece in table.snapshot().view.slices(partition):
            if piece.base is None:
                assert all((str(log.name), column) in by_file for log in piece.logs for column in kept)
                continue
            with table._opened.storage.open_input(piece.path) as source:
                rows = pq.read_table(source)
            for column in kept & set(rows.column_names):
                item = by_file[str(piece.base.name), column]
                assert item.rows == len(rows)
                assert item.nulls == rows.column(column).null_count
                known = trusted_stats(item, table.schema.field(column).type)
                _assert_holds(known, rows.column(column))


def _assert_partition_stats(table: hudi.HudiTable, metadata: MetadataTable) -> None:
    rows = table.scan().to_arrow()
    partitions = metadata.data_partitions()
    columns = [field.name for field in table.schema if not pa.types.is_nested(field.type)]
    for item in metadata.partition_stats(columns, partitions):
        inside = rows.filter(pc.equal(rows.column("_hoodie_partition_path"), item.partition)).column(item.column)
        _assert_holds(trusted_stats(item, table.schema.field(item.column).type), inside)


def _assert_holds(known: object, values: pa.ChunkedArray) -> None:
    bounds = pc.min_max(values).as_py() if not pa.types.is_boolean(values.type) else {"min": None}
    low, high = getattr(known, "min", None), getattr(known, "max", None)
    if bounds["min"] is not None and low is not None:
        assert low <= bounds["min"]
    if bounds["min"] is not None and high is not None:
        assert high >= bounds["max"]


def _assert_record_index(table: hudi.HudiTable, metadata: MetadataTable) -> None:
    rows = table.scan().to_arrow()
    keys = rows.column("_hoodie_record_key").to_pylist()
    groups = [name.partition("_")[0] for name in rows.column("_hoodie_file_name").to_pylist()]
    expected = sorted(zip(keys, rows.column("_hoodie_partition_path").to_pylist(), groups, strict=True))
    everything = {key for key, record in metadata.scan(names.RECORD_INDEX).items() if record["recordIndexMetadata"]}
    assert everything == set(keys), "the record index has keys that the table has not"
    found = metadata.record_locations([*keys, "no such key"])
    assert sorted(zip(*(found.column(n).to_pylist() for n in ("key", "partition", "file_id")), strict=True)) == expected


def assert_secondary_indexes(
    table: hudi.HudiTable, metadata: MetadataTable, *, of_newer_releases: bool = False
) -> None:
    """Each has one entry for each row whose value is not null, and no other one. With `of_newer_releases`, rows with null may have one, too:
    Hudi's releases after 1.0 write it even into an index of the older form.
    """
    definitions = {item.name: item for item in read_definitions(table._opened.storage, table.config.index_defs_path)}
    for name in metadata.partitions:
        if name.startswith(names.SECONDARY_INDEX_PREFIX):
            rows = table.scan(columns=["_hoodie_record_key", definitions[name].column]).to_arrow()
            values, keys = rows.column(1).cast(pa.string()).to_pylist(), rows.column(0).to_pylist()
            if definitions[name].version:  # releases after 1.0 have an entry for a null
                values = ["\0" if value is None else value for value in values]
            expected = sorted((value, key) for value, key in zip(values, keys, strict=True) if value is not None)
            found = sorted(map(names.split_secondary_key, metadata.secondary_keys(name).to_pylist()))
            if of_newer_releases:
                of_nulls = {("\0", key) for value, key in zip(values, keys, strict=True) if value is None}
                found = [entry for entry in found if entry not in of_nulls]
            assert found == expected, name


def assert_expression_indexes(
    table: hudi.HudiTable, metadata: MetadataTable, *, of_deleted_files: bool = False, of_newest_files: bool = False
) -> None:
    """Each has statistics of every listed file with rows that hold the values of the file's rows; of other files only with `of_deleted_files`.

    With `of_newest_files`, those of a file that is not of the newest slices may be missing.
    """
    storage, snapshot = table._opened.storage, table.snapshot()
    of_table = IndexedTable(Merging(snapshot.config, snapshot.evolution), snapshot.schema, utc=True)
    files = metadata.files(metadata.data_partitions())
    newest = {file.path for piece in snapshot.view.all_slices() for file in piece.files}
    for item in read_definitions(storage, table.config.index_defs_path):
        if item.is_expression and metadata.has(item.name):
            index = file_index(item, of_table)
            expected, of_older = {}, set()
            for partition, inside in files.items():
                for path in (f"{partition}/{name}" if partition else name for name in inside):
                    for batch in index.entries(storage, GroupEntries(partition, (path,))):
                        for row in batch.to_pylist():
                            if row["type"] == RecordType.COLUMN_STATS:
                                expected[row["key"]] = (row["min"], row["max"], row["nulls"], row["values"])
                                of_older |= set() if path in newest else {row["key"]}
            records = {
                key: record["ColumnStatsMetadata"]
                for key, record in metadata.scan(item.name).items()
                if record["type"] == RecordType.COLUMN_STATS
            }
            found = {
                key: (
                    wrapped_value(stats["minValue"]),
                    wrapped_value(stats["maxValue"]),
                    stats["nullCount"],
                    stats["valueCount"],
                )
                for key, stats in records.items()
            }
            if of_deleted_files:
                found = {key: entry for key, entry in found.items() if key in expected}
            if of_newest_files:
                expected = {key: entry for key, entry in expected.items() if key in found or key not in of_older}
            assert found == expected, item.name


def _assert_bloom_filters(table: hudi.HudiTable, metadata: MetadataTable, *, built_by_hudi: bool) -> None:
    """Each base file that a commit names has the filter of its own footer, and no other file has one."""
    expected = {}
    for partition, files in metadata.files(metadata.data_partitions()).items():
        for name in files:
            parsed = parse_data_file(name)
            if isinstance(parsed, BaseFileName):
                with table._opened.storage.open_input(f"{partition}/{name}" if partition else name) as source:
                    known = read_footer(source, name).key_value
                found = (known[BLOOM_FILTER].encode(), known.get(BLOOM_TYPE, "SIMPLE"), parsed.requested_time)
                expected[names.bloom_filter_key(partition, name)] = found
    filters = {key: record["BloomFilterMetadata"] for key, record in metadata.scan(names.BLOOM_FILTERS).items()}
    listed = {
        key: (bytes(bloom["bloomFilter"]), bloom["type"], bloom["timestamp"])
        for key, bloom in filters.items()
        if not bloom["isDeleted"]
    }
    if built_by_hudi:
        assert all(listed[key][2] >= expected[key][2] for key in listed)
        listed, expected = ({key: of[:2] for key, of in each.items()} for each in (listed, expected))
    assert listed == expected
