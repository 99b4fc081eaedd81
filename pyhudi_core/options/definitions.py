"""Every option: Hudi's key, type, default and meaning.

The one source for parsing (``WriteOptions``, ``TableOptions``) and for ``docs/options.md``. An option that Hudi has keeps Hudi's key;
the package's own keys start with ``pyhudi.``; four options of the public interface have plain words as keys.

Invariant: every key and every alias belongs to exactly one option.
"""

from __future__ import annotations

from pyhudi_core.lock.kinds import GENERATOR, GENERATORS
from pyhudi_core.model.help_pages import see
from pyhudi_core.model.option import MEBIBYTE, Option, Scope, options_of, words
from pyhudi_core.options.catalog import CatalogOptions
from pyhudi_core.options.clustering import ClusteringOptions
from pyhudi_core.options.compaction import CompactionOptions

_STRATEGY_PACKAGE = "org.apache.hudi.client.transaction."
_STRATEGIES = {
    "simple": "simple",
    "prefer_writer": "prefer_writer",
    "bucket": "bucket",
    f"{_STRATEGY_PACKAGE}SimpleConcurrentFileWritesConflictResolutionStrategy".lower(): "simple",
    f"{_STRATEGY_PACKAGE}PreferWriterConflictResolutionStrategy".lower(): "prefer_writer",
    f"{_STRATEGY_PACKAGE}BucketIndexConcurrentFileWritesConflictResolutionStrategy".lower(): "bucket",
}
_LATER_STRATEGIES = (
    f"{_STRATEGY_PACKAGE}IngestionPrimaryWriterBasedConflictResolutionStrategy".lower(),
    f"{_STRATEGY_PACKAGE}StateTransitionTimeBasedConflictResolutionStrategy".lower(),
)

_KEY_GENERATOR_CLASSES = {
    "SIMPLE": "Simple",
    "COMPLEX": "Complex",
    "CUSTOM": "Custom",
    "NON_PARTITION": "Nonpartitioned",
    "TIMESTAMP": "TimestampBased",
}
_KEY_GENERATORS = {
    name.lower(): word
    for word, stem in _KEY_GENERATOR_CLASSES.items()
    for name in (word, f"{word}_AVRO", *(f"org.apache.hudi.keygen.{stem}{avro}KeyGenerator" for avro in ("", "Avro")))
}

TABLE_OPTIONS = (
    Option("hoodie.table.name", "name", str, None, "Name of the table.", Scope.TABLE,
           aliases=("hoodie.datasource.write.table.name",)),
    Option("hoodie.database.name", "database", str, None, "Name of the database; part of the properties' checksum.",
           Scope.TABLE),
    Option("hoodie.table.type", "table_type", str, None, "How the table stores updates.", Scope.TABLE,
           choices=words("COPY_ON_WRITE", "MERGE_ON_READ", cow="COPY_ON_WRITE", mor="MERGE_ON_READ"),
           aliases=("hoodie.datasource.write.table.type", "hoodie.datasource.write.storage.type")),
    Option("hoodie.table.recordkey.fields", "record_key", str, None, "Comma-separated key columns.", Scope.TABLE,
           aliases=("hoodie.datasource.write.recordkey.field",)),
    Option("hoodie.table.partition.fields", "partition_by", str, None, "Comma-separated partition columns.",
           Scope.TABLE, aliases=("hoodie.datasource.write.partitionpath.field",)),
    Option("hoodie.table.precombine.field", "ordering", str, None,
           "Comma-separated columns that decide which version of a row is newer.", Scope.TABLE,
           aliases=("hoodie.datasource.write.precombine.field", "hoodie.table.ordering.fields")),
    Option("hoodie.datasource.write.hive_style_partitioning", "hive_style", bool, True,
           "Name partition folders `column=value` instead of `value`.", Scope.TABLE),
    Option("hoodie.datasource.write.partitionpath.urlencode", "url_encode", bool, True,
           "Write special characters of partition values as `%XX`.", Scope.TABLE),
    Option("hoodie.write.record.merge.mode", "merge_mode", str, None,
           "Which of two versions of a row wins: the later written, or the one with the greater ordering value. "
           "By default event time if there are ordering columns.", Scope.TABLE,
           choices=words("COMMIT_TIME_ORDERING", "EVENT_TIME_ORDERING", "CUSTOM"), aliases=("hoodie.record.merge.mode",)),
    Option("hoodie.compaction.payload.class", "payload_class", str, None,
           "The payload class of Hudi whose rules merge the versions of a row (merge mode CUSTOM).", Scope.TABLE,
           aliases=("hoodie.datasource.write.payload.class",)),
    Option("hoodie.record.merge.strategy.id", "merge_strategy", str, None,
           "The id of a registered merger that makes one row out of two versions (merge mode CUSTOM).", Scope.TABLE,
           aliases=("hoodie.write.record.merge.strategy.id", "hoodie.datasource.write.record.merger.strategy",
                    "hoodie.compaction.record.merger.strategy")),
    Option("hoodie.payload.delete.field", "delete_field", str, None,
           "A column that marks deletes: a row whose text in this column is `hoodie.payload.delete.marker` deletes the row of its key (version 9).",
           Scope.TABLE),
    Option("hoodie.payload.delete.marker", "delete_marker", str, None, "The text that marks deletes; it is case-sensitive (version 9).", Scope.TABLE),
    Option("hoodie.table.timeline.timezone", "timeline_timezone", str, "UTC",
           "Time zone of instant times. All writers of a LOCAL table must run in one time zone.", Scope.TABLE,
           choices=words("UTC", "LOCAL")),
    Option("hoodie.table.keygenerator.type", "key_generator", str, None,
           "`TIMESTAMP` for folders that are formatted times (one key column, one partition column). By default folders are named by the values of "
           "the partition columns, and the number of key and partition columns determines the generator; a different value is refused. Hudi's "
           "class names are accepted.",
           Scope.TABLE, choices=_KEY_GENERATORS,
           aliases=("hoodie.datasource.write.keygenerator.type", "hoodie.datasource.write.keygenerator.class", "hoodie.table.keygenerator.class")),
    Option("hoodie.keygen.timebased.timestamp.type", "time_type", str, None,
           "What the partition column of a `TIMESTAMP` table holds.", Scope.TABLE,
           choices=words("UNIX_TIMESTAMP", "EPOCHMILLISECONDS", "EPOCHMICROSECONDS", "SCALAR", "DATE_STRING")),
    Option("hoodie.keygen.timebased.timestamp.scalar.time.unit", "time_unit", str, None, "The unit of `SCALAR` times.", Scope.TABLE,
           choices=words("microseconds", "milliseconds", "seconds", "minutes", "hours", "days")),
    Option("hoodie.keygen.timebased.input.dateformat", "time_input", str, None, "The format of `DATE_STRING` times.", Scope.TABLE),
    Option("hoodie.keygen.timebased.output.dateformat", "time_output", str, None,
           "The format of the folders of a `TIMESTAMP` table: `yyyy`, `MM`, `dd`, `HH`, `mm`, `ss` and punctuation.", Scope.TABLE),
    Option("hoodie.populate.meta.fields", "populate_meta_fields", bool, True,
           "If false, the meta columns of new rows are null, and keys are computed from the key columns. Such a table takes inserts, overwrites and "
           "dropped partitions only; incremental reads and look-ups by key do not work on it.", Scope.TABLE),
    Option("hoodie.table.cdc.enabled", "cdc_enabled", bool, False,
           "A rewrite of a base file also writes a change log, for Hudi's CDC query. `changes` of this package does not need it.", Scope.TABLE),
    Option("hoodie.table.cdc.supplemental.logging.mode", "cdc_mode", str, "DATA_BEFORE_AFTER",
           "Content of a change log: `OP_KEY_ONLY`, operation and key; `DATA_BEFORE`, also the old row; `DATA_BEFORE_AFTER`, both rows.", Scope.TABLE,
           choices=words("OP_KEY_ONLY", "DATA_BEFORE", "DATA_BEFORE_AFTER")),
    Option("hoodie.write.table.version", "table_version", str, "8",
           "Version of the table format: 8, which Hudi 1.0 and newer read and write, or 9, of Hudi 1.1 and newer.",
           Scope.TABLE, choices={"8": "8", "9": "9"}, aliases=("hoodie.table.version",)),
    Option("pyhudi.partition.random.prefix", "prefix_width", int, 0,
           "Number of hexadecimal digits of a prefix folder above every partition. A hash of the partition path chooses it, so that object stores "
           "spread the load "
           "(`3f/day=2026-01-01`); 0 for none. Only this package can write to such a table.", Scope.TABLE, minimum=0, maximum=8),
    Option("pyhudi.partition.random.prefix.depth", "prefix_depth", int, 1,
           "Maximum number of nested prefix folders. The hash chooses the number for each partition, at least 1.", Scope.TABLE, minimum=1, maximum=4),
)  # fmt: skip

WRITE_OPTIONS = (
    Option("hoodie.parquet.max.file.size", "files.max_size", int, 120 * MEBIBYTE, "Target size of a base file in bytes.",
           minimum=1024),
    Option("hoodie.parquet.small.file.limit", "files.small_limit", int, 100 * MEBIBYTE,
           "Inserts fill base files smaller than this many bytes before new files are made; 0 turns this off.", minimum=0),
    Option("hoodie.parquet.compression.codec", "files.compression", str, "zstd", "Compression codec of base files.",
           choices=words("snappy", "zstd", "gzip", "uncompressed")),
    Option("hoodie.parquet.block.size", "files.row_group_bytes", int, 16 * MEBIBYTE,
           "Maximum bytes of a row group, before compression.", minimum=1024),
    Option("pyhudi.parquet.row.group.rows", "files.row_group_rows", int, 200_000, "Maximum rows of a row group.", minimum=1),
    Option("hoodie.copyonwrite.record.size.estimate", "files.record_size_estimate", int, 1024,
           "Bytes of a row in a base file, used until commits give an average.", minimum=1),
    Option("hoodie.logfile.data.block.format", "files.log_block_format", str, None,
           "How rows are stored in the log files of merge-on-read tables. By default `avro` for up to 1,000 rows, because many small logs are read "
           "faster in this format, and `parquet` for more rows. If an ordering column is a string, the default is always `avro`, because "
           "release 1.2.0 of Hudi compares strings in Parquet blocks incorrectly, also in tables that Hudi wrote. "
           "The Spark releases of Hudi cannot read `hfile` blocks in tables with Parquet base files, not even blocks that they wrote.",
           choices=words("parquet", "avro", "hfile")),
    Option("hoodie.write.record.positions", "files.record_positions", bool, True,
           "Log files of merge-on-read tables contain the positions of the updated rows in the base file.",
           aliases=("hoodie.datasource.write.record.positions",)),
    Option("hoodie.allow.operation.metadata.field", "files.operation_field", bool, False,
           "Files have the sixth meta column `_hoodie_operation`, which is null in the rows that this package writes, as with Hudi's Spark writers. "
           "`create_table` stores this option in the table; Hudi's writers do not. So pass it to Hudi's writers, and to each write to a table that "
           "Hudi created."),
    Option("hoodie.index.type", "index.type", str, None,
           "The index that finds the file group of a key. By default the record index if the table has one; else BLOOM if the batch's partitions "
           "have many file groups, and SIMPLE otherwise. `commit.stats.index` contains the index and the reason.",
           choices=words("SIMPLE", "BLOOM", "GLOBAL_SIMPLE", "GLOBAL_BLOOM", "RECORD_INDEX", "BUCKET",
                          global_record_level_index="RECORD_INDEX"),
           not_yet=("inmemory",)),
    Option("hoodie.bucket.index.num.buckets", "index.buckets", int, None,
           "Number of buckets in each partition for the index BUCKET. The table does not store it, so every writer must set the same value.",
           minimum=1, maximum=99_999_999),
    Option("hoodie.bucket.index.hash.field", "index.hash_fields", str, None,
           "Comma-separated key columns that are hashed under the BUCKET index; all key columns by default.",
           aliases=("hoodie.datasource.write.indexkey.field",)),
    Option("hoodie.index.bucket.engine", "index.bucket_engine", str, None,
           "How the BUCKET index assigns keys to file groups: `SIMPLE`, by a fixed number of buckets; `CONSISTENT_HASHING`, by ranges of hashes that "
           "clusterings split and merge (merge-on-read tables). An existing table keeps its engine; the default of a new table is SIMPLE.",
           choices=words("SIMPLE", "CONSISTENT_HASHING")),
    Option("hoodie.bucket.index.max.num.buckets", "index.most_buckets", int, None,
           "Clusterings split buckets of a partition with consistent hashing up to this number. By default hoodie.bucket.index.num.buckets.",
           minimum=1, maximum=99_999_999),
    Option("hoodie.bucket.index.min.num.buckets", "index.least_buckets", int, None,
           "Clusterings merge buckets of a partition with consistent hashing down to this number. By default hoodie.bucket.index.num.buckets.",
           minimum=1, maximum=99_999_999),
    Option("hoodie.bucket.index.split.threshold", "index.split_threshold", float, 2.0,
           "A clustering splits a bucket whose files are larger than hoodie.parquet.max.file.size times this number.", minimum=0),
    Option("hoodie.bucket.index.merge.threshold", "index.merge_threshold", float, 0.2,
           "A clustering merges neighbouring buckets whose files together are not larger than hoodie.parquet.max.file.size times this number.",
           minimum=0),
    Option("hoodie.simple.index.update.partition.path", "index.simple_moves", bool, True,
           "For GLOBAL_SIMPLE: if the key of a row is stored in another partition, one commit deletes it there and inserts the row in its new "
           "partition. If false, the stored row is updated in its old partition."),
    Option("hoodie.bloom.index.update.partition.path", "index.bloom_moves", bool, True,
           "As `hoodie.simple.index.update.partition.path`, for GLOBAL_BLOOM."),
    Option("hoodie.record.index.update.partition.path", "index.record_moves", bool, False,
           "As `hoodie.simple.index.update.partition.path`, for RECORD_INDEX, if `hoodie.index.type` selects it."),
    Option("pyhudi.update.moves.rows", "index.updates_move", bool, False,
           "An upsert deletes the stored version of a row in its file group, and inserts the new one in another file group, by one commit. "
           "If false, a row stays in its file group. Not for merge-on-read tables, the index BUCKET, partial updates and mergers."),
    Option("hoodie.combine.before.upsert", "rows.combine_before_upsert", bool, True,
           "Combine rows of one upsert with the same key before the write. If false, they are an error."),
    Option("hoodie.combine.before.insert", "rows.combine_before_insert", bool, False,
           "Combine rows of one insert with the same key before the write. If false, they are an error."),
    Option("hoodie.datasource.write.insert.drop.duplicates", "rows.drop_duplicates", bool, False,
           "An insert skips rows whose key exists already in the table. If false, they are an error."),
    Option("schema_evolution", "rows.schema_evolution", str, "both",
           "How a batch may change the columns of the table: `add_columns`, by columns that the table does not have; `widen`, by wider types; "
           "`both`; or `none`. A change that is not allowed is an error. `table.alter` is always allowed.",
           choices=words("both", "add_columns", "widen", "none")),
    Option("pyhudi.schema.allow.lossy.widening", "rows.allow_lossy_widening", bool, False,
           "A 64-bit integer column becomes double when data has non-integer numbers for it, and stays double. Stored integers above 2**53 are then "
           "read as the nearest double. If false, such data is an error. Data that has only whole and missing floating-point numbers always fits an "
           "integer column."),
    Option("hoodie.index.bloom.num_entries", "files.bloom_entries", int, 60_000,
           "Maximum number of keys for which one row of a bloom filter is sized. Files with fewer keys get a smaller filter.",
           minimum=1, maximum=10_000_000, aliases=("hoodie.bloom.num_entries",)),
    Option("hoodie.index.bloom.fpp", "files.bloom_fpp", float, 1e-9, "Rate of false positives of a bloom filter.",
           minimum=1e-15, maximum=0.5, aliases=("hoodie.bloom.fpp",)),
    Option("hoodie.bloom.index.filter.dynamic.max.entries", "files.bloom_max_entries", int, 100_000,
           "Number of keys up to which a bloom filter grows by rows. A file with more than about eight times this number gets a filter of a few "
           "bytes, which excludes no key.", minimum=1, maximum=10_000_000),
    Option("hoodie.metadata.enable", "metadata.enable", bool, None,
           "By default a new table gets a metadata table, and an existing table stays as it is. `true`: the first write to an existing table without "
           "one makes it. `false`: a new table gets none. Every commit updates a metadata table that the table's properties list."),
    Option("hoodie.metadata.index.column.stats.enable", "metadata.column_stats", bool, True,
           "A new metadata table has statistics of the columns of each file. An existing one gets them by `pyhudi metadata LOCATION create`."),
    Option("hoodie.metadata.index.partition.stats.enable", "metadata.partition_stats", bool, True,
           "A new metadata table of a partitioned table has statistics of the columns of each partition."),
    Option("hoodie.metadata.record.index.enable", "metadata.record_index", bool, False,
           "A new metadata table has a record index: the file group of each record key. Keys are then unique in the table. An existing one gets it "
           "by `pyhudi metadata LOCATION create --index record_index`; a write warns about it.",
           aliases=("hoodie.metadata.global.record.level.index.enable",)),
    Option("hoodie.metadata.index.column.stats.file.group.count", "metadata.column_stats_groups", int, 2,
           "Number of file groups of the column statistics. It cannot be changed later.", minimum=1, maximum=1_000),
    Option("hoodie.metadata.record.index.min.filegroup.count", "metadata.record_index_least_groups", int, 10,
           "Minimum number of file groups of a record index. A large table gets more: one for each GB of entries.", minimum=1, maximum=10_000,
           aliases=("hoodie.metadata.global.record.level.index.min.filegroup.count",)),
    Option("hoodie.metadata.index.bloom.filter.enable", "metadata.bloom_filters", bool, False,
           "A new metadata table has the bloom filter of each base file, so that BLOOM and look-ups by key open no footers. An existing one gets "
           "them by `pyhudi metadata LOCATION create --index bloom_filters`; a write warns about it."),
    Option("hoodie.metadata.index.bloom.filter.file.group.count", "metadata.bloom_filters_groups", int, 4,
           "Number of file groups of the bloom filters. It cannot be changed later.", minimum=1, maximum=1_000),
    Option("hoodie.metadata.compact.max.delta.commits", "metadata.compact_after", int, 10,
           "Number of delta commits of the metadata table after which a commit compacts it.", minimum=1),
    Option("pyhudi.metadata.remove_unkept", "metadata.remove_unkept", bool, False,
           "If the metadata table has a kind of index that this release does not keep, or is out of date, a write removes it from the table's "
           "properties and records this in the commit; Hudi's next writer builds it again. If false, such a write is refused at its beginning."),
    Option("pyhudi.expression.index.timezone", "index.expression_timezone", str, "UNKNOWN",
           "Time zone of the sessions that write and read the expression indexes. This package writes indexes of times only if the zone is UTC, and "
           "uses them only for conditions in UTC. While the zone is unknown, a read widens the ranges of year, month, day and from_unixtime by a "
           "day, and ignores the ranges of hour.",
           choices=words("UNKNOWN", "UTC")),
    Option("hoodie.clean.failed.writes.policy", "heartbeat.failed_writes_policy", str, "LAZY",
           "When failed writes of others are rolled back: LAZY, as soon as their process has ended or their heartbeat has expired; "
           "EAGER, also pending writes without a heartbeat, at the start of every write (only for tables with a single writer; if another write is "
           "running, an error is raised); NEVER, only by an explicit call.", choices=words("LAZY", "EAGER", "NEVER"),
           aliases=("hoodie.cleaner.policy.failed.writes",)),
    Option("hoodie.client.heartbeat.interval_in_ms", "heartbeat.interval_ms", int, 60_000,
           "Milliseconds between two heartbeats of a running write.", minimum=1),
    Option("hoodie.client.heartbeat.tolerable.misses", "heartbeat.tolerable_misses", int, 2,
           "Number of missed heartbeats after which a write counts as failed.", minimum=0),
    Option("hoodie.time.generator.max_expected_clock_skew_ms", "clock.max_skew_ms", int, 200,
           "Milliseconds by which the clocks of two writers may differ. In an object store, a write waits this long if Hudi also writes the table.",
           minimum=0, maximum=600_000),
    Option(GENERATOR, "clock.generator", str, "system",
           "Where the times of instants come from: this machine's clock (`system`), or a counter in `zookeeper` or `dynamodb`, which never gives "
           f"the same time twice. The options of the server's lock also apply to the counter. {see('locks')}.", choices=GENERATORS),
    Option("pyhudi.clock.max.ahead.ms", "clock.max_ahead_ms", int, 300_000,
           "Milliseconds by which the timeline may be ahead of this machine's clock. Beyond it a write is refused if Hudi also writes the "
           "table, or if the storage has no put-if-absent; otherwise new times continue from the timeline's newest time, with a warning.", minimum=0),
    Option("pyhudi.commit.writer", "names_writer", bool, True,
           "Every commit keeps in its extra metadata who wrote it: user, machine, program, and the run of Airflow (`pyhudi.writer.user` ...). "
           "`false`: it does not."),
    Option("pyhudi.commit.batch", "shares_commits", bool, False,
           "Small upserts that several writers make at the same time share one commit, as with `upsert(rows, batch=True)`; so do the upserts of a "
           "`Consumer` whose output is opened with it."),
    Option("pyhudi.commit.retries", "retry.limit", int, 5,
           "How often a write is planned again after a conflict with another commit, before the conflict is an error.", minimum=0, maximum=1000),
    Option("pyhudi.commit.reserve.after", "retry.reserve_after", int, 3,
           "After this many failed attempts, a write reserves the file groups that it changes, and other writes yield to it; 0 for never.",
           minimum=0),
    Option("pyhudi.commit.yield.ms", "retry.yield_ms", int, 600_000,
           "Milliseconds that a write waits for another one that has reserved the same file groups, before it fails.", minimum=0),
    Option("pyhudi.commit.store.wait.ms", "retry.store_wait_ms", int, 600_000,
           "Milliseconds that a write or a service waits, for all its requests together, for an object store that is busy (429, 503). After that "
           "each request is tried only a few times.", minimum=0),
    Option("concurrency", "conflict.concurrency", str, "optimistic",
           "`optimistic`: writers work at the same time, and conflicts are detected at the commit. `pessimistic`: a write holds the table's lock "
           "from its start to its end, so it is never planned again. `non_blocking`: upserts and deletes of the same file groups both commit, and "
           "readers merge their rows by event time; for merge-on-read tables with simple buckets. `single_writer`: as optimistic; the caller "
           "guarantees that no other writer exists.",
           choices={"optimistic": "optimistic", "pessimistic": "pessimistic", "single_writer": "single_writer",
                    "optimistic_concurrency_control": "optimistic", "non_blocking": "non_blocking",
                    "non_blocking_concurrency_control": "non_blocking"},
           aliases=("hoodie.write.concurrency.mode",)),
    Option("isolation", "conflict.isolation", str, "snapshot",
           "`snapshot`: two writes conflict if they change the same file groups or insert the same keys. `serializable`: also if one has "
           "read (`write.scan`, `delete(where=)`) a partition that the other one changed.",
           choices=words("snapshot", "serializable")),
    Option("hoodie.write.lock.conflict.resolution.strategy", "conflict.strategy", str, "simple",
           "How the rules of conflicts are applied: `simple`, unchanged; `prefer_writer`, table services yield to writes that are still "
           "running, "
           "and writes never yield to planned services; `bucket`, file groups with the same bucket number count as one. Hudi's class names are "
           f"accepted. {see('conflicts')}.",
           choices=_STRATEGIES, not_yet=_LATER_STRATEGIES),
    Option("hoodie.write.concurrency.early.conflict.detection.enable", "conflict.early_detection", bool, False,
           "If an older, running write has announced a file group that a write also rewrites, the write stops before all its files are written, "
           "and is planned again."),
    Option("pyhudi.commit.allow.duplicate.keys", "conflict.allow_duplicate_keys", bool, False,
           "Two concurrent inserts of the same record key may both commit: the table can then have duplicate keys. "
           "It saves reading the keys of concurrent inserts."),
    Option("hoodie.clean.automatic", "cleaning.automatic", bool, None,
           "With `true` every commit also executes planned cleans without an executor, and cleans the table if that is due. By default commits do so "
           "ten commits after the last clean. With `false` older states stay until `pyhudi clean` or another program removes them."),
    Option("hoodie.clean.policy", "cleaning.policy", str, "KEEP_LATEST_COMMITS",
           "Which older file slices stay: those of the last commits, those of the last hours, or the latest versions of each file group. The newest "
           "slice always stays, and so does everything that a savepoint, a pending write or a planned service needs.",
           choices=words("KEEP_LATEST_COMMITS", "KEEP_LATEST_BY_HOURS", "KEEP_LATEST_FILE_VERSIONS"), aliases=("hoodie.cleaner.policy",)),
    Option("hoodie.clean.commits.retained", "cleaning.commits", int, 10,
           "Number of commits whose states and changes stay readable, under `KEEP_LATEST_COMMITS`.", minimum=1,
           aliases=("hoodie.cleaner.commits.retained",)),
    Option("hoodie.clean.hours.retained", "cleaning.hours", int, 24,
           "Number of hours whose states stay readable, under `KEEP_LATEST_BY_HOURS`.", minimum=1, maximum=1_000_000,
           aliases=("hoodie.cleaner.hours.retained",)),
    Option("hoodie.clean.fileversions.retained", "cleaning.file_versions", int, 3,
           "Number of file slices of each file group that stay, under `KEEP_LATEST_FILE_VERSIONS`.", minimum=1,
           aliases=("hoodie.cleaner.fileversions.retained",)),
    Option("hoodie.clean.trigger.max.commits", "cleaning.max_commits", int, 1,
           "Number of commits since the last clean after which a clean is due. `table.cleaning.run()` ignores it.", minimum=1,
           aliases=("hoodie.clean.max.commits",)),
    Option("hoodie.clean.incremental.enabled", "cleaning.incremental", bool, True,
           "A plan looks only at the partitions that commits have changed since the last clean. If false, it lists all partitions.",
           aliases=("hoodie.cleaner.incremental.mode",)),
    Option("hoodie.write.empty.clean.interval.hours", "cleaning.empty_hours", int, -1,
           "Hours since the last clean after which a clean is completed even without files to delete, if commits have become too old since then. "
           "Later plans then skip the partitions of these commits. For tables that only grow. -1: no such cleans.", minimum=-1, maximum=1_000_000),
    Option("hoodie.clean.partition.filter.selected", "cleaning.partitions", str, "",
           "Comma-separated paths of the only partitions that a clean looks at. The next clean without a filter lists all partitions.",
           aliases=("hoodie.cleaner.partition.filter.selected",)),
    Option("hoodie.clean.partition.filter.regex", "cleaning.partition_regex", str, "",
           "Regular expression that the complete path of a partition must match, if no partitions are selected by name.",
           aliases=("hoodie.cleaner.partition.filter.regex",)),
    Option("pyhudi.clean.max.files", "cleaning.max_files", int, 0,
           "Number of files after which a plan ends; the last file group is completed. 0 for no limit.", minimum=0),
    Option("pyhudi.clean.keep.seconds", "cleaning.keep_seconds", int, 0,
           "States of the last seconds stay readable under every policy, for readers that take long. 0 for no such time.", minimum=0,
           maximum=1_000_000_000),
    *options_of("compaction", CompactionOptions),
    *options_of("clustering", ClusteringOptions),
    *options_of("catalog", CatalogOptions),
    Option("pyhudi.sweep.min.age.minutes", "upkeep.sweep_age_minutes", int, 1440,
           "Minutes since its last change after which `table.sweep` deletes a file that no commit, no plan and no running writer names.", minimum=0),
    Option("hoodie.partition.ttl.inline", "upkeep.ttl_inline", bool, False, "Every commit also deletes partitions that have expired."),
    Option("hoodie.partition.ttl.management.strategy.type", "upkeep.ttl_strategy", str, "KEEP_BY_TIME",
           "The start of the days until a partition expires: `KEEP_BY_TIME`, its last write; `KEEP_BY_CREATION_TIME`, its creation.",
           choices=words("KEEP_BY_TIME", "KEEP_BY_CREATION_TIME"), not_yet=("keep_by_event_time",)),
    Option("hoodie.partition.ttl.strategy.days.retain", "upkeep.ttl_days", int, -1,
           "Number of days after which a partition expires. 0: never. -1: the number in the table's rule `partitions_expire`; without it, never.",
           minimum=-1),
    Option("hoodie.partition.ttl.strategy.partition.selected", "upkeep.ttl_partitions", str, None,
           "Comma-separated paths of the only partitions that can expire."),
    Option("hoodie.partition.ttl.strategy.max.delete.partitions", "upkeep.ttl_max_partitions", int, 1000,
           "Maximum number of partitions that one commit deletes because they have expired.", minimum=1),
    *(
        Option(f"pyhudi.tags.{name}", f"upkeep.tags_{name}", int, 0,
               f"Number of {name} tags that stay: savepoints that `table.tagging` and upkeep make, one in each {period}; 0: none is made.", minimum=0)
        for name, period in (("hourly", "hour"), ("daily", "day"), ("weekly", "week"), ("monthly", "month"))
    ),
    Option("pyhudi.iceberg.automatic", "iceberg.automatic", bool, False,
           "Every commit also syncs the Iceberg metadata of the table (`table.iceberg`); the first one makes it."),
    Option("pyhudi.iceberg.snapshots", "iceberg.snapshots", int, 100,
           "Number of Iceberg snapshots that a sync keeps, if cleaning does not remove their files before.", minimum=1),
    Option("hoodie.archive.automatic", "archival.automatic", bool, True,
           "Every commit checks whether old instants are due for archival, and archives them."),
    Option("hoodie.keep.max.commits", "archival.max_commits", int, 30,
           "Number of completed commits on the active timeline above which the oldest ones are archived.", minimum=2),
    Option("hoodie.keep.min.commits", "archival.min_commits", int, 20,
           "Number of completed commits that stay on the active timeline; less than hoodie.keep.max.commits.", minimum=1),
    Option("hoodie.archive.beyond.savepoint", "archival.beyond_savepoint", bool, False,
           "Also archive instants newer than the first savepoint; savepointed commits themselves stay."),
    Option("hoodie.timeline.compaction.batch.size", "archival.batch_size", int, 10,
           "Number of files of one layer of the archived timeline that are merged into one file of the next layer.", minimum=2, maximum=1000),
    Option("pyhudi.condition.timezone", "condition_timezone", str, None,
           "Time zone of conditions, for times without a zone, `hour(at)` and `CAST(at AS DATE)`. The default is the zone of the session in the data "
           "source of Spark, and UTC elsewhere; a Spark session in another zone then refuses a condition that depends on the zone.", Scope.READ),
    Option("pyhudi.version6.merge.law", "older_merge_law", str, None,
           "The rules for merging the logs of a table of versions 3 to 6: `0.15`, the rules of the Hudi releases that wrote it (the default); `1.x`, "
           "the rules by which Hudi 1.0 and later read the same table. An upgrade keeps the rows that these rules give.",
           Scope.READ, choices=words("0.15", "1.x")),
    Option("hoodie.write.auto.upgrade", "auto_upgrade", bool, False,
           "Accepted because Hudi 1.1 and newer need it to keep a table at version 8; no write of this package changes the version.",
           choices={"false": "false"}),
)  # fmt: skip

LATER_PREFIXES = (
    "hoodie.archive.", "hoodie.clean.", "hoodie.cleaner.", "hoodie.clustering.", "hoodie.compact.", "hoodie.keep.",
    "hoodie.logfile.", "hoodie.log.compaction.", "hoodie.metadata.", "hoodie.bucket.", "hoodie.layout.", "hoodie.keygen.",
    "hoodie.datasource.", "hoodie.table.cdc.", "hoodie.record.index.", "hoodie.write.", "hoodie.parquet.", "hoodie.schema.",
)  # fmt: skip
"""Key prefixes that Hudi knows. An unknown key with such a prefix gets a milder message."""
