"""Tables whose commits leave older file slices, and what can be read of their states."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyhudi_core as hudi
from pyhudi_core.errors import SnapshotExpiredError
from pyhudi_core.model.instant import Action, Instant
from support.tables import make, orders, reopen, rows


def filled(location: str, commits: int = 5, **arguments: Any) -> hudi.HudiTable:
    """A table with one row that every commit changes, and one that only the first one wrote."""
    table = make(location, ordering="ts", **arguments)
    table.upsert(orders((1, "a", 0.0, 0), (2, "b", 0.0, 0)))
    for number in range(1, commits):
        table.upsert(orders((1, "a", float(number), number)))
    return table


def keeping(table: hudi.HudiTable, commits: int = 2, **options: object) -> hudi.HudiTable:
    """Return the table with a policy, and without cleans by commits unless the options say otherwise."""
    return reopen(table, **{"hoodie__clean__commits__retained": commits, "hoodie__clean__automatic": False, **options})


def states(table: hudi.HudiTable) -> list[float | None]:
    """The price of row 1 after each commit; None where the state is gone."""
    found: list[float | None] = []
    for instant in table.timeline.commits:
        try:
            found.append(dict(rows(table.scan(as_of=instant), "id", "price"))[1])
        except SnapshotExpiredError:
            found.append(None)
    return found


def cleans(table: hudi.HudiTable) -> list[Instant]:
    return [instant for instant in table.timeline if instant.action is Action.CLEAN]


def extra_of(clean: Mapping[str, Any]) -> dict[str, str]:
    """The extra metadata of a clean without the facts about the process, which differ from one run of tests to another."""
    return {key: text for key, text in clean["extraMetadata"].items() if not key.startswith("pyhudi.writer.")}
