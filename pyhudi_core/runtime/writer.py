"""Who writes: the facts about this process that its commits keep."""

from __future__ import annotations

import os
import pwd
import socket
import sys
from collections.abc import Mapping

_RUN_OF_AIRFLOW = ("AIRFLOW_CTX_DAG_ID", "AIRFLOW_CTX_TASK_ID", "AIRFLOW_CTX_DAG_RUN_ID")
"""Variables that Airflow sets while a task runs."""


def system_writer() -> Mapping[str, str]:
    """Return user, host, program, and the run of Airflow if there is one.

    No arguments of the command are among them, because they may hold secrets.
    """
    run = "/".join(filter(None, map(os.environ.get, _RUN_OF_AIRFLOW)))
    found = {"user": _user(), "host": socket.gethostname(), "program": _program(), "run": run and f"airflow {run}"}
    return {name: text for name, text in found.items() if text}


def _user() -> str:
    """Return the name of the process's user; its number if the system has no name for it, as in many containers."""
    number = os.getuid()
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def _program() -> str:
    """Return the name of the script or the package that runs, without its folder; ``python`` if there is none."""
    folder, name = os.path.split(sys.argv[0] if sys.argv else "")
    if name == "__main__.py":  # a package that runs as ``python -m package``
        name = os.path.basename(folder)
    return "python" if name in ("", "-", "-c", "-m") else name
