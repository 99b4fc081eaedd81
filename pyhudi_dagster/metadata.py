"""The entries that Dagster's UI shows about a commit. All figures come from the timeline and listings; no row is read and no JVM started.

The order of the entries is that of the UI: how large the table is, what the commit did, when, how long it took; wide tables come last. Times are
timestamps, bytes are plain numbers (the UI writes ``dagster/size_bytes`` as KB or MB), durations are seconds, operations are the words of
`HudiWrite`. At most 30 entries and 16 KiB an event, the table's columns aside; where a list is cut, its title says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

import dagster as dg

import pyhudi_core as hudi
from pyhudi_core import CommitMetadata, WriteStat
from pyhudi_dagster import history, incremental
from pyhudi_dagster.column_schema import column_schema, declared_schema
from pyhudi_dagster.identity import PREFIX
from pyhudi_dagster.info import HudiAssetInfo
from pyhudi_dagster.timeline_view import operation_name, parsed, timeline_markdown, timeline_table
from pyhudi_dagster.writer import Written

PARTITIONS_SHOWN = 30
MOST_BYTES = 8 * 1024
"""Of the chart and the rows of tables together; their headers, and the plain entries, take nearly as much again."""
_RECORD_BYTES = 40


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
        "dagster/column_schema": declared_schema(settings),
    }
    return {name: value for name, value in entries.items() if value}


def size_entries(size: hudi.Size | None) -> dict[str, Any]:
    """How large the table is. The row count is left out where only reading the rows would tell it."""
    if size is None:
        return {}
    rows = {} if size.rows is None else {"dagster/row_count": size.rows}
    return {**rows, "dagster/size_bytes": size.bytes}


def layout_entries(size: hudi.Size | None) -> dict[str, Any]:
    """How the table's bytes lie in files."""
    return {} if size is None else {"hudi/file_groups": size.file_groups, "hudi/small_files": size.small_files}


def input_entries(written: Written) -> dict[str, Any]:
    """How far the run was behind its inputs, and the gaps that its commit passes over; nothing for an asset without `Changes`."""
    return {**written.facts, **incremental.gap_facts(written.commit.extra)}


def row_entries(stats: Iterable[WriteStat], dropped: int = 0) -> dict[str, Any]:
    """What a commit did to rows, and what it wrote for that. Of the partitions of a commit these add up to the commit's.

    ``dropped``: rows that went with dropped partitions.
    """
    written = [stat for stat in stats if stat.path]
    return {
        "hudi/rows_inserted": sum(stat.inserts for stat in written),
        "hudi/rows_updated": sum(stat.updates for stat in written),
        "hudi/rows_deleted": sum(stat.deletes for stat in written) + dropped,
        "hudi/rows_unchanged": sum(max(0, stat.rows - stat.inserts - stat.updates) for stat in written),
        "hudi/files_written": len(written),
        "hudi/bytes_written": sum(stat.size for stat in written),
    }


def name_entries(commit: history.PastCommit) -> dict[str, Any]:
    """By what a commit can be found."""
    moment = parsed(commit.completion_time)
    when = {"hudi/completion_time": dg.MetadataValue.timestamp(moment)} if moment else {}
    return {**when, "hudi/instant": commit.instant.requested_time}


def operation_entry(commit: history.PastCommit) -> dict[str, Any]:
    """What kind of commit it was."""
    return {"hudi/operation": operation_name(commit.metadata.operation, commit.instant.action)}


def run_entry(commit: history.PastCommit) -> dict[str, Any]:
    """The run that made the commit, if it was one of Dagster's."""
    run_id = commit.extra.get(PREFIX + "run_id")
    return {"hudi/run": dg.MetadataValue.dagster_run(run_id)} if run_id else {}


def duration_entries(written: Written) -> dict[str, Any]:
    """How long it took: the total is the sum of the others. Of a commit that this step did not make itself only the total is known.

    ``write``: until the files were there; ``lock_wait``: for the table's lock; ``commit``: the rest, checks and publication.
    """
    if written.adopted:
        return total_entry(written.commit)
    wait = round(written.lock_wait, 3)
    write = round(written.write_seconds, 3)
    commit = round(max(0.0, written.commit_seconds - written.lock_wait), 3)
    return {
        "hudi/duration_total_s": round(write + wait + commit, 3),
        "hudi/duration_write_s": write,
        "hudi/duration_lock_wait_s": wait,
        "hudi/duration_commit_s": commit,
        "hudi/lock_held_s": round(written.lock_held, 3),
        "hudi/conflict_retries": written.retries,
    }


def total_entry(commit: history.PastCommit) -> dict[str, Any]:
    """How long a commit took by its timeline."""
    start, end = parsed(commit.instant.requested_time), parsed(commit.completion_time)
    return {"hudi/duration_total_s": round(_seconds(start, end), 3)} if start and end else {}


def _seconds(start: datetime, end: datetime) -> float:
    return max(0.0, (end - start).total_seconds())


def wide_entries(
    table: hudi.HudiTable, commit: history.PastCommit, dropped: Mapping[str, int] | None = None
) -> dict[str, Any]:
    """The tables and the chart; shorter ones where they would make the event too large."""
    shown = history.entries(table, commit.instant)
    partitions = PARTITIONS_SHOWN
    while True:
        touched = partitions_touched(commit.metadata, partitions, dropped)
        chart, timeline = timeline_markdown(shown), timeline_table(shown)
        length = len(chart.md_str or "") + sum(
            len(str(record.data)) for record in (*touched.records, *timeline.records)
        )
        if length <= MOST_BYTES or len(shown) <= 1:
            return {
                "hudi/partitions_touched": touched,
                "hudi/timeline_chart": chart,
                "hudi/timeline": timeline,
            }
        shown, partitions = shown[len(shown) // 4 + 1 :], max(1, partitions * 2 // 3)


def place_entries(info: HudiAssetInfo, table: hudi.HudiTable, instant: hudi.Instant) -> dict[str, Any]:
    """Where the table and the commit are, and the table's columns."""
    return {
        "hudi/commit_url": dg.MetadataValue.path(f"{table.location}/.hoodie/timeline/{instant.file_name()}"),
        "dagster/uri": table.location,
        "dagster/table_name": info.table,
        "dagster/column_schema": column_schema(table),
    }


def partitions_touched(
    commit: CommitMetadata, shown: int = PARTITIONS_SHOWN, dropped: Mapping[str, int] | None = None
) -> dg.TableMetadataValue:
    """What the commit did to each partition; of many only the first."""
    paths = sorted(commit.partitions)
    title = "partition" if len(paths) <= shown else f"partition ({shown} of {len(paths)})"
    kinds = {title: "string", "inserted": "int", "updated": "int", "deleted": "int", "files": "int", "size": "string"}
    schema = dg.TableSchema(columns=[dg.TableColumn(name, kind) for name, kind in kinds.items()])
    gone = dropped or {}
    records = [_partition_record(title, path, commit, gone.get(path, 0)) for path in paths[:shown]]
    return dg.MetadataValue.table(records=records, schema=schema)


def _partition_record(title: str, path: str, commit: CommitMetadata, dropped: int) -> dg.TableRecord:
    entries = row_entries((stat for stat in commit.stats if stat.partition == path), dropped)
    return dg.TableRecord(
        {
            title: path or "(none)",
            "inserted": entries["hudi/rows_inserted"],
            "updated": entries["hudi/rows_updated"],
            "deleted": entries["hudi/rows_deleted"],
            "files": entries["hudi/files_written"],
            "size": readable_bytes(entries["hudi/bytes_written"]),
        }
    )


def readable_bytes(count: int) -> str:
    """A number of bytes for people, as the UI writes them: 1000 B are 1 KB."""
    amount, units = float(count), ["B", "KB", "MB", "GB", "TB"]
    while amount >= 1000 and len(units) > 1:
        amount, units = amount / 1000, units[1:]
    return f"{amount:.0f} {units[0]}" if units[0] == "B" else f"{amount:.1f} {units[0]}"
