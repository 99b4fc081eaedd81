"""Writers in separate processes that are killed during a write."""

from __future__ import annotations

import multiprocessing
import os
import signal
from typing import Any

import pyarrow as pa

import pyhudi_core as hudi
from pyhudi_core.storage import local_files
from pyhudi_core.storage.local import LocalStorage

_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload(["pyhudi_core"])


def killed_after(location: str, verb: str, part: str, data: pa.Table) -> None:
    """Upsert in a process that gets SIGKILL right after its first call of a storage verb on a path that contains this text."""
    process = _processes.Process(target=_write_and_die, args=(location, verb, part, data))
    process.start()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL, f"the writer ended with {process.exitcode}"


def killed_in_the_middle(location: str, part: str, data: pa.Table) -> None:
    """Upsert in a process that gets SIGKILL while it writes a file on a path that contains this text, before the file has its name."""
    process = _processes.Process(target=_write_half_and_die, args=(location, part, data))
    process.start()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL, f"the writer ended with {process.exitcode}"


def _write_half_and_die(location: str, part: str, data: pa.Table) -> None:
    for name in ("publish_replacing", "publish_if_absent"):
        real = getattr(local_files, name)

        def dying(temporary: str, path: str, *rest: Any, real: Any = real) -> Any:
            if part in path:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(temporary, path, *rest)

        setattr(local_files, name, dying)
    hudi.open_table(location, {"fsync": "false"}).upsert(data)


def _write_and_die(location: str, verb: str, part: str, data: pa.Table) -> None:
    real = getattr(LocalStorage, verb)

    def dying(self: LocalStorage, path: str, *rest: Any) -> Any:
        found = real(self, path, *rest)
        if part in path:
            os.kill(os.getpid(), signal.SIGKILL)
        return found

    setattr(LocalStorage, verb, dying)
    hudi.open_table(location, {"fsync": "false"}).upsert(data)
