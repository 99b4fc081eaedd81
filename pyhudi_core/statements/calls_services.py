"""Procedures of Hudi that run a service, or make and delete savepoints, partitions and the metadata table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyhudi_core.errors import InvalidOptionError
from pyhudi_core.statements.calls_timeline import show_cleans
from pyhudi_core.statements.procedure import Procedure, ProcedureCall, Row, here
from pyhudi_core.table import HudiTable


def _run_clean(call: ProcedureCall) -> Iterator[Row]:
    given = call.given
    table = call.with_options(
        hoodie__clean__policy=given["clean_policy"],
        hoodie__clean__commits__retained=given["retain_commits"],
        hoodie__clean__hours__retained=given["hours_retained"],
        hoodie__clean__fileversions__retained=given["file_versions_retained"],
        hoodie__clean__trigger__max__commits=given["trigger_max_commits"],
    )
    if not given["schedule_in_line"]:
        done = table.cleaning.execute()
    elif given["trigger_max_commits"] and not table.cleaning.plan(triggered=True):
        return
    else:
        done = table.cleaning.run()
    times = {instant.requested_time for instant in done.instants}
    yield from (row for row in show_cleans(call) if row["clean_time"] in times)


def _run_compaction(call: ProcedureCall) -> Iterator[Row]:
    yield from _run_planned(call, call.with_options(), "compaction", call.given["op"] or "run", "run")


def _run_clustering(call: ProcedureCall) -> Iterator[Row]:
    given = call.given
    if given["predicate"]:
        raise InvalidOptionError(
            "run_clustering does not take predicate here",
            hint="Give selected_partitions => 'day=2026-01-01,day=2026-01-02', or the options hoodie.clustering.plan.* of partitions.",
        )
    table = call.with_options(
        hoodie__clustering__plan__strategy__sort__columns=given["order"],
        hoodie__layout__optimize__strategy=given["order_strategy"],
        hoodie__clustering__plan__strategy__partition__selected=given["selected_partitions"],
        hoodie__clustering__plan__strategy__partition__regex__pattern=given["partition_regex_pattern"],
    )
    for row in _run_planned(call, table, "clustering", given["op"] or "scheduleandexecute", "scheduleandexecute"):
        yield {
            **row,
            "input_group_size": row.get("operation_size"),
            "involved_partitions": row.get("partitions") if given["show_involved_partition"] else "*",
        }


def _run_planned(call: ProcedureCall, table: HudiTable, name: str, op: str, both: str) -> Iterator[dict[str, Any]]:
    """Schedule plans, execute plans, or do both, as ``op`` says. Return one row for each plan."""
    service = table.services[name]
    word = op.lower().replace("_", "")
    wanted = [time for time in str(call.given.get("instants") or call.given.get("timestamp") or "").split(",") if time]
    if word == "schedule":
        if wanted:
            raise InvalidOptionError(
                f"{op} takes no instant here: it gets a new one", hint="Leave timestamp and instants out."
            )
        planned = service.schedule()
        if planned is not None:
            yield {"timestamp": planned.requested_time, "state": "REQUESTED"}
        return
    if word not in ("run", "execute", "scheduleandexecute"):
        raise InvalidOptionError(
            f"op => {op!r} is unknown", hint=f"Give 'schedule', 'execute' or {both!r}. Nothing was changed."
        )
    if wanted:
        done = [service.execute(time) for time in wanted]
    elif word == "execute":
        limit = call.given.get("limit")
        done = [service.execute(instant) for instant in service.waiting()[: limit if limit and limit > 0 else None]]
    else:
        done = [service.run()]
    for result in done:
        for instant in result.instants:
            commit = table.commit_metadata(instant)
            size = sum(map(len, commit.replaced.values())) if name == "clustering" else len(commit.stats)
            yield {
                "timestamp": instant.requested_time,
                "operation_size": size,
                "state": "COMPLETED",
                "partitions": ",".join(sorted(commit.partitions)),
            }


def _run_ttl(call: ProcedureCall) -> Iterator[Row]:
    given = call.given
    table = call.with_options(
        hoodie__partition__ttl__management__strategy__type=given["ttl_policy"],
        hoodie__partition__ttl__strategy__days__retain=given["retain_days"] if given["retain_days"] >= 0 else None,
    )
    yield from ({"deleted_partitions": path} for path in table.expiry.run().partitions)


def _archive(call: ProcedureCall) -> Iterator[Row]:
    given = call.given
    table = call.with_options(
        hoodie__keep__min__commits=given["min_commits"],
        hoodie__keep__max__commits=given["max_commits"],
    )
    table.archival.run()
    yield {"result": 0}


def _create_savepoint(call: ProcedureCall) -> Iterator[Row]:
    given = call.given
    call.table.savepoints.create(given["commit_time"], given["comments"] or "", given["user"] or "pyhudi")
    yield {"create_savepoint_result": True}


def _delete_savepoint(call: ProcedureCall) -> Iterator[Row]:
    yield {"delete_savepoint_result": call.table.savepoints.delete(call.given["instant_time"])}


def _to_savepoint(call: ProcedureCall) -> Iterator[Row]:
    table, wanted = call.table, call.given["instant_time"]
    there = [savepoint.instant for savepoint in table.savepoints]
    if wanted not in there:
        raise InvalidOptionError(
            f"{wanted!r} is no savepoint",
            table=table.location,
            hint=f"There are: {', '.join(there) or 'none'}. Nothing was changed.",
        )
    table.restore(wanted)
    yield {"rollback_savepoint_result": True}


def _to_instant(call: ProcedureCall) -> Iterator[Row]:
    yield {"rollback_result": bool(call.table.rollback(call.given["instant_time"], completed=True))}


def _roll_back_service(call: ProcedureCall) -> Iterator[Row]:
    table, time = call.table, call.given["pending_instant"]
    names = {"compaction", "clustering"}
    pending = [i for i in table.timeline.pending if i.requested_time == time and i.action.value in names]
    if not pending:
        raise InvalidOptionError(
            f"{time!r} is no pending compaction or clustering",
            table=table.location,
            hint="CALL show_timeline(...) shows them.",
        )
    if pending[0].action.value == "clustering" and call.given["delete_request_instant_file"]:
        done = table.clustering.cancel(time)
    else:
        done = bool(table.rollback(time))
    yield {"instant": time, "is_rolled_back": done}


def _create_metadata(call: ProcedureCall) -> Iterator[Row]:
    yield {"result": str(call.table.metadata_table.create())}


def _delete_metadata(call: ProcedureCall) -> Iterator[Row]:
    yield {"result": str(call.table.metadata_table.drop())}


def _drop_partition(call: ProcedureCall) -> Iterator[Row]:
    call.table.delete_partitions([path for path in call.given["partition"].split(",") if path])
    yield {"result": True}


def _truncate(call: ProcedureCall) -> Iterator[Row]:
    table, partitions = call.table, call.given["partitions"]
    if partitions:
        table.delete_partitions([path for path in partitions.split(",") if path])
    else:
        table.truncate()
    yield {"result": True}


SERVICES: tuple[Procedure, ...] = (
    here(
        "run_clean",
        "table schedule_in_line=true clean_policy retain_commits hours_retained file_versions_retained trigger_strategy~=NUM_COMMITS"
        " trigger_max_commits options path",
        "start_clean_time time_taken_in_millis:long total_files_deleted:int earliest_commit_to_retain bootstrap_part_metadata version:int",
        _run_clean,
    ),
    here(
        "run_compaction",
        "op table path timestamp options instants limit=-1",
        "timestamp operation_size:int state",
        _run_compaction,
    ),
    here(
        "run_clustering",
        "table path predicate order show_involved_partition=false op order_strategy options instants selected_partitions"
        " partition_regex_pattern limit=-1",
        "timestamp input_group_size:int state involved_partitions",
        _run_clustering,
    ),
    here("run_ttl", "table! ttl_policy retain_days=-1 options", "deleted_partitions", _run_ttl),
    here(
        "archive_commits",
        "table path min_commits=20 max_commits=30 retain_commits=10 enable_metadata=false",
        "result:int",
        _archive,
    ),
    here(
        "create_savepoint", "table commit_time! user comments path", "create_savepoint_result:bool", _create_savepoint
    ),
    here("delete_savepoint", "table instant_time! path", "delete_savepoint_result:bool", _delete_savepoint),
    here("rollback_to_savepoint", "table instant_time! path", "rollback_savepoint_result:bool", _to_savepoint),
    here("rollback_to_instant", "table instant_time! path", "rollback_result:bool", _to_instant),
    here(
        "run_rollback_inflight_tableservice",
        "table! pending_instant! delete_request_instant_file=false",
        "instant time_taken_in_millis:long is_rolled_back:bool",
        _roll_back_service,
    ),
    here("create_metadata_table", "table path", "result", _create_metadata),
    here("init_metadata_table", "table read_only~=false path", "result", _create_metadata),
    here("delete_metadata_table", "table path", "result", _delete_metadata),
    here("drop_partition", "table partition! path", "result:bool", _drop_partition),
    here("truncate_table", "table partitions path", "result:bool", _truncate),
)
