"""The data of the table functions of Hudi's SQL: changes of rows, and the timeline."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from pyhudi_core.model.instant import Instant
from pyhudi_core.read.conversions import Conversions
from pyhudi_core.statements.points import point_of_text
from pyhudi_core.statements.text import not_understood
from pyhudi_core.table import HudiTable

_TIMELINE = pa.schema(
    [(name, pa.string()) for name in ("instant_time", "action", "state", "completion_time", "timeline_type")]
)


def changes_of(table: HudiTable, given: Sequence[str]) -> Conversions:
    """Return the result of ``hudi_table_changes(table, kind, begin, end)``: the changes of commits completed after ``begin``, up to ``end``."""
    kind = given[0] if given else ""
    if kind not in ("latest_state", "cdc") or not 2 <= len(given) <= 3:
        raise not_understood(
            f"hudi_table_changes has the arguments {', '.join(map(repr, given)) or 'none'} after the table",
            "Write hudi_table_changes('orders', 'latest_state' or 'cdc', begin, end); begin may be 'earliest', and end may be left out.",
        )
    after = None if given[1] == "earliest" else point_of_text(given[1])
    until = point_of_text(given[2]) if len(given) > 2 else None
    return table.changes(after, until) if kind == "cdc" else table.incremental(after, until, meta=False)


def instants_of(table: HudiTable, *, archived: bool) -> list[tuple[Instant, str]]:
    """Return the instants of a table, newest first, each with ACTIVE or ARCHIVED."""
    found = [(instant, "ACTIVE") for instant in table.timeline]
    if archived:
        known = {instant.requested_time for instant, _ in found}
        commits = (instant for instant, _ in table.commits_with(""))
        found += [(instant, "ARCHIVED") for instant in commits if instant.requested_time not in known]
    return sorted(found, key=lambda pair: pair[0].requested_time, reverse=True)


def timeline_of(table: HudiTable, *, archived: bool) -> pa.Table:
    """Return the rows that ``hudi_query_timeline`` reads: the instants of a table, newest first."""
    return pa.Table.from_pylist([_row(*each) for each in instants_of(table, archived=archived)], _TIMELINE)


def _row(instant: Instant, kind: str) -> dict[str, Any]:
    return {
        "instant_time": instant.requested_time,
        "action": str(instant.action.value),
        "state": str(instant.state.value).upper(),
        "completion_time": instant.completion_time or None,
        "timeline_type": kind,
    }
