"""The environment of a run: its figures depend on the machine and on its other work. Contains nothing that identifies a machine."""

from __future__ import annotations

import datetime as dt
import os
import platform
import subprocess
import tempfile
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
CODE = (*("pyhudi_core", "pyhudi_dagster", "tests", "benchmarks", "scripts", "definitions.py", "requirements.lock"),)
"""As git takes paths. Records and pages are not code: a run must not make the next one a run of changed code."""
_SYNCS = 15


def occasion(code: Sequence[str] = CODE) -> dict[str, Any]:
    """Date, commit of the code, machine, and load average of the last minute."""
    return {
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
        "commit": commit(code),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9),
        "load": round(os.getloadavg()[0], 1),
        "python": platform.python_version(),
        "pyarrow": version("pyarrow"),
        "pyspark": version("pyspark"),
    }


def sync_ms(folder: Path) -> float:
    """Median milliseconds of a write and fsync of a small file."""
    folder.mkdir(parents=True, exist_ok=True)
    took: list[float] = []
    for _ in range(_SYNCS):
        with tempfile.TemporaryFile(dir=folder) as file:
            began = time.perf_counter()
            file.write(b"x" * 4096)
            file.flush()
            os.fsync(file.fileno())
            took.append(time.perf_counter() - began)
    return round(median(took) * 1000, 2)


def commit(code: Sequence[str] = CODE) -> str:
    """The checked-out commit, with "and changes" if the code was changed since. Only the code counts, because runs change the pages of figures."""
    head = _git("rev-parse", "--short", "HEAD")
    return f"{head} and changes" if head and _git("status", "--porcelain", "--", *code) else head or "none"


def _git(*words: str) -> str:
    asked = ["git", "--no-optional-locks", *words]
    try:
        return subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()
    except FileNotFoundError:
        return ""
