"""Locks on real servers, and commits in S3 with latency injected: their part of the page. `scripts/lock_figures.py` measures them."""

from __future__ import annotations

from typing import Any

Result = dict[str, Any]


def section(kept: dict[str, Result]) -> str:
    """The section of the page; empty without a result."""
    if "locks" not in kept:
        return ""
    result = kept["locks"]
    latencies = result["latencies_ms"]
    lines = [
        "## Locks, and commits in an object store",
        "",
        "| lock | calls to take it and give it back | "
        + " | ".join(f"at {ms} ms a call" for ms in latencies)
        + " | holdings a second at "
        + ", ".join(f"{ms}" for ms in latencies)
        + " ms |",
        "|---|---|" + "---|" * (len(latencies) + 1),
    ]
    lines += [_lock(name, each, len(latencies)) for name, each in result["locks"].items()]
    commits = result["commits"]
    lines += [
        "",
        f"An upsert of one row in S3 (a local gateway, with the lock `storage_based`) makes {commits['calls']:.0f} calls.",
        "",
        "| upsert of one row | whole commit | under the lock | commits a second at most, by the time under the lock |",
        "|---|---|---|---|",
    ]
    lines += [_commit(name, *times) for name, times in commits["ms"].items()]
    return "\n".join([*lines, ""])


def _lock(name: str, each: Result, columns: int) -> str:
    """A row; a lock without a server has only the time without latency."""
    times = each["ms"] + [None] * (columns - len(each["ms"]))
    shown = " | ".join("" if ms is None else _ms(ms) for ms in times)
    rates = ", ".join(_rate(ms) for ms in each["ms"])
    calls = "" if each["calls"] is None else f"{each['calls']:.0f}"
    return f"| {name} | {calls} | {shown} | {rates} |"


def _commit(name: str, whole_ms: float, held_ms: float) -> str:
    return f"| {name} | {_ms(whole_ms)} | {_ms(held_ms)} | {_rate(held_ms)} |"


def _ms(ms: float) -> str:
    return f"{ms:.0f}" if ms >= 10 else f"{ms:.1f}"


def _rate(ms: float) -> str:
    per_second = 1000 / ms
    return f"{per_second:,.0f}" if per_second >= 100 else f"{per_second:.1f}"
