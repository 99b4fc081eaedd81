"""What a run found out, kept for docs/reliability.md: nothing is written unless PYHUDI_RECORD is set.

`PYHUDI_RECORD=1` writes to docs/reliability/, any other value names a folder. Each name is one JSON file. The first record of a name in
a process replaces what an earlier run left; later ones add their keys (tests with parameters record one key each).
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.machine import occasion

KEPT = Path(__file__).resolve().parents[2] / "docs" / "reliability"
_said: dict[str, dict[str, Any]] = {}


def record(name: str, value: Mapping[str, Any], *, add: bool = False) -> None:
    """Keep what a run found out as ``<name>.json``; values are what JSON can hold. Does nothing unless PYHUDI_RECORD is set.

    Args:
        add: what earlier runs left stays; then every value should say itself when it was taken.
    """
    folder = os.environ.get("PYHUDI_RECORD", "")
    if not folder or folder == "0":
        return
    path = (KEPT if folder == "1" else Path(folder)) / f"{name}.json"
    left = json.loads(path.read_text(encoding="utf-8")) if add and path.exists() else {}
    said = _said.setdefault(name, left)
    said.update(value)
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps({**said, "taken": occasion()}, indent=1, sort_keys=True)
    part = path.with_suffix(f".{os.getpid()}.part")
    part.write_text(text + "\n", encoding="utf-8")
    part.replace(path)
