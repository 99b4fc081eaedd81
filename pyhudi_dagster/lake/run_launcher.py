"""`LocalRunLauncher`: Dagster's default launcher, with a check of the process of each run."""

from __future__ import annotations

import os
import sys
from typing import Any

import dagster as dg

from pyhudi_dagster.dagster_internals import worker_health, worker_of


class LocalRunLauncher(dg.DefaultRunLauncher):
    """Launches runs as Dagster's default launcher does, and notices that the process of a started run is gone.

    A code server reports a run whose process dies. If the machine or all of ``dagster dev`` ends at once, no code server is left, and Dagster shows
    the run as started until ``max_runtime_seconds``: hours in which the run keeps the slot of its pool, and the services of its table wait. With
    this launcher, run monitoring looks for the process at each round (``poll_interval_seconds``, two minutes by default), and marks the run as
    failed if the process is gone. Run retries then start it again; the new run finds the commits of the old one.

    A run on another machine counts as alive, because its process cannot be looked for. So does each run on Windows.

    Example:
        .. code-block:: yaml

            # dagster.yaml
            run_launcher:
              module: pyhudi_dagster
              class: LocalRunLauncher
    """

    @property
    def supports_check_run_worker_health(self) -> bool:
        """True: run monitoring calls `check_run_worker_health`."""
        return True

    def check_run_worker_health(self, run: dg.DagsterRun) -> Any:
        """Return the health of the process of a started run, as run monitoring asks for it."""
        pid = worker_of(self._instance, run)
        if pid is None or sys.platform == "win32" or _exists(pid):
            return worker_health("")
        return worker_health(
            f"the process {pid} of the run is gone, and nobody reported its end: the machine or its code server ended at once"
        )


def _exists(pid: int) -> bool:
    """Say whether this machine has a process of this number."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True  # of another user
    return True
