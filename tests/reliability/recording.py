"""Store the results of a run for docs/reliability.md. Nothing is written unless PYHUDI_RECORD is set.

`PYHUDI_RECORD=1` writes to docs/reliability/, any other value names a folder. Each name is one JSON file; its entries are kept one by one, each with
its own ``taken`` (day, commit, machine). An entry replaces the earlier one of its name, unless it holds less (`holds_less`). To start anew, delete the
file.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.machine import occasion

KEPT = Path(__file__).resolve().parents[2] / "docs" / "reliability"
COUNTS = ("operations", "explorations")
"""Figures that a whole run has more of than one that was cut short or that ran some tests only."""

AMOUNTS = ("schedules", "crash_points")
"""Figures that change a little with the code. A run with less than half of them did not try all cases."""


def record(name: str, value: Mapping[str, Any]) -> None:
    """Store results as entries of ``<name>.json``; values must be valid in JSON. No effect unless PYHUDI_RECORD is set."""
    folder = os.environ.get("PYHUDI_RECORD", "")
    if not folder or folder == "0":
        return
    path = (KEPT if folder == "1" else Path(folder)) / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    with alone(path):
        kept = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        text = json.dumps(merged(kept, value, occasion()), indent=1, sort_keys=True)
        part = path.with_suffix(f".{os.getpid()}.part")
        part.write_text(text + "\n", encoding="utf-8")
        part.replace(path)


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """No other process of the run changes the file inside the block."""
    name = hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:16]
    with open(Path(tempfile.gettempdir(), f"pyhudi-recording-{name}.lock"), "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def merged(kept: Mapping[str, Any], found: Mapping[str, Any], taken: Mapping[str, Any]) -> dict[str, Any]:
    """The content of the file after a run."""
    before = kept.get("taken", {})
    entries = {
        name: {"taken": before, **entry} if isinstance(entry, dict) else entry
        for name, entry in kept.items()
        if name != "taken"
    }
    for name, entry in found.items():
        now = {**entry, "taken": dict(taken)} if isinstance(entry, Mapping) else entry
        if name not in entries or not (isinstance(now, dict) and holds_less(now, entries[name])):
            entries[name] = now
    return {**entries, "taken": dict(taken)}


def holds_less(new: Mapping[str, Any], old: Mapping[str, Any]) -> bool:
    """Whether a run covers less than the stored one: only a part of the tests, or narrower bounds."""
    if any(new.get(count, 0) < old.get(count, 0) for count in COUNTS):
        return True
    if any(2 * new.get(amount, 0) < old.get(amount, 0) for amount in AMOUNTS) or (
        old.get("exhausted") is True and new.get("exhausted") is False
    ):
        return True
    if new.get("bound") != old.get("bound"):
        return bool(new.get("schedules", 0) < old.get("schedules", 0))
    return bool(new["taken"].get("explore", 1) < old["taken"].get("explore", 1))
