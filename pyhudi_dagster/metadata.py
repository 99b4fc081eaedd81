"""What the UI shows about a commit. All figures come from the timeline; no data file is opened and no JVM started.

At most 30 entries and about 16 KiB an event; where a list is cut, its title says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import dagster as dg
import pyarrow as pa

import pyhudi_core as hudi
from pyhudi_core import CommitMetadata, WriteStat
from pyhudi_dagster import history
from pyhudi_dagster.info import HudiAssetInfo
from pyhudi_dagster.partitions import HudiPartitions, value_of_path
from pyhudi_dagster.settings import names
from pyhudi_dagster.timeline_view import parsed, timeline_markdown, timeline_table
from pyhudi_dagster.writer import Written

PARTITIONS_SHOWN = 50
SMALL_FILE = 100 * 1024 * 1024
FEW_EVENTS = 10
_BULKY = ("hudi/timeline", "hudi/timeline_chart", "hudi/partitions_touched", "dagster/column_schema")


@dataclass(frozen=True, slots=True)
class TableSize:
    """The current base files of a table, or of one of its partitions: rows, bytes, files, and how many files are small."""

    rows: int = 0
    bytes: int = 0
    files: int = 0
    small: int = 0


def table_sizes(table: hudi.HudiTable) -> dict[str, TableSize] | None:
    """Sizes by partition path, from the write stats of the active timeline; None if older commits have left it."""
    if table.snapshot().visibility.has_history():
        return None
    current: dict[tuple[str, str], WriteStat] = {}
    for instant in table.timeline.commits:
        commit = table.commit_metadata(instant)
        for partition, file_ids in commit.replaced.items():
            for file_id in file_ids:
                current.pop((partition, file_id), None)
        current.update({(stat.partition, stat.file_id): stat for stat in commit.stats if stat.path})
    sizes: dict[str, TableSize] = {}
    for stat in current.values():
        if stat.rows:
            known = sizes.get(stat.partition, TableSize())
            small = known.small + (stat.size < SMALL_FILE)
            sizes[stat.partition] = TableSize(known.rows + stat.rows, known.bytes + stat.size, known.files + 1, small)
    return sizes


def definition_metadata(info: HudiAssetInfo) -> dict[str, Any]:
    """What stands at the asset itself: the keys by which the table is organised."""
    settings = info.settings
    entries: dict[str, Any] = {
        "hudi/record_key": ", ".join(settings.record_key),
        "hudi/partition_by": ", ".join(settings.partition_by),
        "hudi/ordering": settings.ordering or "",
        "hudi/table_type": settings.table_type,
        "dagster/table_name": info.table,
        "dagster/storage_kind": "hudi",
    }
    if isinstance(settings.schema, pa.Schema):
        entries["dagster/column_schema"] = _columns(
            settings.schema, settings.record_key, settings.partition_by, names(settings.ordering)
        )
    return {name: value for name, value in entries.items() if value}


def commit_metadata(info: HudiAssetInfo, written: Written) -> dict[str, Any]:
    """The metadata of a materialization."""
    commit = written.commit
    stats = commit.metadata.stats
    entries: dict[str, Any] = {
        **commit_names(written),
        "hudi/adopted": written.adopted,
        "hudi/rows_inserted": sum(stat.inserts for stat in stats),
        "hudi/rows_updated": sum(stat.updates for stat in stats),
        "hudi/rows_deleted": sum(stat.deletes for stat in stats),
        "hudi/rows_unchanged": sum(max(0, stat.rows - stat.inserts - stat.updates) for stat in stats),
        "hudi/bytes_written": sum(stat.size for stat in stats),
        "hudi/files_written": len(stats),
        "hudi/duration_total_s": _seconds(commit),
        "hudi/timeline": timeline_table(shown := history.entries(written.table)),
        "hudi/timeline_chart": timeline_markdown(shown),
        "hudi/partitions_touched": partitions_touched(commit.metadata),
        "hudi/commit_url": dg.MetadataValue.path(_commit_file(written.table, commit.instant)),
        "dagster/uri": written.table.location,
        "dagster/table_name": info.table,
        "dagster/column_schema": column_schema(written.table),
    }
    if not written.adopted:
        entries |= {
            "hudi/duration_write_s": round(written.write_seconds, 3),
            "hudi/duration_commit_s": round(written.commit_seconds, 3),
            "hudi/lock_wait_ms": round(written.lock_wait * 1000, 1),
            "hudi/lock_held_ms": round(written.lock_held * 1000, 1),
            "hudi/conflict_retries": written.retries,
        }
    return entries | _size_entries(table_sizes(written.table))


def commit_names(written: Written) -> dict[str, Any]:
    """By what the commit can be found."""
    commit = written.commit
    return {
        "hudi/instant": commit.instant.requested_time,
        "hudi/completion_time": commit.completion_time,
        "hudi/operation": (commit.metadata.operation or "").lower(),
    }


def shared(entries: Mapping[str, Any], events: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split into what every event of a run over many partitions carries, and the bulky rest that one of them is enough for."""
    bulky = _BULKY if events > FEW_EVENTS else ()
    return (
        {name: value for name, value in entries.items() if name not in bulky},
        {name: value for name, value in entries.items() if name in bulky},
    )


def _size_entries(sizes: Mapping[str, TableSize] | None) -> dict[str, Any]:
    if sizes is None:
        return {}
    files = sum(size.files for size in sizes.values())
    small = sum(size.small for size in sizes.values())
    return {
        "dagster/row_count": sum(size.rows for size in sizes.values()),
        "dagster/size_bytes": sum(size.bytes for size in sizes.values()),
        "hudi/file_groups": files,
        "hudi/small_file_ratio": round(small / files, 3) if files else 0.0,
    }


def partition_metadata(
    partitions: HudiPartitions, keys: Iterable[str], written: Written
) -> Iterator[tuple[str, dict[str, Any]]]:
    """For each partition key of the run: the rows of its partitions, and what the commit did to them."""
    sizes = table_sizes(written.table)
    stats: dict[tuple[str, ...], list[WriteStat]] = {}
    for stat in written.commit.metadata.stats:
        stats.setdefault(value_of_path(stat.partition, partitions.columns), []).append(stat)
    by_value = {value_of_path(path, partitions.columns): size for path, size in (sizes or {}).items()}
    for key in keys:
        owned = partitions.values_of_key(key)
        mine = [stat for value in owned for stat in stats.get(value, [])]
        entries = {
            "hudi/partition_rows_inserted": sum(stat.inserts for stat in mine),
            "hudi/partition_rows_updated": sum(stat.updates for stat in mine),
            "hudi/partition_rows_deleted": sum(stat.deletes for stat in mine),
        }
        if sizes is not None:
            entries["dagster/partition_row_count"] = sum(by_value[value].rows for value in owned if value in by_value)
        yield key, entries


def partitions_touched(commit: CommitMetadata) -> dg.TableMetadataValue:
    """What the commit did to each partition; the first 50."""
    paths = sorted(commit.partitions)
    schema = dg.TableSchema(
        columns=[
            dg.TableColumn("partition", "string", description=_cut(len(paths))),
            dg.TableColumn("inserted", "int"),
            dg.TableColumn("updated", "int"),
            dg.TableColumn("deleted", "int"),
            dg.TableColumn("files", "int"),
            dg.TableColumn("bytes", "int"),
        ]
    )
    records = [_partition_record(path, commit) for path in paths[:PARTITIONS_SHOWN]]
    return dg.MetadataValue.table(records=records, schema=schema)


def _cut(count: int) -> str:
    return f"{min(count, PARTITIONS_SHOWN)} of {count:,}".replace(",", " ")


def _partition_record(path: str, commit: CommitMetadata) -> dg.TableRecord:
    stats = [stat for stat in commit.stats if stat.partition == path]
    return dg.TableRecord(
        {
            "partition": path or "(none)",
            "inserted": sum(stat.inserts for stat in stats),
            "updated": sum(stat.updates for stat in stats),
            "deleted": sum(stat.deletes for stat in stats),
            "files": len(stats),
            "bytes": sum(stat.size for stat in stats),
        }
    )


def column_schema(table: hudi.HudiTable) -> dg.TableSchema:
    """The Columns tab: types, nullability, and the role that each column has in the table as a tag."""
    config = table.config
    return _columns(table.schema, config.record_key_fields, config.partition_fields, config.ordering_fields)


def _columns(
    schema: pa.Schema, record_key: Sequence[str], partition_by: Sequence[str], ordering: Sequence[str]
) -> dg.TableSchema:
    columns = []
    for field in schema:
        if field.name.startswith("_hoodie_"):
            continue
        roles = {
            "record_key": field.name in record_key,
            "partition": field.name in partition_by,
            "ordering": field.name in ordering,
        }
        columns.append(
            dg.TableColumn(
                name=field.name,
                type=str(field.type),
                constraints=dg.TableColumnConstraints(nullable=field.name not in record_key),
                tags={name: "" for name, holds in roles.items() if holds},
            )
        )
    return dg.TableSchema(columns=columns)


def _commit_file(table: hudi.HudiTable, instant: hudi.Instant) -> str:
    return f"{table.location}/.hoodie/timeline/{instant.file_name()}"


def _seconds(commit: history.PastCommit) -> float:
    start, end = parsed(commit.instant.requested_time), parsed(commit.completion_time)
    zero = datetime.fromtimestamp(0, UTC)
    return round(((end or zero) - (start or zero)).total_seconds(), 3) if start and end else 0.0
