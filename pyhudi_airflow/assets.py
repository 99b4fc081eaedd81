"""Hudi tables as assets of Airflow: an asset with a watcher that follows the table's timeline, and the events of tasks that write it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from airflow.sdk import Asset, AssetWatcher

from pyhudi_airflow.hook import DEFAULT_CONNECTION
from pyhudi_airflow.triggers import HudiTimelineTrigger


def hudi_asset(
    table: str,
    *,
    name: str | None = None,
    hudi_conn_id: str = DEFAULT_CONNECTION,
    watch: bool = True,
    start: Literal["newest", "earliest"] = "newest",
    poll_interval: float = 30.0,
    group: str = "hudi",
    extra: Mapping[str, Any] | None = None,
) -> Asset:
    """Return the asset of a table: each commit with rows, of whatever writer, becomes an event, and starts the DAGs that are scheduled on it.

    Args:
        table: the name of the table in the warehouse of the connection, or its location.
        name: of the asset; the default is the table.
        watch: whether Airflow's triggerer watches the timeline. False: only tasks with the asset in their ``outlets`` make events.
        start: where a new watcher begins: ``newest``: with the next commit; ``earliest``: with the oldest commit on the timeline.
        poll_interval: seconds between two looks. Tables of one connection with the same interval share one loop.
        group, extra: as of an ``Asset``.

    The watcher makes events for commits of the tasks of this Airflow, too, so such a task needs no ``outlets``.
    """
    watchers = []
    if watch:
        trigger = HudiTimelineTrigger(
            table=table, asset=name or table, hudi_conn_id=hudi_conn_id, start=start, poll_interval=poll_interval
        )
        watchers.append(AssetWatcher(name=f"hudi {name or table}", trigger=trigger))
    uri = f"hudi://{hudi_conn_id}/{table.strip('/')}"
    return Asset(name=name or table, uri=uri, group=group, extra=dict(extra or {}), watchers=watchers)


def hudi_uri(parts: Any) -> Any:
    """Check the address of an asset, ``hudi://connection/table``, for Airflow. Raises ``ValueError``."""
    if not parts.netloc or not parts.path.strip("/"):
        raise ValueError("the address of a Hudi asset is hudi://connection/table")
    return parts


def report_outlets(context: Any, facts: Mapping[str, Any], keys: Sequence[str]) -> None:
    """Put the facts into the event of each asset in the task's outlets. ``keys``: the partition keys that the event shall have (Airflow 3.3)."""
    for outlet in context["task"].outlets:
        if not isinstance(outlet, Asset):
            continue
        event = context["outlet_events"][outlet]
        event.extra.update(facts)
        if keys and hasattr(event, "add_partitions"):
            event.add_partitions(list(keys))
