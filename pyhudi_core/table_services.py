"""The table services of a table, as attributes of `HudiTable`. A new service is a property here and a line of the registry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from pyhudi_core.lazy import lazy, lazy_call, lazy_in
from pyhudi_core.model.operation import OperationType
from pyhudi_core.naming import NamesInstead
from pyhudi_core.opened_table.opened_table import OpenedTable

if TYPE_CHECKING:
    import pyarrow as pa

    from pyhudi_core import validators
    from pyhudi_core.model import alteration, table_rules
    from pyhudi_core.model.table_rules import TableRules
    from pyhudi_core.read import key_history as keys
    from pyhudi_core.read import reads
    from pyhudi_core.read.inspection import Inspection
    from pyhudi_core.read.key_history import KeyHistory
    from pyhudi_core.repairs.catalog_drop import CatalogDrop
    from pyhudi_core.repairs.drop import TableDrop
    from pyhudi_core.repairs.duplicate_removal import Duplicates
    from pyhudi_core.repairs.erasure import Erasure
    from pyhudi_core.savepoints.holds import Holds
    from pyhudi_core.savepoints.savepoints import Savepoints
    from pyhudi_core.services import registry
    from pyhudi_core.services.archival.archival import Archival
    from pyhudi_core.services.catalog_sync import CatalogSync
    from pyhudi_core.services.cleaning.cleaning import Cleaning
    from pyhudi_core.services.clustering.clustering import Clustering
    from pyhudi_core.services.compaction.compaction import Compaction
    from pyhudi_core.services.compaction.log_compaction import LogCompaction
    from pyhudi_core.services.expiry.expiry import Expiry
    from pyhudi_core.services.failed_writes import FailedWrites
    from pyhudi_core.services.iceberg_sync import IcebergSync
    from pyhudi_core.services.indexing.indexes import Indexes
    from pyhudi_core.services.indexing.indexing import Indexing, IndexingResult
    from pyhudi_core.services.metadata.metadata_compaction import MetadataCompaction
    from pyhudi_core.services.metadata.metadata_tables import Dropped, MetadataTableOf
    from pyhudi_core.services.metadata.metadata_upkeep import MetadataArchival, MetadataCleaning
    from pyhudi_core.services.restore.restores import Restores
    from pyhudi_core.services.restore.rollbacks import Rollbacks
    from pyhudi_core.services.service import TableService
    from pyhudi_core.services.sweep import disk_usage as usage
    from pyhudi_core.services.sweep.disk_usage import DiskUsage
    from pyhudi_core.services.sweep.sweep import Sweep
    from pyhudi_core.services.tagging import ScheduledTags
    from pyhudi_core.services.versions.upgrades import Downgrades, Upgrades
    from pyhudi_core.validators import Validator
    from pyhudi_core.write import batch, handle, states
    from pyhudi_core.write.result import Commit
else:
    registry = lazy("pyhudi_core.services.registry")
    batch, handle, states = lazy_in("pyhudi_core.write", "batch", "handle", "states")
    usage = lazy("pyhudi_core.services.sweep.disk_usage")
    keys, reads = lazy("pyhudi_core.read.key_history"), lazy("pyhudi_core.read.reads")
    alteration, table_rules = lazy_in("pyhudi_core.model", "alteration", "table_rules")
    validators = lazy("pyhudi_core.validators")
    Inspection = lazy_call("pyhudi_core.read.inspection", "Inspection")
    Archival = lazy_call("pyhudi_core.services.archival.archival", "Archival")
    Cleaning = lazy_call("pyhudi_core.services.cleaning.cleaning", "Cleaning")
    Clustering = lazy_call("pyhudi_core.services.clustering.clustering", "Clustering")
    Compaction = lazy_call("pyhudi_core.services.compaction.compaction", "Compaction")
    LogCompaction = lazy_call("pyhudi_core.services.compaction.log_compaction", "LogCompaction")
    TableDrop = lazy_call("pyhudi_core.repairs.drop", "TableDrop")
    Duplicates = lazy_call("pyhudi_core.repairs.duplicate_removal", "Duplicates")
    Erasure = lazy_call("pyhudi_core.repairs.erasure", "Erasure")
    Expiry = lazy_call("pyhudi_core.services.expiry.expiry", "Expiry")
    FailedWrites = lazy_call("pyhudi_core.services.failed_writes", "FailedWrites")
    Holds = lazy_call("pyhudi_core.savepoints.holds", "Holds")
    CatalogSync = lazy_call("pyhudi_core.services.catalog_sync", "CatalogSync")
    IcebergSync = lazy_call("pyhudi_core.services.iceberg_sync", "IcebergSync")
    Indexes = lazy_call("pyhudi_core.services.indexing.indexes", "Indexes")
    Indexing = lazy_call("pyhudi_core.services.indexing.indexing", "Indexing")
    MetadataArchival = lazy_call("pyhudi_core.services.metadata.metadata_upkeep", "MetadataArchival")
    MetadataCleaning = lazy_call("pyhudi_core.services.metadata.metadata_upkeep", "MetadataCleaning")
    MetadataCompaction = lazy_call("pyhudi_core.services.metadata.metadata_compaction", "MetadataCompaction")
    MetadataTableOf = lazy_call("pyhudi_core.services.metadata.metadata_tables", "MetadataTableOf")
    Restores = lazy_call("pyhudi_core.services.restore.restores", "Restores")
    Rollbacks = lazy_call("pyhudi_core.services.restore.rollbacks", "Rollbacks")
    Savepoints = lazy_call("pyhudi_core.savepoints.savepoints", "Savepoints")
    ScheduledTags = lazy_call("pyhudi_core.services.tagging", "ScheduledTags")
    Sweep = lazy_call("pyhudi_core.services.sweep.sweep", "Sweep")
    Downgrades = lazy_call("pyhudi_core.services.versions.upgrades", "Downgrades")
    Upgrades = lazy_call("pyhudi_core.services.versions.upgrades", "Upgrades")


class TableServices(NamesInstead):
    """The attributes of a table for maintenance: services with ``plan()``, ``schedule()``, ``execute()`` and ``run()``, and calls that create or
    remove indexes, savepoints and other objects.
    """

    _opened: OpenedTable
    _INSTEAD: ClassVar[Mapping[str, str]] = {
        "restores": "table.restore, as in table.restore.plan(to)",
        "rollbacks": "table.rollback, as in table.rollback.plan(instant)",
        "savepoint": "table.savepoints.create(instant, comment)",
        **dict.fromkeys(
            ("to_pyarrow", "to_pyarrow_table", "collect", "read", "load"), "table.to_arrow(), or table.scan()"
        ),
        **dict.fromkeys(("to_df", "toPandas", "df"), "table.to_pandas()"),
        **dict.fromkeys(("__len__", "num_rows", "shape"), "table.count(), or table.size()"),
        **dict.fromkeys(("__iter__", "to_pylist", "to_dicts", "rows"), "table.to_arrow().to_pylist()"),
        "__getitem__": "table.scan(columns=[...], where=condition)",
        "__contains__": "table.scan(where=condition).count(), or table.lookup(keys)",
        **dict.fromkeys(("show", "first", "tail", "take", "sample"), "table.head(n)"),
        **{name: f"table.scan().{name}()" for name in ("to_batches", "to_dataset")},
        "to_pyarrow_dataset": "table.scan().to_dataset()",
        "to_spark": "table.scan().to_spark(spark)",
        "limit": "table.scan().limit(n)",
        **dict.fromkeys(("select", "query", "filter", "where"), "table.scan(columns=[...], where=condition)"),
        "add": "table.insert(data)",
        **dict.fromkeys(("write", "put", "save"), "table.upsert(data)"),
        "overwrite": "table.insert_overwrite_table(data), or table.insert_overwrite(data) for the partitions of the data",
        "delete_all": "table.truncate()",
        "drop_partition": "table.delete_partitions(partitions)",
        "vacuum": "table.cleaning.run(), or hudi.upkeep(table)",
        "expire_snapshots": "table.cleaning.run(), or hudi.upkeep(table)",
        **dict.fromkeys(("clean",), "table.cleaning.run()"),
        **dict.fromkeys(
            ("optimize", "z_order", "rewrite_data_files", "cluster"), "table.clustering.run(), or hudi.upkeep(table)"
        ),
        "compact": "table.compaction.run()",
        "archive": "table.archival.run()",
        "repair": "table.duplicates.run(), or table.check() to see what is wrong",
        "upkeep": "hudi.upkeep(table)",
        **dict.fromkeys(("files", "get_add_actions", "file_uris"), "table.inspect.files()"),
        **dict.fromkeys(("version", "current_snapshot", "latest_instant"), "table.timeline, or table.history(limit=1)"),
        **dict.fromkeys(("commits", "snapshots", "log"), "table.history(), or table.timeline.commits"),
        **dict.fromkeys(("partitions", "partition_paths"), "table.partition_sizes()"),
        **dict.fromkeys(("columns", "schema_json", "dtypes"), "table.schema"),
        **dict.fromkeys(("metadata", "properties", "options", "detail", "describe"), "table.config"),
        **dict.fromkeys(("path", "uri", "table_uri", "base_path"), "table.location"),
        **dict.fromkeys(("load_as_version", "as_of", "time_travel"), "table.scan(as_of=time)"),
        **dict.fromkeys(("cdc", "load_cdf", "change_feed"), "table.changes(after=time)"),
        **dict.fromkeys(
            ("update_schema", "add_columns", "alter_table"), "table.alter(add=..., drop=..., rename=..., retype=...)"
        ),
        **dict.fromkeys(("transaction", "new_transaction"), "table.begin()"),
        "rollback_to": "table.restore(to)",
        "restore_to": "table.restore(to)",
        "refresh": "the table as it is: each call reads the latest state",
    }

    def alter(
        self,
        add: Mapping[str, pa.DataType] | None = None,
        drop: Sequence[str] = (),
        rename: Mapping[str, str] | None = None,
        retype: Mapping[str, pa.DataType] | None = None,
        order: Sequence[str] = (),
        extra_metadata: Mapping[str, str] | None = None,
        pre_commit: Sequence[Validator] = (),
        *,
        add_check: Mapping[str, str] | None = None,
        drop_check: str | Sequence[str] = (),
        not_null: str | Sequence[str] = (),
        nullable: str | Sequence[str] = (),
        default: Mapping[str, object] | None = None,
        generated: Mapping[str, str | None] | None = None,
        comment: str | Mapping[str, str | None] | None = None,
        partitions_expire: int | None = None,
    ) -> Commit:
        """Change columns and rules in one commit; no file is rewritten. After a change of columns, Hudi reads the table with
        ``hoodie.schema.on.read.enable=true``.

        ``drop``, ``rename`` and ``retype`` use the current column names; ``add`` and ``order`` use the new ones. Columns that ``order`` does not name
        come last. Nested columns have dotted paths. The arguments of rules are those of `TableRules`. None drops a default, a generated column or a
        comment; ``nullable`` drops NOT NULL. ``comment`` is a text for the table, or texts for columns. ``partitions_expire`` is a number of days; 0
        turns expiry off.

        Raises `SchemaMismatchError` for key, ordering and partition columns, for types that lose values, and for a rule that does not fit the
        columns. Raises `DataError` if a row of the table violates a new rule. After an error nothing was written.
        """
        with self._opened.verb() as context:
            rules = table_rules.RuleChanges.of(
                add_check, drop_check, not_null, nullable, default, generated, comment, partitions_expire
            )
            changes = alteration.ColumnChanges.of(add, drop, rename, retype, order, rules)
            asked = validators.Validators.of(pre_commit)
            extra, after = extra_metadata or {}, registry.following(context)
            request = states.WriteSpec(
                context, OperationType.ALTER_SCHEMA, extra, allow_empty=True, pre_commit=asked, after=after
            )
            with handle.Write(request, reads) as write:
                return handle.alter_table(write, changes)

    @property
    def rules(self) -> TableRules:
        """The rules of the table: checks, columns without nulls, defaults, generated columns, comments, expiry."""
        return self._opened.context().config.rules

    def disk_usage(self) -> DiskUsage:
        """Count the files of the table and their bytes: newest state, old versions, metadata table, files that no commit names."""
        with self._opened.verb() as context:
            return usage.disk_usage(context)

    def key_history(self, key: object) -> KeyHistory:
        """Return the commits that inserted, updated or deleted the row of a record key, newest first. Commits whose files were cleaned are missing.

        ``key``: the value of the key column, or its text. For several key columns: a mapping, or the record key as Hudi stores it.
        """
        with self._opened.verb() as context:
            return keys.key_history(context, key)

    @property
    def inspect(self) -> Inspection:
        """The table's files and metadata as Arrow tables: ``files()``, ``slices()``, ``partitions()``, ``commits()``, ``statistics()`` and others."""
        return Inspection(self._opened.context())

    @property
    def services(self) -> Mapping[str, TableService[Any]]:
        """The table's services by name: each service has ``plan``, ``schedule``, ``execute``, ``run`` and ``take_over``."""
        return registry.services_of(self._opened.context())

    @property
    def metadata_table(self) -> MetadataTableOf:
        """The table's metadata table: ``plan()``, ``create()``, ``drop()`` and ``rebuild()``. Every commit updates a listed metadata table."""
        return MetadataTableOf(self._opened.context())

    @property
    def failed_writes(self) -> FailedWrites:
        """The service that rolls back the instants of dead writers. Every write does this first."""
        return FailedWrites(self._opened.context())

    @property
    def compaction(self) -> Compaction:
        """The service that rewrites the log files of a merge-on-read table as base files: ``plan()``, ``schedule()``, ``execute()``, ``run()``."""
        return Compaction(self._opened.context())

    @property
    def log_compaction(self) -> LogCompaction:
        """The service that merges the log files of a file group into one: ``plan()``, ``schedule()``, ``execute()``, ``run()``."""
        return LogCompaction(self._opened.context())

    @property
    def cleaning(self) -> Cleaning:
        """The service that deletes older file slices: ``plan()``, ``schedule()``, ``execute()``, ``run()``."""
        return Cleaning(self._opened.context())

    @property
    def clustering(self) -> Clustering:
        """The service that merges small files and sorts rows: ``plan()``, ``schedule()``, ``execute()``, ``run()``, and ``cancel(instant)``."""
        return Clustering(self._opened.context())

    @property
    def indexing(self) -> Indexing:
        """The service that builds indexes while writers write: ``plan()``, ``schedule()``, ``execute()``, ``run()``, ``cancel()``."""
        return Indexing(self._opened.context())

    @property
    def indexes(self) -> Indexes:
        """The indexes: iterate over them, ``create(name)``, ``drop(name)``; `Indexes.create` says which indexes can be built while writers write."""
        return Indexes(self._opened.context())

    def sql(self, statement: str, spark: Any = None) -> pa.Table | IndexingResult | Dropped:
        """Run a statement of Hudi's SQL for indexes: ``CREATE INDEX``, ``DROP INDEX`` or ``SHOW INDEXES``; see `Indexes.sql`."""
        with self._opened.verb() as context:
            return Indexes(context).sql(statement, spark)

    @property
    def duplicates(self) -> Duplicates:
        """Record keys that are in several file groups of a partition: ``plan()`` finds them, ``run()`` keeps one row of each key."""
        return Duplicates(self._opened.context())

    @property
    def metadata_compaction(self) -> MetadataCompaction:
        """The service that rewrites the log files of the metadata table as base files. Commits run it when it is due."""
        return MetadataCompaction(self._opened.context())

    @property
    def metadata_cleaning(self) -> MetadataCleaning:
        """The service that deletes older file slices of the metadata table. Commits run it when it is due."""
        return MetadataCleaning(self._opened.context())

    @property
    def metadata_archival(self) -> MetadataArchival:
        """The service that moves old instants of the metadata table to its archived timeline. Commits run it when it is due."""
        return MetadataArchival(self._opened.context())

    @property
    def archival(self) -> Archival:
        """The service that moves old instants to the archived timeline: ``plan()`` and ``run()``. Commits run it when it is due."""
        return Archival(self._opened.context())

    @property
    def expiry(self) -> Expiry:
        """The service that deletes partitions that have expired (Hudi's partition TTL): ``plan()`` and ``run()``."""
        return Expiry(self._opened.context())

    @property
    def erasure(self) -> Erasure:
        """Erases rows and all traces of their keys, with a proof: ``plan(keys)``, ``run(keys)`` and ``verify(keys)``."""
        return Erasure(self._opened.context())

    @property
    def drop(self) -> TableDrop | CatalogDrop:
        """Delete the table: ``drop()``. This cannot be undone; ``drop.plan()`` first shows the files, the bytes, and the users of the table.

        If the table was opened by a name in a catalog, its names in the catalog are deleted, too.
        """
        by_name = self._opened.drop
        return TableDrop(self._opened) if by_name is None else by_name(self._opened)

    @property
    def sweep(self) -> Sweep:
        """The service that deletes unused files, such as files of killed processes: ``plan()`` and ``run()``."""
        return Sweep(self._opened.context())

    @property
    def iceberg(self) -> IcebergSync:
        """Iceberg metadata of the table, for other engines: ``sync()`` writes it for all commits, and ``plan()`` lists the missing commits."""
        return IcebergSync(self._opened.context())

    @property
    def catalog(self) -> CatalogSync:
        """The table in a Hive Metastore or in Glue: ``sync()`` creates or updates it there, and ``plan()`` lists the differences."""
        return CatalogSync(self._opened.context())

    catalog_sync = catalog
    """The same as ``catalog``, under the service's name, which orchestrators use."""

    @property
    def restore(self) -> Restores:
        """Restore the state of a commit or savepoint: ``restore(to)``, or ``restore(before=commit)``; later commits are undone. In steps:
        ``plan(to)``, ``schedule(to)``, ``execute()``, ``cancel(instant)``, and ``take_over()`` if a process died.
        """
        return Restores(self._opened.context())

    @property
    def rollback(self) -> Rollbacks:
        """Roll back one pending write, or undo the newest commit: ``rollback(instant)``; ``rollback.plan(instant)`` shows the effect first.

        Instants of dead writers are rolled back without this call.
        """
        return Rollbacks(self._opened.context())

    @property
    def upgrade(self) -> Upgrades:
        """Raise the table to a newer version: ``upgrade(to=8)``. ``upgrade.plan(to=8)`` first shows the steps and the changes."""
        return Upgrades(self._opened.context())

    @property
    def downgrade(self) -> Downgrades:
        """Lower the table to version 8, which Hudi 1.0 opens, or 6, which 0.15 opens: ``downgrade(to=8)``.

        ``downgrade.plan(to=8)`` first shows the steps.
        """
        return Downgrades(self._opened.context())

    @property
    def savepoints(self) -> Savepoints:
        """The savepoints: iterate over them, ``create(instant)``, ``delete(instant)``. Cleaning and archival keep the state of a savepoint."""
        return Savepoints(self._opened.context())

    @property
    def tagging(self) -> ScheduledTags:
        """The service that makes savepoints by a schedule (``pyhudi.tags.daily=30``), and deletes old ones: ``plan()`` and ``run()``."""
        return ScheduledTags(self._opened.context())

    @property
    def holds(self) -> Holds:
        """Holds keep files of a state until a given time, for slow readers: iterate, ``create(token, seconds=3600)``, ``delete(hold)``."""
        return Holds(self._opened.context())
