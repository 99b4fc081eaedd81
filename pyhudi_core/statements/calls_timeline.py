"""Procedures of Hudi that show the timeline: commits, their files, rollbacks, cleans, savepoints, compactions and clusterings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import groupby
from typing import Any

from pyhudi_core.errors import InvalidOptionError, ObjectNotFoundError
from pyhudi_core.formats.avro.container import decode_record
from pyhudi_core.model.commit import CommitMetadata, WriteStat
from pyhudi_core.model.instant import DATA_ACTIONS, Action, Instant, State
from pyhudi_core.model.operation import COMPACTING, OperationType
from pyhudi_core.statements.procedure import SHOW, Procedure, ProcedureCall, Row, here
from pyhudi_core.statements.reads import instants_of
from pyhudi_core.table import HudiTable

_NO_COMMIT = "null"


def _commits(call: ProcedureCall, *, archived: bool | None = None) -> Iterator[tuple[Instant, CommitMetadata]]:
    """Iterate over completed commits, newest first. ``archived``: only archived commits; if None, the argument ``show_archived`` decides."""
    table = call.table
    active = table.timeline.commits
    if archived is None and not call.given.get("show_archived"):
        for instant in reversed(list(active)):
            if call.is_asked(instant.requested_time):
                yield instant, table.commit_metadata(instant)
        return
    known = {instant.requested_time for instant in active}
    for instant, commit in table.commits_with(""):
        if call.is_asked(instant.requested_time) and not (archived and instant.requested_time in known):
            yield instant, commit


def _one(call: ProcedureCall) -> tuple[Instant, CommitMetadata]:
    """Return the commit that ``instant_time`` names. Raises `InvalidOptionError`."""
    wanted = call.given["instant_time"]
    for instant, commit in call.table.commits_with(""):
        if instant.requested_time == wanted:
            return instant, commit
    raise InvalidOptionError(
        f"No commit has the instant time {wanted!r}",
        table=call.table.location,
        hint="CALL show_commits(...) shows them.",
    )


def _sums(commit: CommitMetadata) -> dict[str, int]:
    added = [stat for stat in commit.stats if stat.prev_commit == _NO_COMMIT]
    return {
        "total_bytes_written": sum(stat.size for stat in commit.stats),
        "total_files_added": len(added),
        "total_files_updated": len(commit.stats) - len(added),
        "total_partitions_written": len(commit.partitions),
        "total_records_written": sum(stat.rows for stat in commit.stats),
        "total_update_records_written": sum(stat.updates for stat in commit.stats),
        "total_errors": 0,
    }


def _show_commits(call: ProcedureCall, *, archived: bool | None = None) -> Iterator[Row]:
    for instant, commit in _commits(call, archived=archived):
        yield {
            "commit_time": instant.requested_time,
            "state_transition_time": instant.completion_time,
            "action": str(instant.action.value),
            **_sums(commit),
        }


def _show_metadata(call: ProcedureCall, *, archived: bool | None = None) -> Iterator[Row]:
    for instant, commit in _commits(call, archived=archived):
        for stat in commit.stats:
            yield {
                "commit_time": instant.requested_time,
                "action": str(instant.action.value),
                "partition": stat.partition,
                "file_id": stat.file_id,
                "previous_commit": stat.prev_commit,
                "num_writes": stat.rows,
                "num_inserts": stat.inserts,
                "num_deletes": stat.deletes,
                "num_update_writes": stat.updates,
                "total_errors": 0,
                "total_log_blocks": 0,
                "total_corrupt_logblocks": 0,
                "total_rollback_blocks": 0,
                "total_log_records": stat.merged_entries,
                "total_updated_records_compacted": stat.updates if stat.merged_logs else 0,
                "total_bytes_written": stat.size,
            }


def _archived(show: Callable[..., Iterator[Row]]) -> Callable[[ProcedureCall], Iterator[Row]]:
    return lambda call: show(call, archived=True)


def _show_extra(call: ProcedureCall) -> Iterator[Row]:
    wanted, key = call.given["instant_time"], call.given["metadata_key"]
    for instant, commit in _commits(call):
        if wanted and instant.requested_time != wanted:
            continue
        for name, value in commit.extra.items():
            if not key or name == key:
                yield {
                    "instant_time": instant.requested_time,
                    "action": str(instant.action.value),
                    "metadata_key": name,
                    "metadata_value": value,
                }


def _show_files(call: ProcedureCall) -> Iterator[Row]:
    instant, commit = _one(call)
    for stat in commit.stats:
        yield {
            "action": str(instant.action.value),
            "partition_path": stat.partition,
            "file_id": stat.file_id,
            "previous_commit": stat.prev_commit,
            "total_records_updated": stat.updates,
            "total_records_written": stat.rows,
            "total_bytes_written": stat.size,
            "total_errors": 0,
            "file_size": stat.size,
        }


def _show_partitions(call: ProcedureCall) -> Iterator[Row]:
    instant, commit = _one(call)

    def partition(stat: WriteStat) -> str:
        return stat.partition

    for path, found in groupby(sorted(commit.stats, key=partition), partition):
        stats = list(found)
        added = sum(stat.prev_commit == _NO_COMMIT for stat in stats)
        yield {
            "action": str(instant.action.value),
            "partition_path": path,
            "total_files_added": added,
            "total_files_updated": len(stats) - added,
            "total_records_inserted": sum(stat.inserts for stat in stats),
            "total_records_updated": sum(stat.updates for stat in stats),
            "total_bytes_written": sum(stat.size for stat in stats),
            "total_errors": 0,
        }


def _show_write_stats(call: ProcedureCall) -> Iterator[Row]:
    instant, commit = _one(call)
    sums = _sums(commit)
    rows, size = sums["total_records_written"], sums["total_bytes_written"]
    yield {
        "action": str(instant.action.value),
        "total_bytes_written": size,
        "total_records_written": rows,
        "avg_record_size": -(-size // rows) if rows else 0,
    }


def _show_timeline(call: ProcedureCall) -> Iterator[Row]:
    table = call.table
    undone = {record["instant"]: ", ".join(record["names"]) for record in _rollback_records(table)}
    for instant, kind in instants_of(table, archived=call.given["show_archived"]):
        if call.is_asked(instant.requested_time):
            yield {
                "instant_time": instant.requested_time,
                "action": str(instant.action.value),
                "state": str(instant.state.value).upper(),
                "requested_time": instant.requested_time,
                "completed_time": instant.completion_time,
                "timeline_type": kind,
                "rollback_info": undone.get(instant.requested_time),
            }


def _records(table: HudiTable, action: Action, name: str) -> Iterator[tuple[Instant, dict[str, Any]]]:
    """Iterate over the completed instants of an action, newest first. Each comes with the content of its file."""
    context = table._opened.context()
    for instant in reversed(list(table.timeline.filter(action, State.COMPLETED))):
        path = context.folder.file(instant)
        yield instant, decode_record(context.storage.get(path), name, path=path)


def _rollback_records(table: HudiTable) -> Iterator[dict[str, Any]]:
    for instant, record in _records(table, Action.ROLLBACK, "HoodieRollbackMetadata"):
        yield {
            "instant": instant.requested_time,
            "names": list(record.get("commitsRollback") or []),
            "files": int(record.get("totalFilesDeleted") or 0),
            "took": int(record.get("timeTakenInMillis") or 0),
            "partitions": record.get("partitionMetadata") or {},
        }


def _show_rollbacks(call: ProcedureCall) -> Iterator[Row]:
    for record in _rollback_records(call.table):
        for name in record["names"]:
            yield {
                "instant": record["instant"],
                "rollback_instant": name,
                "total_files_deleted": record["files"],
                "time_taken_in_millis": record["took"],
                "total_partitions": len(record["partitions"]),
            }


def _show_rollback_detail(call: ProcedureCall) -> Iterator[Row]:
    for record in _rollback_records(call.table):
        if record["instant"] != call.given["instant_time"]:
            continue
        for partition, found in record["partitions"].items():
            for succeeded, key in ((True, "successDeleteFiles"), (False, "failedDeleteFiles")):
                for path in found.get(key) or ():
                    yield {
                        "instant": record["instant"],
                        "rollback_instant": ", ".join(record["names"]),
                        "partition": partition,
                        "deleted_file": path,
                        "succeeded": succeeded,
                    }


def _show_savepoints(call: ProcedureCall) -> Iterator[Row]:
    for savepoint in reversed(list(call.table.savepoints)):
        yield {"savepoint_time": savepoint.instant}


def _cleans(call: ProcedureCall) -> Iterator[tuple[Instant, dict[str, Any]]]:
    for instant, record in _records(call.table, Action.CLEAN, "HoodieCleanMetadata"):
        if call.is_asked(instant.requested_time):
            yield instant, record


def show_cleans(call: ProcedureCall) -> Iterator[Row]:
    """Show the completed cleans of the timeline."""
    for instant, record in _cleans(call):
        yield {
            "clean_time": instant.requested_time,
            "state_transition_time": instant.completion_time,
            "action": "clean",
            "start_clean_time": record.get("startCleanTime"),
            "time_taken_in_millis": record.get("timeTakenInMillis"),
            "total_files_deleted": record.get("totalFilesDeleted"),
            "earliest_commit_to_retain": record.get("earliestCommitToRetain"),
            "last_completed_commit_timestamp": record.get("lastCompletedCommitTimestamp"),
            "version": record.get("version"),
        }


def _show_cleans_metadata(call: ProcedureCall) -> Iterator[Row]:
    for instant, record in _cleans(call):
        for partition, found in (record.get("partitionMetadata") or {}).items():
            yield {
                "clean_time": instant.requested_time,
                "state_transition_time": instant.completion_time,
                "action": "clean",
                "start_clean_time": record.get("startCleanTime"),
                "partition_path": partition,
                "policy": found.get("policy"),
                "delete_path_patterns": len(found.get("deletePathPatterns") or ()),
                "success_delete_files": len(found.get("successDeleteFiles") or ()),
                "failed_delete_files": len(found.get("failedDeleteFiles") or ()),
                "is_partition_deleted": found.get("isPartitionDeleted"),
                "time_taken_in_millis": record.get("timeTakenInMillis"),
                "total_files_deleted": record.get("totalFilesDeleted"),
            }


def _show_clean_plans(call: ProcedureCall) -> Iterator[Row]:
    context = call.table._opened.context()
    for instant in reversed(list(context.folder.load().filter(Action.CLEAN))):
        if not call.is_asked(instant.requested_time):
            continue
        path = context.folder.file(Instant(instant.requested_time, Action.CLEAN, State.REQUESTED))
        try:
            plan = decode_record(context.storage.get(path), "HoodieCleanerPlan", path=path)
        except ObjectNotFoundError:
            plan = {}
        extra = plan.get("extraMetadata") or {}
        yield {
            "plan_time": instant.requested_time,
            "action": "clean",
            "earliest_instant_to_retain": (plan.get("earliestInstantToRetain") or {}).get("timestamp"),
            "last_completed_commit_timestamp": plan.get("lastCompletedCommitTimestamp"),
            "policy": plan.get("policy"),
            "version": plan.get("version"),
            "total_partitions_to_clean": len(plan.get("filePathsToBeDeletedPerPartition") or {}),
            "total_partitions_to_delete": len(plan.get("partitionsToBeDeleted") or ()),
            "extra_metadata": ", ".join(f"{key}={value}" for key, value in extra.items()) or None,
        }


def _show_compaction(call: ProcedureCall) -> Iterator[Row]:
    """Show the compactions on the timeline, with a row for each partition. Pending compactions are shown, too, as Hudi 1.1 and later do."""
    table = call.table
    for instant in reversed([i for i in table.timeline if i.action is Action.COMPACTION]):
        if call.is_asked(instant.requested_time):
            yield from _pending_compaction(table, instant)
    for instant, commit in _commits(call):
        if commit.operation in COMPACTING and instant.action is Action.COMMIT:
            for partition in sorted(commit.partitions):
                stats = [stat for stat in commit.stats if stat.partition == partition]
                yield {
                    "compaction_time": instant.requested_time,
                    "state_transition_time": instant.completion_time,
                    "state": "COMPLETED",
                    "action": str(instant.action.value),
                    "operation_size": len(commit.stats),
                    "partition_path": partition,
                    "total_log_files_per_partition": sum(stat.merged_logs for stat in stats),
                    "total_updated_records_compacted_per_partition": sum(stat.updates for stat in stats),
                    "total_log_size_compacted_per_partition": sum(stat.merged_bytes for stat in stats),
                    "total_write_bytes_per_partition": sum(stat.size for stat in stats),
                }


def _pending_compaction(table: HudiTable, instant: Instant) -> Iterator[Row]:
    context = table._opened.context()
    path = context.folder.file(Instant(instant.requested_time, Action.COMPACTION, State.REQUESTED))
    plan = decode_record(context.storage.get(path), "HoodieCompactionPlan", path=path)
    operations = plan.get("operations") or []
    for partition in sorted({operation.get("partitionPath") or "" for operation in operations}):
        own = [operation for operation in operations if (operation.get("partitionPath") or "") == partition]
        yield {
            "compaction_time": instant.requested_time,
            "state": str(instant.state.value).upper(),
            "action": "compaction",
            "operation_size": len(own),
            "partition_path": partition,
            "total_log_files_per_partition": sum(len(operation.get("deltaFilePaths") or ()) for operation in own),
        }


def _show_clustering(call: ProcedureCall) -> Iterator[Row]:
    """Show the planned clusterings and the completed clusterings of the timeline."""
    table = call.table
    for instant in reversed([i for i in table.timeline if i.action is Action.CLUSTERING]):
        if call.is_asked(instant.requested_time):
            yield {"timestamp": instant.requested_time, "state": str(instant.state.value).upper()}
    for instant, commit in _commits(call):
        if commit.operation == OperationType.CLUSTER:
            yield {
                "timestamp": instant.requested_time,
                "input_group_size": sum(map(len, commit.replaced.values())),
                "state": "COMPLETED",
                "involved_partitions": ",".join(sorted(commit.partitions)),
            }


def _compare(call: ProcedureCall) -> Iterator[Row]:
    """Return the commits of one table that come after the newest commit of another table."""
    mine = [i.requested_time for i in call.table.timeline if i.is_completed and i.action in DATA_ACTIONS]
    other = ProcedureCall(call.names, {"path": call.given["path"]}).table
    theirs = [i.requested_time for i in other.timeline if i.is_completed and i.action in DATA_ACTIONS]
    ahead, behind = mine, theirs
    first, second = call.given["table"], other.name
    if theirs and (not mine or max(theirs) > max(mine)):
        ahead, behind, first = theirs, mine, second
    missing = [time for time in sorted(ahead) if not behind or time > max(behind)]
    yield {
        "compare_detail": f"Source {first} is ahead by {len(missing)} commits. Commits to catch up - [{', '.join(missing)}]"
    }


_SUMS = (
    "total_bytes_written:long total_files_added:long total_files_updated:long total_partitions_written:long total_records_written:long"
    " total_update_records_written:long total_errors:long"
)
_OF_FILES = (
    "commit_time action partition file_id previous_commit num_writes:long num_inserts:long num_deletes:long num_update_writes:long"
    " total_errors:long total_log_blocks:long total_corrupt_logblocks:long total_rollback_blocks:long total_log_records:long"
    " total_updated_records_compacted:long total_bytes_written:long"
)
_ARCHIVED = "table limit=10 start_ts end_ts path filter"
_ONE = "table limit=10 instant_time! path filter"
_CLEANS = "table limit=10 showArchived~=false filter path show_archived~=false start_time end_time"

TIMELINE: tuple[Procedure, ...] = (
    here("show_commits", f"table {SHOW}", f"commit_time state_transition_time action {_SUMS}", _show_commits),
    here("show_commits_metadata", f"table {SHOW}", _OF_FILES, _show_metadata),
    here(
        "show_commit_extra_metadata",
        f"table limit=100 instant_time metadata_key {SHOW.partition(' ')[2]}",
        "instant_time action metadata_key metadata_value",
        _show_extra,
    ),
    here(
        "show_archived_commits",
        _ARCHIVED,
        f"commit_time state_transition_time action {_SUMS}",
        _archived(_show_commits),
    ),
    here("show_archived_commits_metadata", _ARCHIVED, _OF_FILES, _archived(_show_metadata)),
    here(
        "show_commit_files",
        _ONE,
        "action partition_path file_id previous_commit total_records_updated:long total_records_written:long total_bytes_written:long"
        " total_errors:long file_size:long",
        _show_files,
    ),
    here(
        "show_commit_partitions",
        _ONE,
        "action partition_path total_files_added:long total_files_updated:long total_records_inserted:long total_records_updated:long"
        " total_bytes_written:long total_errors:long",
        _show_partitions,
    ),
    here(
        "show_commit_write_stats",
        _ONE,
        "action total_bytes_written:long total_records_written:long avg_record_size:long",
        _show_write_stats,
    ),
    here(
        "show_timeline",
        f"table {SHOW}",
        "instant_time action state requested_time inflight_time completed_time timeline_type rollback_info",
        _show_timeline,
    ),
    here(
        "show_rollbacks",
        "table limit=10 path filter",
        "instant rollback_instant total_files_deleted:int time_taken_in_millis:long total_partitions:int",
        _show_rollbacks,
    ),
    here(
        "show_rollback_detail",
        _ONE,
        "instant rollback_instant partition deleted_file succeeded:bool",
        _show_rollback_detail,
    ),
    here("show_savepoints", "table path limit=1000 filter", "savepoint_time", _show_savepoints),
    here(
        "show_cleans",
        _CLEANS,
        "clean_time state_transition_time action start_clean_time time_taken_in_millis:long total_files_deleted:int earliest_commit_to_retain"
        " last_completed_commit_timestamp version:int",
        show_cleans,
    ),
    here(
        "show_cleans_metadata",
        _CLEANS,
        "clean_time state_transition_time action start_clean_time partition_path policy delete_path_patterns:int success_delete_files:int"
        " failed_delete_files:int is_partition_deleted:bool time_taken_in_millis:long total_files_deleted:int",
        _show_cleans_metadata,
    ),
    here(
        "show_clean_plans",
        _CLEANS,
        "plan_time action earliest_instant_to_retain last_completed_commit_timestamp policy version:int total_partitions_to_clean:int"
        " total_partitions_to_delete:int extra_metadata",
        _show_clean_plans,
    ),
    here(
        "show_compaction",
        "table path limit=20 show_archived=false filter start_time end_time",
        "compaction_time state_transition_time state action operation_size:int partition_path total_log_files_per_partition:long"
        " total_updated_records_compacted_per_partition:long total_log_size_compacted_per_partition:long total_write_bytes_per_partition:long",
        _show_compaction,
    ),
    here(
        "show_clustering",
        "table path limit=20 show_involved_partition=false show_archived=false filter start_time end_time",
        "timestamp input_group_size:int state involved_partitions",
        _show_clustering,
    ),
    here("commits_compare", "table! path!", "compare_detail", _compare),
)
