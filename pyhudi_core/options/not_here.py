"""Advice for options of Hudi's Spark jobs that this package does not have, by the pattern of their keys.

`find_option` raises an error with this text, and ``docs/options.md`` has the same table. Options that tune how Hudi runs have no meaning here.
Options that change the stored data are refused: if one were ignored, other rows or other files would be stored than the user wanted.

Invariant: each key that Hudi's Spark bundles know is an option of ``definitions``, or matches one of these patterns. An option or a method in a text
exists, and accepts the arguments in the text (``tests/unit/options/test_options_of_hudi.py``).
"""

from __future__ import annotations

from fnmatch import fnmatchcase

NOT_HERE: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        'the method that is called says it, such as table.upsert(data). With format("pyhudi") it is the option operation.',
        ("hoodie.datasource.write.operation", "hoodie.spark.sql.insert.into.operation", "hoodie.sql.insert.mode",
         "hoodie.sql.bulk.insert.enable", "hoodie.datasource.overwrite.mode", "hoodie.bulkinsert.overwrite.operation.type",
         "hoodie.static.overwrite.partition.paths"),
    ),
    (
        "table.delete_partitions(paths) takes the partitions.",
        ("hoodie.datasource.write.partitions.to.delete",),
    ),
    (
        (
            "an insert of a key that exists is an error. table.upsert(data) updates its row, and "
            "hoodie.datasource.write.insert.drop.duplicates=true skips it."
        ),
        ("hoodie.datasource.insert.dup.policy", "hoodie.merge.allow.duplicate.on.inserts"),
    ),
    (
        "the deletes of one call are always combined, because a key is deleted once.",
        ("hoodie.combine.before.delete",),
    ),
    (
        (
            "scan(), incremental(), changes() and scan(mode='read_optimized') say what is read. With format(\"pyhudi\") these are the options "
            "mode, as_of, after and until."
        ),
        ("hoodie.datasource.query.*", "hoodie.datasource.read.*", "hoodie.datasource.view.type", "hoodie.datasource.merge.type",
         "as.of.instant", "hoodie.query.as.ro.table", "hoodie.realtime.merge.skip", "hoodie.read.timeline.holes.resolution.policy",
         "hoodie.valid.commits.list", "hoodie.incremental.use.database"),
    ),
    (
        "a read always uses the statistics, the partitions and the buckets that the table has.",
        ("hoodie.enable.data.skipping", "hoodie.file.index.*", "hoodie.fileindex.*", "hoodie.bucket.index.query.pruning",
         "hoodie.layout.optimize.data.skipping.enable", "hoodie.file.group.reader.enabled", "hoodie.merge.use.record.positions"),
    ),
    (
        'option("starting", ...) says where a stream of format("pyhudi") begins.',
        ("hoodie.datasource.streaming.startoffset",),
    ),
    (
        (
            'the name of a stream finds its batches: option("stream", "orders"), or StreamSink(location, "orders"). A batch that fails ends the '
            "query, and Spark repeats it."
        ),
        ("hoodie.datasource.write.streaming.*", "hoodie.internal.spark.streaming.*"),
    ),
    (
        (
            "the columns record_key= and partition_by= of create_table make the keys and the folders; table.config shows the generator. "
            "hoodie.table.keygenerator.type=TIMESTAMP makes folders of times."
        ),
        ("hoodie.sql.origin.keygen.class", "hoodie.sql.partition.schema",
         "hoodie.datasource.write.keygenerator.consistent.logical.timestamp.enabled", "hoodie.datasource.write.secondarykey.column",
         "hoodie.datasource.write.slash.separated.date.partitioning", "hoodie.datasource.partition_extractor_class",
         "hoodie.table.partition_extractor_class", "hoodie.write.complex.keygen.*", "hoodie.skip.default.partition.validation"),
    ),
    (
        (
            "folders of times are in UTC, and have the formats of hoodie.keygen.timebased.input.dateformat and "
            "hoodie.keygen.timebased.output.dateformat."
        ),
        ("hoodie.keygen.timebased.input.dateformat.list.delimiter.regex", "hoodie.keygen.timebased.input.timezone",
         "hoodie.keygen.timebased.output.timezone", "hoodie.keygen.timebased.timezone", "hoodie.keygen.datetime.parser.class",
         "hoodie.deltastreamer.keygen.*"),
    ),
    (
        "record_key= of create_table gives the key columns.",
        ("primarykey",),
    ),
    (
        "ordering= of create_table gives the columns that decide which version of a row is newer.",
        ("precombinefield", "orderingfields", "hoodie.payload.ordering.field", "hoodie.payload.event.time.field",
         "hoodie.write.track.event.time.watermark"),
    ),
    (
        (
            "rows are merged by hoodie.write.record.merge.mode, by a payload class of Hudi (hoodie.compaction.payload.class), or by a merger of "
            "hudi.register_merger. Deletes are those of table.delete(keys), of the column _hoodie_is_deleted, and in version 9 of rows that "
            "hoodie.payload.delete.field and hoodie.payload.delete.marker mark."
        ),
        ("hoodie.payload.combined.schema*", "hoodie.payload.*.condition*", "hoodie.payload.original.avro.payload", "hoodie.payload.record.schema",
         "hoodie.payload.update.on.same.ordering.field", "hoodie.record.merge.property.*", "hoodie.support.payload",
         "hoodie.is.update.record.for.mor", "hoodie.datasource.write.record.merger.impls", "hoodie.write.record.merge.custom.implementation.classes",
         "hoodie.table.legacy.payload.class", "hoodie.table.partial.update.mode"),
    ),
    (
        "table.upsert(data, partial=True) updates the columns that the data has.",
        ("hoodie.write.partial.update.*", "hoodie.spark.sql.merge.into.partial.updates", "hoodie.internal.sql.*"),
    ),
    (
        (
            "a row is written with all columns of the table: add missing ones with nulls, or use table.upsert(data, partial=True). New columns "
            "and wider types are added with schema_evolution=both; for other changes of columns, call table.alter()."
        ),
        ("hoodie.datasource.write.reconcile.schema", "hoodie.write.set.null.for.missing.columns", "hoodie.schema.*", "hoodie.avro.schema*",
         "hoodie.datasource.write.schema.*", "hoodie.write.schema", "hoodie.internal.*", "hoodie.bulkinsert.schema.ddl",
         "hoodie.table.create.schema", "hoodie.write.concurrency.schema.conflict.resolution.enable"),
    ),
    (
        "data files hold all columns, the partition columns included.",
        ("hoodie.datasource.write.drop.partition.columns",),
    ),
    (
        (
            "new files are Parquet with their own settings: hoodie.parquet.max.file.size, hoodie.parquet.block.size and "
            "hoodie.parquet.compression.codec. Times are in UTC, with microseconds."
        ),
        ("hoodie.parquet.bloom.filter.enabled", "hoodie.parquet.compression.ratio", "hoodie.parquet.dictionary.enabled",
         "hoodie.parquet.field_id.write.enabled", "hoodie.parquet.flink.rowdata.write.support.class", "hoodie.parquet.outputtimestamptype",
         "hoodie.parquet.page.size", "hoodie.parquet.spark.row.write.support.class", "hoodie.parquet.write.*",
         "hoodie.parquet.writelegacyformat.enabled", "hoodie.avro.write.support.class", "hoodie.hfile.*", "hoodie.orc.*", "hoodie.lance.*",
         "hoodie.vector.columns", "hoodie.blob.*", "hoodie.read.blob.inline.mode", "hoodie.base.file.format", "hoodie.table.base.file.format",
         "hoodie.table.*.file.format", "hoodie.table.multiple.base.file.formats.enable", "hoodie.table.format",
         "hoodie.partition.metafile.use.base.format", "hoodie.logfile.to.parquet.compression.ratio", "hoodie.storage.layout.*"),
    ),
    (
        "an upsert of a merge-on-read table writes one log file for each file group. hoodie.logfile.data.block.format says what is in it.",
        ("hoodie.logfile.max.size", "hoodie.logfile.data.block.max.size"),
    ),
    (
        "a bulk insert writes the rows as they come. Clustering sorts them: hoodie.clustering.plan.strategy.sort.columns.",
        ("hoodie.bulkinsert.sort.*", "hoodie.bulkinsert.user.defined.partitioner.*", "hoodie.bulkinsert.are.partitioner.records.sorted",
         "hoodie.fileid.prefix.provider.class", "hoodie.layout.optimize.build.curve.sample.size", "hoodie.layout.optimize.curve.build.method",
         "hoodie.layout.optimize.enable"),
    ),
    (
        (
            "hoodie.parquet.max.file.size and hoodie.parquet.small.file.limit size the files; hoodie.copyonwrite.record.size.estimate helps the "
            "first write."
        ),
        ("hoodie.copyonwrite.insert.*", "hoodie.record.size.estimat*", "hoodie.merge.small.file.group.candidates.limit"),
    ),
    (
        "hoodie.index.type names one of the indexes; this package has no others.",
        ("hoodie.index.class", "hoodie.index.hbase.*", "hoodie.hbase.index.*", "hoodie.bucket.index.partition.*",
         "hoodie.bucket.index.remote.partitioner.enable"),
    ),
    (
        "an index reads what it needs, and keeps nothing between two writes.",
        ("hoodie.bloom.index.bucketized.*", "hoodie.bloom.index.fileid.key.sorting.enable", "hoodie.bloom.index.filter.type",
         "hoodie.bloom.index.keys.per.bucket", "hoodie.bloom.index.parallelism", "hoodie.bloom.index.prune.by.ranges",
         "hoodie.bloom.index.use.*", "hoodie.simple.index.parallelism", "hoodie.simple.index.use.caching", "hoodie.record.index.use.caching",
         "hoodie.global.index.*", "hoodie.global.simple.index.*"),
    ),
    (
        (
            "`pyhudi metadata LOCATION create --index ...` makes an index of the metadata table, and `drop` removes it; options of a new table "
            "are hoodie.metadata.index.column.stats.enable and hoodie.metadata.record.index.enable."
        ),
        ("hoodie.index.name", "hoodie.expression.index.*", "hoodie.metadata.index.async", "hoodie.metadata.index.bloom.filter.column.list",
         "hoodie.metadata.index.bloom.filter.parallelism", "hoodie.metadata.index.check.timeout.seconds",
         "hoodie.metadata.index.column.stats.column.list", "hoodie.metadata.index.column.stats.inmemory.projection.threshold",
         "hoodie.metadata.index.column.stats.max.columns.to.index", "hoodie.metadata.index.column.stats.parallelism",
         "hoodie.metadata.index.column.stats.processing.mode.override", "hoodie.metadata.index.drop", "hoodie.metadata.index.expression.*",
         "hoodie.metadata.index.partition.stats.file.group.count", "hoodie.metadata.index.partition.stats.parallelism",
         "hoodie.metadata.index.secondary.*", "hoodie.metadata.record.index.enable.validation.on.initialization",
         "hoodie.metadata.record.index.growth.factor", "hoodie.metadata.record.index.max.*", "hoodie.metadata.record.level.*",
         "hoodie.metadata.record.preparation.parallelism", "hoodie.metadata.partitioned.record.*",
         "hoodie.metadata.global.record.level.index.max.filegroup.count", "hoodie.metadata.bloom.filter.*", "hoodie.metadata.auto.*",
         "hoodie.table.index.defs.path", "hoodie.table.secondary.indexes.metadata", "hoodie.table.metadata.partitions*"),
    ),
    (
        (
            "each commit keeps the metadata table up to date. hoodie.metadata.enable and hoodie.metadata.compact.max.delta.commits are its "
            "options."
        ),
        ("hoodie.metadata.compact.max.delta.seconds", "hoodie.metadata.compact.trigger.strategy",
         "hoodie.metadata.derive.from.datatable.clean.policy", "hoodie.metadata.dir.filter.regex", "hoodie.metadata.fallback.enable",
         "hoodie.metadata.file.cache.max.size.mb", "hoodie.metadata.log.*", "hoodie.metadata.max.*", "hoodie.metadata.metrics.enable",
         "hoodie.metadata.optimized.log.blocks.scan.enable", "hoodie.metadata.range.*", "hoodie.metadata.repartition.*",
         "hoodie.metadata.spillable.map.path", "hoodie.metadata.streaming.*", "hoodie.metadata.table.*", "hoodie.metadata.write.*",
         "hoodie.assume.date.partitioning"),
    ),
    (
        (
            "table services run by `pyhudi upkeep`, by a call such as table.compaction.run(), or with each commit: hoodie.compact.inline=true, "
            "hoodie.clustering.inline=true, hoodie.clean.automatic=true."
        ),
        ("hoodie.archive.async", "hoodie.clean.async*", "hoodie.clustering.async.*", "hoodie.datasource.clustering.async.enable",
         "hoodie.datasource.compaction.async.enable", "hoodie.compact.schedule.inline", "hoodie.table.service*", "hoodie.log.compaction.enable",
         "hoodie.fail.writes.on.inline.table.service.exception", "hoodie.prewrite.cleaner.policy"),
    ),
    (
        "hoodie.clean.policy, hoodie.compaction.strategy and hoodie.clustering.plan.strategy.class say what a service takes.",
        ("hoodie.clean.allow.multiple", "hoodie.clean.delete.bootstrap.base.file", "hoodie.clean.max.commits.to.clean",
         "hoodie.clean.multiple.enabled", "hoodie.clean.optimize.using.local.engine.context", "hoodie.clean.trigger.strategy",
         "hoodie.cleaner.delete.bootstrap.base.file", "hoodie.compaction.lazy.block.read", "hoodie.compaction.partition.path.regex",
         "hoodie.compaction.plan.generator", "hoodie.compaction.reverse.log.read", "hoodie.compact.merge.handle.class",
         "hoodie.clustering.fail.on.pending.ingestion.during.conflict.resolution", "hoodie.clustering.plan.generation.use.local.engine.context",
         "hoodie.clustering.plan.strategy.binary.copy.schema.evolution.enable", "hoodie.clustering.plan.strategy.file.slices.sort.by",
         "hoodie.clustering.rollback.pending.replacecommit.on.conflict", "hoodie.partition.ttl.strategy.class", "hoodie.memory.compaction.*"),
    ),
    (
        "archival follows hoodie.keep.min.commits and hoodie.keep.max.commits.",
        ("hoodie.archive.block.on.latest.clean.ectr", "hoodie.archive.limit.instants", "hoodie.archivelog.folder",
         "hoodie.commits.archival.batch", "hoodie.fail.on.timeline.archiving", "hoodie.timeline.compaction.target.file.max.bytes",
         "hoodie.timeline.history.path", "hoodie.timeline.manifest.retained.versions", "hoodie.timeline.path"),
    ),
    (
        "failed writes are rolled back from their markers. hoodie.clean.failed.writes.policy says when.",
        ("hoodie.rollback.*", "hoodie.markers.*", "hoodie.write.markers.type", "hoodie.fail.job.on.duplicate.data.file.detection",
         "hoodie.block.writes.on.speculative.execution", "hoodie.write.ignore.failed", "hoodie.release.resource.on.completion.enable",
         "hoodie.write.can.ignore.post.commit.failures", "hoodie.post.commit.failures.ignored"),
    ),
    (
        "a write commits itself; table.begin() leaves the commit to the caller. A batch that changes no row makes no commit.",
        ("hoodie.auto.commit", "hoodie.allow.empty.commit", "hoodie.allow.multi.write.on.same.instant", "hoodie.instant.time"),
    ),
    (
        (
            "after a conflict a write is tried again pyhudi.commit.retries times; hoodie.write.concurrency.early.conflict.detection.enable=true "
            "stops early."
        ),
        ("hoodie.write.num.retries.on.conflict.failures", "hoodie.write.concurrency.async.*",
         "hoodie.write.concurrency.early.conflict.check.commit.conflict", "hoodie.write.concurrency.early.conflict.detection.strategy",
         "hoodie.auto.adjust.lock.configs", "hoodie.write.application.id", "hoodie.write.lock.app_id", "hoodie.fs.atomic_creation.support"),
    ),
    (
        'pre_commit=[...] takes the validators, such as hudi.unique("id").',
        ("hoodie.precommit.validators*", "hoodie.prewrite.validators*"),
    ),
    (
        "extra_metadata={...} of a write goes into the commit.",
        ("hoodie.datasource.write.commitmeta.key.prefix", "hoodie.write.rolling.metadata.*"),
    ),
    (
        "each write returns its commit, with figures in commit.stats; Dagster shows them.",
        ("hoodie.metrics*", "hoodie.write.commit.callback.*", "hoodie.client.init.callback.classes", "hoodie.writestatus.class"),
    ),
    (
        "rows that do not fit are refused before anything is written.",
        ("hoodie.errortable.*",),
    ),
    (
        (
            "table.catalog.sync() calls Glue, or a Hive Metastore through its Thrift interface, without JDBC. The table says where it is and how its "
            "partitions are read. A failed sync never undoes a commit, and a table in the catalog is never dropped."
        ),
        ("hoodie.datasource.hive_sync.use_*", "hoodie.datasource.hive_sync.jdbcurl", "hoodie.datasource.hive_sync.username",
         "hoodie.datasource.hive_sync.password", "hoodie.datasource.hive_sync.partition_*", "hoodie.datasource.hive_sync.base_file_format",
         "hoodie.datasource.hive_sync.ignore_exceptions", "hoodie.datasource.hive_sync.recreate_table_on_error",
         "hoodie.datasource.hive_sync.filter_pushdown*", "hoodie.datasource.hive_sync.bucket_sync*", "hoodie.datasource.meta.sync.base.path",
         "hoodie.datasource.meta.sync.glue.recreate_table_on_error", "hoodie.meta.sync.metadata_file_listing",
         "hoodie.meta.sync.no_partition_metadata", "hoodie.meta.sync.touch.partitions.enabled", "hoodie.meta_sync.*"),
    ),
    (
        (
            "a sync changes no partition index and no tag of Glue. Make them in Glue once (aws glue create-partition-index, aws glue tag-resource): "
            "each sync keeps them."
        ),
        ("hoodie.datasource.meta.sync.glue.partition_index*", "hoodie.datasource.meta.sync.glue.resource_tags"),
    ),
    (
        "hoodie.datasource.hive_sync.database and hoodie.datasource.hive_sync.table are the names in Glue, too.",
        ("hoodie.datasource.meta.sync.glue.database_name", "hoodie.datasource.meta.sync.glue.table_name"),
    ),
    (
        (
            "tables are registered in a Hive Metastore or in Glue only. hoodie.datasource.hive_sync.mode=manifest writes the list of files that "
            "BigQuery reads."
        ),
        ("hoodie.gcp.bigquery.sync.*", "hoodie.datahub.*", "hoodie.spark.polaris.catalog.class", "hoodie.metaserver*"),
    ),
    (
        "hudi.bootstrap(source, location, record_key=...) copies Parquet files into a new table.",
        ("hoodie.bootstrap.*",),
    ),
    (
        "listing and markers need no timeline server here.",
        ("hoodie.embed.timeline.server*", "hoodie.filesystem.view.*", "hoodie.filesystem.remote.*", "hoodie.instant_state.*"),
    ),
    (
        "storage_options={...} are the options of the storage.",
        ("hoodie.filesystem.operation.retry.*", "hoodie.consistency.check.*", "hoodie.optimistic.consistency.guard.*", "hoodie.storage.class",
         "hoodie.io.factory.class"),
    ),
    (
        "the number of tasks follows from the data and the cores.",
        ("hoodie.*parallelism",),
    ),
    (
        "memory and buffers have their own bounds; hoodie.memory.merge.max.size is that of a compaction.",
        ("hoodie.memory.dfs.buffer.max.size", "hoodie.memory.merge.fraction", "hoodie.memory.spillable.map.path",
         "hoodie.memory.writestatus.failure.fraction", "hoodie.common.*", "hoodie.write.buffer.*", "hoodie.write.executor.*",
         "hoodie.*.storage.level", "hoodie.cdc.file.group.iterator.memory.spill.bytes"),
    ),
    (
        "rows are written and merged by this package's own code.",
        ("hoodie.datasource.write.row.writer.enable", "hoodie.spark.sql.optimized.writes.enable", "hoodie.write.*.handle.*",
         "hoodie.merge.data.validation.enabled", "hoodie.optimized.log.blocks.scan.enable", "hoodie.time.generator.type",
         "hoodie.sensitive.config.keys"),
    ),
    (
        "the location of create_table or open_table says where the table is.",
        ("hoodie.base.path", "hoodie.tablepath"),
    ),
    (
        "the writer that created the table has set this property, and no write changes it.",
        ("hoodie.table.checksum", "hoodie.table.initial.version", "hoodie.timeline.layout.version", "hoodie.properties*",
         "hoodie.read.columns.set"),
    ),
    (
        "Hudi Streamer is a program of Hudi. hudi.Consumer and the stream sink read and write step by step here.",
        ("hoodie.streamer.*", "hoodie.deltastreamer.*"),
    ),
)  # fmt: skip
"""Texts, each with its patterns; ``*`` is any text. Keys are compared in lower case. If two patterns match, the longer one decides."""


def instead_of(key: str) -> str | None:
    """Return the advice for an option of Hudi; None if the key is unknown."""
    found = [(len(each), why) for why, patterns in NOT_HERE for each in patterns if fnmatchcase(key.lower(), each)]
    return max(found)[1] if found else None
