"""Explain the violations in docs/reliability.md: tests switch a protection off and expect them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

EXPLORED_NOTE = """\
"Violations found" counts expected violations: a test switches a protection off, and fails if the explorer does **not** find the resulting
error. An unexpected violation fails its test. For two writers the protection was the conflict check, the commit record with the lock, and the
roll-forward. The eleven configurations have their own table below; its column "switched off" names the protection.
"""
_LETTERS = {
    "put_if_absent": "create if absent",
    "salt": "salted names",
    "monotonic": "times that only grow",
    "key_check": "key check",
}


def switched_off(row: Mapping[str, Any]) -> str:
    """The protections that a configuration switches off."""
    off = [words for name, words in _LETTERS.items() if row.get(name) == "no"]
    return ", ".join((["lock and conflict check"] if row["locking"] == "none" else []) + off) or "nothing"


def must_fail(row: Mapping[str, Any]) -> bool:
    """Whether the configuration must show a violation."""
    return str(row["expected"]) != "OK"


def expected(row: Mapping[str, Any]) -> str:
    """The expected result in words."""
    return f"violation: {row['expected']}" if must_fail(row) else "none"


def summary(rows: Mapping[str, Mapping[str, Any]]) -> str:
    """How many configurations must show a violation, and how many did."""
    wanted = [row for row in rows.values() if must_fail(row)]
    shown = sum(row["failure"] != "none" for row in wanted)
    others = [row for row in rows.values() if not must_fail(row)]
    unwanted = sum(row["failure"] != "none" for row in others)
    return (
        f"Of {len(rows)} runs {len(wanted)} must show a violation, because the protection against it is switched off; {shown} of them did.\n"
        f'The other {len(others)} must show none; {unwanted} of them did. Rows that are not "as shipped"\n'
        "also switch off the reservation and the commit record, because the model does not have them."
    )
