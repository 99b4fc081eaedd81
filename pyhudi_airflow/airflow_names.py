"""The differences between Airflow 3.0 and 3.3: names, their modules, and calls. No other module checks the release of Airflow."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from asgiref.sync import sync_to_async

if TYPE_CHECKING:
    from airflow.sdk.bases.hook import BaseHook
    from airflow.sdk.exceptions import AirflowFailException, AirflowNotFoundException, AirflowSkipException
    from airflow.sdk.log import mask_secret
else:
    try:
        from airflow.sdk.exceptions import AirflowFailException, AirflowNotFoundException, AirflowSkipException
    except ImportError:  # until Airflow 3.1
        from airflow.exceptions import AirflowFailException, AirflowNotFoundException, AirflowSkipException
    try:
        from airflow.sdk.bases.hook import BaseHook
    except ImportError:  # Airflow 3.0
        from airflow.hooks.base import BaseHook
    try:
        from airflow.sdk.log import mask_secret
    except ImportError:  # Airflow 3.0
        from airflow.sdk.execution_time.secrets_masker import mask_secret


async def connection_in_loop(hook: BaseHook, conn_id: str) -> Any:
    """Fetch a connection in a trigger, without blocking the triggerer's loop."""
    if hasattr(hook, "aget_connection"):
        return await hook.aget_connection(conn_id)
    return await sync_to_async(hook.get_connection)(conn_id)  # until Airflow 3.1


def is_mapped(ti: Any) -> bool:
    """Say whether the task instance belongs to a mapped task."""
    return ti.map_index is not None and ti.map_index >= 0


def state_of(ti: Any) -> str:
    """Return the stored state of a task instance that runs in this process; ``gone`` if Airflow has no state.

    Airflow 3.0 does not distinguish the instances of a mapped task, so there each of them is ``running``.
    """
    # In Airflow 3.0, `dag.test()` uses the scheduler's object, which does not store that the task runs.
    if not hasattr(ti, "get_task_states"):
        ti.refresh_from_db()
        return "running" if ti.state == "scheduled" else str(ti.state or "gone")
    asked: dict[str, Any] = {"dag_id": ti.dag_id, "task_ids": [ti.task_id], "run_ids": [ti.run_id]}
    name = ti.task_id
    if is_mapped(ti):
        if "map_index" not in inspect.signature(ti.get_task_states).parameters:
            return "running"
        name, asked["map_index"] = f"{ti.task_id}_{ti.map_index}", ti.map_index
    return str(ti.get_task_states(**asked).get(ti.run_id, {}).get(name) or "gone")


__all__ = [
    "AirflowFailException",
    "AirflowNotFoundException",
    "AirflowSkipException",
    "BaseHook",
    "connection_in_loop",
    "is_mapped",
    "mask_secret",
    "state_of",
]
