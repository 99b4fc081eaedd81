"""Procedures of Hudi that show files and their sizes, the properties of a table, and its metadata table."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from pyhudi_core.errors import InvalidOptionError
from pyhudi_core.file_groups.slice import FileSlice
from pyhudi_core.metadata_table.reader import MetadataTable
from pyhudi_core.model.file_names import parse_data_file
from pyhudi_core.model.masking import is_secret
from pyhudi_core.snapshot.snapshot import Snapshot
from pyhudi_core.statements.procedure import SHOW, Procedure, ProcedureCall, Row, here
from pyhudi_core.storage.opening import open_storage
from pyhudi_core.table import HudiTable

_UNITS = ("B", "KB", "MB", "GB", "TB", "PB")


def _properties(call: ProcedureCall) -> Iterator[Row]:
    for key, value in sorted(call.table.config.to_properties().items()):
        yield {"key": key, "value": "***" if is_secret(key) else value}


def _path_detail(call: ProcedureCall) -> Iterator[Row]:
    """Count folders and files below a path, or below each folder of the path."""
    place = call.given["path"]
    storage = open_storage(place, call.names.storage_options)
    below: dict[str, list[tuple[str, int]]] = {}
    for info in storage.list(""):
        top = info.path.partition("/")[0] if call.given["is_sub"] else ""
        below.setdefault(top, []).append((info.path, info.size))
    rows = [_folder_of(f"{storage.location.rstrip('/')}/{top}".rstrip("/"), files) for top, files in below.items()]
    yield from sorted(rows, key=lambda row: -row["storage_size"] if call.given["sort"] else row["storage_path"])


def _folder_of(location: str, files: Sequence[tuple[str, int]]) -> dict[str, Any]:
    folders = {path.rpartition("/")[0] for path, _ in files}
    size = sum(size for _, size in files)
    unit = min(int(math.log(size, 1024)), len(_UNITS) - 1) if size else 0
    return {
        "path_num": len(folders),
        "file_num": len(files),
        "storage_size": size,
        "storage_size(unit)": f"{size / 1024**unit:.2f}{_UNITS[unit]}",
        "storage_path": location,
    }


def _file_sizes(call: ProcedureCall) -> Iterator[Row]:
    """Show the sizes of the files that each commit wrote, and the sizes of the files of all commits together."""
    table, wanted = call.table, call.given["partition_path"]
    everything: list[int] = []
    for instant in reversed(list(table.timeline.commits)):
        stats = [stat for stat in table.commit_metadata(instant).stats if not wanted or stat.partition == wanted]
        sizes = [stat.size for stat in stats]
        everything += sizes
        if sizes:
            yield _statistics(instant.requested_time, sizes)
    if everything:
        yield _statistics("ALL", everything)


def _statistics(time: str, sizes: Sequence[int]) -> dict[str, Any]:
    values = np.asarray(sizes, float)
    low, middle, high = np.percentile(values, [10, 50, 95])
    return {
        "commit_time": time,
        "min": int(values.min()),
        "10th": float(low),
        "50th": float(middle),
        "avg": float(values.mean()),
        "95th": float(high),
        "max": int(values.max()),
        "num_files": len(sizes),
        "std_dev": float(values.std()),
    }


def _amplification(call: ProcedureCall) -> Iterator[Row]:
    """Show how many rows each commit had to change, and how many rows it wrote."""
    table = call.table
    asked_all = written_all = 0
    for instant in reversed(list(table.timeline.commits)):
        stats = table.commit_metadata(instant).stats
        asked, written = sum(stat.inserts + stat.updates for stat in stats), sum(stat.rows for stat in stats)
        asked_all, written_all = asked_all + asked, written_all + written
        yield _factor(instant.requested_time, asked, written)
    yield _factor("Total", asked_all, written_all)


def _factor(time: str, asked: int, written: int) -> dict[str, Any]:
    return {
        "commit_time": time,
        "total_upserted": asked,
        "total_written": written,
        "write_amplification_factor": f"{written / asked:.2f}" if asked else "0",
    }


def _views(call: ProcedureCall) -> Iterator[FileSlice]:
    """Iterate over the newest slice of each file group, as of ``max_instant`` if this argument is given."""
    table, until = call.table, call.given["max_instant"]
    if until and not call.given["include_max"]:
        earlier = [i.requested_time for i in table.timeline.commits if i.requested_time < until]
        if not earlier:
            return
        until = max(earlier)
    wanted = call.given["partition_path"]
    for piece in table.snapshot(until or None).view.all_slices():
        if not wanted or piece.partition == wanted:
            yield piece


def _view(piece: FileSlice) -> dict[str, Any]:
    return {
        "partition": piece.partition,
        "file_id": piece.file_id,
        "base_instant": piece.requested_time,
        "data_file": None if piece.base is None else str(piece.base.name),
        "data_file_size": 0 if piece.base is None else piece.base.size,
        "num_delta_files": len(piece.logs),
        "total_delta_file_size": sum(log.size for log in piece.logs),
        "delta_files": ", ".join(str(log.name) for log in piece.logs),
    }


def _all_views(call: ProcedureCall) -> Iterator[Row]:
    yield from map(_view, _views(call))


def _latest_views(call: ProcedureCall) -> Iterator[Row]:
    """Show the newest slices. No log is counted as scheduled for compaction: a slice after a planned compaction begins with a new log."""
    for piece in _views(call):
        row = _view(piece)
        base, logs = row["data_file_size"], row["total_delta_file_size"]
        yield {
            **row,
            "delta_size_compaction_scheduled": 0,
            "delta_size_compaction_unscheduled": logs,
            "delta_to_base_radio_compaction_scheduled": 0.0,
            "delta_to_base_radio_compaction_unscheduled": logs / base if base else -1.0,
            "delta_files_compaction_scheduled": "",
            "delta_files_compaction_unscheduled": row["delta_files"],
        }


def _metadata_of(table: HudiTable) -> tuple[Snapshot, MetadataTable]:
    snapshot = table.snapshot()
    if snapshot.metadata is None:
        raise InvalidOptionError(
            "The table has no metadata table", table=table.location, hint="CALL create_metadata_table(...) makes one."
        )
    return snapshot, snapshot.metadata


def _metadata_partitions(call: ProcedureCall) -> Iterator[Row]:
    yield from ({"partition": path} for path in _metadata_of(call.table)[1].data_partitions())


def _metadata_files(call: ProcedureCall) -> Iterator[Row]:
    _, metadata = _metadata_of(call.table)
    wanted = call.given["partition"]
    paths = metadata.data_partitions() if wanted is None else [wanted]
    for path, files in sorted(metadata.files(paths).items()):
        yield from ({"partition": path, "file_path": name, "size": size} for name, size in sorted(files.items()))


def _metadata_stats(call: ProcedureCall) -> Iterator[Row]:
    """Show files and bytes of each partition of the metadata table."""
    table = call.table
    _, metadata = _metadata_of(table)
    root = table._opened.storage
    for partition in metadata.partitions:
        infos = [
            info
            for info in root.list(f".hoodie/metadata/{partition}/")
            if parse_data_file(info.path.rpartition("/")[2]) is not None
        ]
        yield {"stat_key": f"{partition}.fileCount", "stat_value": str(len(infos))}
        yield {"stat_key": f"{partition}.totalFileSizeInBytes", "stat_value": str(sum(info.size for info in infos))}


def _column_stats(call: ProcedureCall) -> Iterator[Row]:
    table = call.table
    snapshot, metadata = _metadata_of(table)
    if not metadata.has("column_stats"):
        raise InvalidOptionError(
            "The table has no column statistics", table=table.location, hint="Make the index column_stats."
        )
    wanted = [name.strip() for name in str(call.given["targetColumns"] or "").split(",") if name.strip()]
    columns = wanted or list(snapshot.schema.names)
    partitions = [call.given["partition"]] if call.given["partition"] else list(metadata.data_partitions())
    for one in metadata.column_stats(columns, partitions):
        yield {
            "file_name": one.file,
            "column_name": one.column,
            "min_value": None if one.min is None else str(one.min),
            "max_value": None if one.max is None else str(one.max),
            "null_num": one.nulls,
        }


def _validate(call: ProcedureCall) -> Iterator[Row]:
    """Compare the files in the storage with the files that the metadata table names. Without ``verbose``, show only the files that differ."""
    table = call.table
    _, metadata = _metadata_of(table)
    storage = table._opened.storage
    partitions = metadata.data_partitions()
    listed = metadata.files(partitions)
    for partition in partitions:
        prefix = f"{partition}/" if partition else ""
        stored = {
            info.path.rpartition("/")[2]: info.size
            for info in storage.list(prefix)
            if info.path.rpartition("/")[0] == partition and parse_data_file(info.path.rpartition("/")[2]) is not None
        }
        known = listed.get(partition, {})
        for name in sorted({*stored, *known}):
            if call.given["verbose"] or stored.get(name) != known.get(name):
                yield {
                    "partition": partition,
                    "file_name": name,
                    "is_present_in_fs": name in stored,
                    "is_present_in_metadata": name in known,
                    "fs_size": stored.get(name),
                    "metadata_size": known.get(name),
                }


_VIEW = "partition file_id base_instant data_file data_file_size:long num_delta_files:long total_delta_file_size:long"
_BOUNDS = "max_instant include_max=false include_in_flight~=false exclude_compaction~=false"

FILES: tuple[Procedure, ...] = (
    here("show_table_properties", "table path limit=1000 filter", "key value", _properties),
    here(
        "show_fs_path_detail",
        "path! is_sub=false sort=true limit=100",
        "path_num:long file_num:long storage_size:long storage_size(unit) storage_path space_consumed:long quota:long space_quota:long",
        _path_detail,
    ),
    here(
        "stats_file_sizes",
        f"table partition_path {SHOW}",
        "commit_time min:long 10th:double 50th:double avg:double 95th:double max:long num_files:int std_dev:double",
        _file_sizes,
    ),
    here(
        "stats_wa",
        f"table {SHOW}",
        "commit_time total_upserted:long total_written:long write_amplification_factor",
        _amplification,
    ),
    here("show_fsview_all", f"table {_BOUNDS} limit=10 partition_path path filter", f"{_VIEW} delta_files", _all_views),
    here(
        "show_fsview_latest",
        f"table {_BOUNDS} partition_path merge~=false limit=1000 path filter",
        f"{_VIEW} delta_size_compaction_scheduled:long delta_size_compaction_unscheduled:long delta_to_base_radio_compaction_scheduled:double"
        " delta_to_base_radio_compaction_unscheduled:double delta_files_compaction_scheduled delta_files_compaction_unscheduled",
        _latest_views,
    ),
    here("show_metadata_table_partitions", "table path limit=1000 filter", "partition", _metadata_partitions),
    here(
        "show_metadata_table_files",
        "table partition limit=100 path filter",
        "file_path partition size:long",
        _metadata_files,
    ),
    here("show_metadata_table_stats", "table path limit=1000 filter", "stat_key stat_value", _metadata_stats),
    here(
        "show_metadata_table_column_stats",
        "table partition targetColumns limit=1000 path filter",
        "file_name column_name min_value max_value null_num:long",
        _column_stats,
    ),
    here(
        "validate_metadata_table_files",
        "table verbose=false path limit=1000 filter",
        "partition file_name is_present_in_fs:bool is_present_in_metadata:bool fs_size:long metadata_size:long",
        _validate,
    ),
)
