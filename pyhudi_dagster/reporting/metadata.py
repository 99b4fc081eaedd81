"""The metadata entries for a commit in Dagster's UI. All figures come from the timeline and listings; no row is read and no JVM is started.

The entries have the order of the UI: size of the table, changes of the commit, time of the commit, durations of the commit; wide tables come last.
Times are timestamps, bytes are plain numbers (the UI writes ``dagster/size_bytes`` as KB or MB), durations are seconds, operations are the words of
`HudiWrite`. An event has at most 30 entries and, not counting the table's columns, 16 KiB; if a list is shortened, the title of the list says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

import dagster as dg

import pyhudi as hudi
from pyhudi import CommitMetadata, WriteStat
from pyhudi_core.orchestration import past_commits
from pyhudi_core.orchestration.data import descriptions_of
from pyhudi_core.orchestration.instant_times import moment_of, parsed
from pyhudi_core.orchestration.only_read import what_works
from pyhudi_dagster.lake.info import HudiAssetInfo
from pyhudi_dagster.reporting.column_schema import column_schema, declared_schema
from pyhudi_dagster.reporting.input_metadata import backlog_entries, gap_entries
from pyhudi_dagster.steps.writer import CompletedCommit
from pyhudi_dagster.timeline.identity import PREFIX
from pyhudi_dagster.timeline.timeline_view import entries_until, operation_name, timeline_markdown, timeline_table

PARTITIONS_SHOWN = 30
MOST_BYTES = 8 * 1024
"""Maximum size of the chart and the table rows together. Table headers and plain entries need nearly the same number of bytes in addition."""
OVERVIEW = ("dagster/row_count", "dagster/size_bytes")
"""The entries that Dagster's overview takes from the newest materialization, or otherwise from the newest observation."""


def definition_metadata(info: HudiAssetInfo) -> dict[str, Any]:
    """Return the entries of the asset itself: the columns that organise the table."""
    settings = info.settings
    entries: dict[str, Any] = {
        "hudi/record_key": ", ".join(settings.record_key),
        "hudi/partition_by": ", ".join(settings.partition_by),
        "hudi/ordering": settings.ordering or "",
        "hudi/table_type": settings.kind,
        "dagster/table_name": info.table,
        "dagster/storage_kind": "hudi",
        "dagster/column_schema": declared_schema(settings),
        "hudi/services_job": job_link(info) if info.services else None,
        "dagster/column_lineage": info.column_lineage,
    }
    return {name: value for name, value in entries.items() if value}


def job_link(info: HudiAssetInfo) -> dg.UrlMetadataValue:
    """Return the address of the job of the table's services in the UI, which finds the code location by the name of the job."""
    return dg.MetadataValue.url(f"/guess/{info.services_job}")


def size_entries(size: hudi.Size | None, namespace: str = "dagster") -> dict[str, Any]:
    """Return the size of the table. The row count is omitted if the count needs a read of the rows."""
    if size is None:
        return {}
    rows = {} if size.rows is None else {f"{namespace}/row_count": size.rows}
    return {**rows, f"{namespace}/size_bytes": size.bytes}


def layout_entries(size: hudi.Size | None) -> dict[str, Any]:
    """Return the file groups and small files of the table."""
    return {} if size is None else {"hudi/file_groups": size.file_groups, "hudi/small_files": size.small_files}


def input_entries(written: CompletedCommit) -> dict[str, Any]:
    """Return the backlog of the run's inputs, and the gaps that the run's commit skips; empty for an asset without `Changes`."""
    return {**backlog_entries(written.changes), **gap_entries(written.commit.extra)}


def row_entries(stats: Iterable[WriteStat], dropped: int = 0) -> dict[str, Any]:
    """Return the numbers of changed rows and written files. The sums over the partitions of a commit are the commit's totals.

    ``dropped``: rows of dropped partitions.
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


def name_entries(table: hudi.HudiTable, commit: past_commits.PastCommit) -> dict[str, Any]:
    """Return the entries that identify a commit; for a read-only table, also the operations that work on the table."""
    moment = moment_of(table, commit.completion_time)
    when = {"hudi/completion_time": dg.MetadataValue.timestamp(moment)} if moment else {}
    works = what_works(table)
    return {**when, "hudi/instant": commit.instant.requested_time, **({"hudi/only_read": works} if works else {})}


def operation_entry(commit: past_commits.PastCommit) -> dict[str, Any]:
    """Return the operation of the commit."""
    return {"hudi/operation": operation_name(commit.metadata.operation, commit.instant.action)}


def run_entry(commit: past_commits.PastCommit) -> dict[str, Any]:
    """Return the Dagster run that made the commit, if any."""
    run_id = commit.extra.get(PREFIX + "run_id")
    return {"hudi/run": dg.MetadataValue.dagster_run(run_id)} if run_id else {}


def duration_entries(written: CompletedCommit) -> dict[str, Any]:
    """Return the durations of a commit; the total is the sum of the other durations. For a commit that this step did not make, only the total is
    known.

    ``write``: writing the files; ``lock_wait``: waiting for the table's lock; ``commit``: checks and publication.
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


def total_entry(commit: past_commits.PastCommit) -> dict[str, Any]:
    """Return the duration of a commit, from its times on the timeline."""
    start, end = parsed(commit.instant.requested_time), parsed(commit.completion_time)
    return {"hudi/duration_total_s": round(_seconds(start, end), 3)} if start and end else {}


def _seconds(start: datetime, end: datetime) -> float:
    return max(0.0, (end - start).total_seconds())


def wide_entries(
    table: hudi.HudiTable, commit: past_commits.PastCommit, dropped: Mapping[str, int] | None = None
) -> dict[str, Any]:
    """Return the tables and the chart, shortened if the event would become too large."""
    shown = entries_until(table, commit.instant)
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


def place_entries(info: HudiAssetInfo, written: CompletedCommit) -> dict[str, Any]:
    """Return the locations of the table and the commit, and the table's columns."""
    table, instant = written.table, written.commit.instant
    described = {**descriptions_of(info.settings.schema), **written.descriptions}
    return {
        "hudi/commit_url": dg.MetadataValue.path(past_commits.place_of(table, instant)),
        "dagster/uri": table.location,
        "dagster/table_name": info.table,
        "dagster/column_schema": column_schema(table, described),
        **({"dagster/column_lineage": info.column_lineage} if info.column_lineage else {}),
    }


def partitions_touched(
    commit: CommitMetadata, shown: int = PARTITIONS_SHOWN, dropped: Mapping[str, int] | None = None
) -> dg.TableMetadataValue:
    """Return the changes of the commit to each partition; only the first partitions if there are many."""
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
    """Return a number of bytes as text, in the format of the UI: 1000 B are 1 KB."""
    amount, units = float(count), ["B", "KB", "MB", "GB", "TB"]
    while amount >= 1000 and len(units) > 1:
        amount, units = amount / 1000, units[1:]
    return f"{amount:.0f} {units[0]}" if units[0] == "B" else f"{amount:.1f} {units[0]}"
