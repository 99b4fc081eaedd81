"""Sensors that wait for a new state of a table, or for a service that is due. By default they are deferred, so a waiting sensor needs no worker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import timedelta
from typing import Any

from airflow.sdk import BaseSensorOperator, PokeReturnValue
from airflow.triggers.base import BaseTrigger, TriggerEvent

import pyhudi as hudi
from pyhudi.errors import HudiError
from pyhudi_airflow.airflow_names import AirflowFailException
from pyhudi_airflow.base_operator import refuse_misspelt, refuse_no_service, refuse_no_table
from pyhudi_airflow.hook import DEFAULT_CONNECTION, HudiHook, hook_in_loop
from pyhudi_airflow.task_run import NOT_RETRIED, without_useless_retries
from pyhudi_airflow.triggers import event_of
from pyhudi_core import orchestration


class HudiTableTrigger(BaseTrigger):
    """Fire once, when the condition of a sensor is met. The checks run in a thread."""

    def __init__(self, *, what: str, poll_interval: float, **asked: Any) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.what, self.poll_interval, self.asked = what, poll_interval, asked

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class and the arguments."""
        return f"{__name__}.HudiTableTrigger", {"what": self.what, "poll_interval": self.poll_interval, **self.asked}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Check until the condition is met. An error that may disappear is logged; the sensor's timeout ends the wait."""
        asked = dict(self.asked)
        conn_id = asked.pop("hudi_conn_id")
        while True:
            try:
                hook = await hook_in_loop(conn_id)
                found = await asyncio.to_thread(_LOOKS[self.what], hook, **asked)
            except NOT_RETRIED as error:
                yield event_of({"error": str(error)})
                return
            except HudiError as error:
                self.log.warning("%s", error)
                found = None
            if found is not None:
                yield event_of({"found": found})
                return
            await asyncio.sleep(self.poll_interval)


class _HudiSensor(BaseSensorOperator):
    """A sensor of one table, in the triggerer or in the worker."""

    what = ""
    template_fields: Sequence[str] = ("hudi_conn_id", "table")

    def __init__(
        self, *, table: str, hudi_conn_id: str = DEFAULT_CONNECTION, deferrable: bool = True, **more: Any
    ) -> None:
        refuse_misspelt(type(self), more)
        super().__init__(**more)
        refuse_no_table(f"The task {self.task_id}", "table", table)
        self.table, self.hudi_conn_id, self.deferrable = table, hudi_conn_id, deferrable

    def asked(self, context: Any) -> dict[str, Any]:
        """Return the arguments of the check."""
        return {"table": self.table}

    def execute(self, context: Any) -> Any:
        """Check once; if the condition is not met, wait in the triggerer."""
        found = self.poke(context)
        if found.is_done or not self.deferrable:
            return found.xcom_value if found.is_done else super().execute(context)
        trigger = HudiTableTrigger(
            what=self.what,
            poll_interval=self.poke_interval,
            hudi_conn_id=self.hudi_conn_id,
            **self.asked(context),
        )
        self.defer(trigger=trigger, method_name="resume", timeout=timedelta(seconds=self.timeout))
        return None

    def resume(self, context: Any, event: dict[str, Any]) -> Any:
        """Return the result of the trigger. Raises ``AirflowFailException`` for an error that neither waiting nor a retry can fix."""
        if "error" in event:
            raise AirflowFailException(event["error"])
        return event["found"]

    def poke(self, context: Any) -> PokeReturnValue:
        """Check once. An error that may disappear is logged; any other error raises ``AirflowFailException``."""
        try:
            with without_useless_retries():
                found = _LOOKS[self.what](HudiHook(self.hudi_conn_id), **self.asked(context))
        except HudiError as error:
            self.log.warning("%s", error)
            found = None
        return PokeReturnValue(is_done=found is not None, xcom_value=found)


class HudiSnapshotSensor(_HudiSensor):
    """Wait until the table's state differs from a known one.

    Args:
        table: the name of the table in the warehouse, or its location.
        known: the token of the known state, such as the XCom of an earlier sensor; it may be a template. Without it, the sensor waits for any state
            with a commit.
        deferrable: wait in the triggerer; False: in the worker, with ``mode``.
        poke_interval, timeout: the seconds between two checks, and of the complete wait, as for any sensor.

    The XCom is the token of the state: no other state of the table has this token. The sensor also waits for a table that does not exist yet.
    """

    what = "snapshot"
    template_fields: Sequence[str] = ("hudi_conn_id", "table", "known")

    def __init__(self, *, known: str = "", **more: Any) -> None:
        super().__init__(**more)
        self.known = known

    def asked(self, context: Any) -> dict[str, Any]:
        return {"table": self.table, "known": str(self.known or "")}


class HudiServiceDueSensor(_HudiSensor):
    """Wait until a table service has work and its trigger is reached.

    Args:
        table: the name of the table in the warehouse, or its location.
        service: the name of the service, such as ``compaction``.
        deferrable, poke_interval, timeout: as for `HudiSnapshotSensor`.

    The XCom is the plan as a sentence.
    """

    what = "service"
    template_fields: Sequence[str] = ("hudi_conn_id", "table", "service")

    def __init__(self, *, service: str, **more: Any) -> None:
        super().__init__(**more)
        refuse_no_service(service)
        self.service = service

    def asked(self, context: Any) -> dict[str, Any]:
        return {"table": self.table, "service": self.service}


def _snapshot(hook: HudiHook, table: str, known: str) -> str | None:
    opened = hook.table(table)
    if not len(opened.timeline.commits):
        return None
    token = str(opened.snapshot_token())
    return token if token != known else None


def _service(hook: HudiHook, table: str, service: str) -> str | None:
    opened: hudi.HudiTable = hook.table(table)
    state = orchestration.state_of(service, opened.services[service])
    return state.plan if state.due or state.waiting else None


_LOOKS: dict[str, Callable[..., str | None]] = {"snapshot": _snapshot, "service": _service}
