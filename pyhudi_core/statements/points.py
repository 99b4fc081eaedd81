"""Points in time in statements: TIMESTAMP AS OF, VERSION AS OF, and the bounds of ``hudi_table_changes``."""

from __future__ import annotations

import datetime as dt
from typing import Any

import sqlglot.expressions as exp

from pyhudi_core.predicates.coercion import parse_timestamp
from pyhudi_core.read.bounds import TimePoint
from pyhudi_core.statements.text import not_understood, place_of


def point_of(version: Any) -> TimePoint:
    """Return the time, or the commit, that AS OF names."""
    written = version.args.get("expression")
    while isinstance(written, exp.Paren | exp.Cast):
        written = written.this
    if str(version.args.get("kind")).upper() != "AS OF" or not isinstance(written, exp.Literal):
        raise not_understood(
            f"{version.sql(dialect='spark')[:80]!r}{place_of(version)} is no point in time",
            "Write TIMESTAMP AS OF '2026-01-31 12:00:00', or VERSION AS OF and the instant of a commit.",
        )
    return point_of_text(written.name)


def point_of_text(text: str) -> TimePoint:
    """Return the time that a text in a statement means. A time without a zone is in UTC. A text of digits is a time on the timeline."""
    moment = None if text.isdecimal() else parse_timestamp(text)
    if moment is None:
        return text
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=dt.UTC)
