"""Runs pytest in children of a process that has already loaded the large libraries: a run of three tests takes one second instead of four.

Each line of the input is a run as JSON: arguments of pytest, environment, seconds, a file for the output. Each line of the output is the exit
status, or "stuck". The project's own code is imported by the children alone.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import signal
import sys
import time
from typing import Any

LIBRARIES = ("pytest", "hypothesis", "hypothesis.strategies", "numpy", "pyarrow", "pyarrow.compute", "pyarrow.dataset", "pyarrow.parquet", "pandas",
             "fastavro", "boto3", "moto", "moto.server", "sqlglot", "greenlet", "xxhash", "pyroaring", "dagster")  # fmt: skip


def main() -> None:
    """Serve until the input ends."""
    home = os.getcwd()
    sys.path[0] = home
    sys.path.insert(1, os.path.join(home, "tests"))
    for name in LIBRARIES:
        importlib.import_module(name)
    answers = os.fdopen(os.dup(1), "w")
    for line in sys.stdin:
        print(serve(json.loads(line)), file=answers, flush=True)


def serve(run: dict[str, Any]) -> str:
    """One run, in a child with a session of its own; processes that it leaves behind are ended."""
    child = os.fork()
    if not child:
        _run(run)
    end = time.monotonic() + run["seconds"]
    status: str | None = None
    while status is None:
        done, how = os.waitpid(child, os.WNOHANG)
        if done:
            status = str(os.waitstatus_to_exitcode(how))
        elif time.monotonic() > end:
            status = "stuck"
        else:
            time.sleep(0.02)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    if status == "stuck":
        os.waitpid(child, 0)
    return status


def _run(run: dict[str, Any]) -> None:
    os.setsid()
    output = os.open(run["output"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for stream in (1, 2):
        os.dup2(output, stream)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.environ.update(run["environment"])
    import pytest  # loaded already

    code = 70
    try:
        code = int(pytest.main(run["arguments"]))
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    main()
