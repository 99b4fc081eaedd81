"""By how much a process grows while it works on a table, as the system counts its memory (PSS). Linux only."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

needs_pss = pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="PSS is counted by Linux alone")
_CHILD = """
import json, sys, threading
import pyarrow as pa
import pyhudi_core as hudi

pa.set_memory_pool(pa.system_memory_pool())

def pss():
    with open("/proc/self/smaps_rollup") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith("Pss:"))

{work}

tiny, large = json.loads(sys.argv[1])
work(*tiny)  # what is loaded and allocated once is no part of it
before, peak, done = pss(), 0, threading.Event()

def watch():
    global peak
    while not done.wait(0.002):
        peak = max(peak, pss())

watcher = threading.Thread(target=watch)
watcher.start()
figures = work(*large)
done.set()
watcher.join()
print(json.dumps({{**figures, "grown": max(peak, pss()) - before}}))
"""


def growth(work: str, tiny: Sequence[Any], large: Sequence[Any]) -> dict[str, int]:
    """Call ``work`` in a new process, first with ``tiny`` and then with ``large``; returns its figures, and ``grown``: bytes, of the second call.

    ``work`` is Python code that defines a function of that name, which returns a dict. The arguments are values of JSON.
    """
    # One arena: else the allocator keeps some of what each thread has given back.
    environment = {**os.environ, "MALLOC_ARENA_MAX": "1"}
    command = [sys.executable, "-c", _CHILD.format(work=work), json.dumps([[*tiny], [*large]])]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    found: dict[str, int] = json.loads(done.stdout.splitlines()[-1])
    return found
