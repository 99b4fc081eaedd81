"""Hudi tables as assets of Airflow: an asset with a watcher that follows the table's timeline, and the events of tasks that write it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal
from urllib.parse import urlsplit

from airflow.sdk import Asset, AssetWatcher

from pyhudi_airflow.hook import DEFAULT_CONNECTION, HudiHook
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
    """Return the asset of a table. Each commit with rows, by any writer, becomes an event of the asset, which starts the DAGs that are scheduled on
    the asset.

    Args:
        table: the name of the table in the warehouse of the connection, or its location.
        name: the asset's name; the default is the table.
        watch: whether Airflow's triggerer watches the timeline. If False, only tasks with the asset in their ``outlets`` make events.
        start: the first commit of a new watcher: ``newest``: the next commit; ``earliest``: the oldest commit on the timeline.
        poll_interval: seconds between two checks. Tables of one connection with the same interval share one loop.
        group, extra: as for an ``Asset``.

    The watcher also makes events for the commits of this Airflow's own tasks, so these tasks need no ``outlets``.

    Raises `InvalidOptionError` for a text that is not a name of a table.
    """
    HudiHook.refuse_no_name(table)
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


def report_outlets(
    context: Any, facts: Mapping[str, Mapping[str, Any]], keys: Mapping[str, Sequence[str]] = MappingProxyType({})
) -> None:
    """Add the facts of each table to the events of the table's assets in the task's outlets.

    An asset belongs to the table with its name or its address. If the task writes only one table, every asset belongs to that table.

    Args:
        keys: the partition keys of the event (Airflow 3.3), by table.
    """
    for outlet in context["task"].outlets:
        if not isinstance(outlet, Asset):
            continue
        event = context["outlet_events"][outlet]
        known = (outlet.name, urlsplit(outlet.uri).path.strip("/"))
        mine = [name for name in facts if len(facts) == 1 or name.strip("/") in known]
        if not mine:
            event.extra["tables"] = {name: dict(of_table) for name, of_table in facts.items()}
        for name in mine:
            event.extra.update(facts[name])
            if keys.get(name) and hasattr(event, "add_partitions"):
                event.add_partitions(list(keys[name]))
