"""Orders to tasks of Spark, which they obey after they have written a data file.

The Python of executors loads `obey` as its ``sitecustomize``; PYHUDI_TEST_ORDERS names the folder of the orders. A driver gives an order, and sees which
processes have taken it.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

FOLDER = "PYHUDI_TEST_ORDERS"


@contextmanager
def ordered(folder: Path, do: str, times: int = 1) -> Iterator[Callable[[], list[int]]]:
    """Inside this context, so many files have this order after them; yields who has taken it: the process of each file so far."""
    taken = folder / f"taken-{time.monotonic_ns()}"
    taken.mkdir()
    order = folder / "order"
    order.with_name("order.new").write_text(json.dumps({"do": do, "times": times, "taken": str(taken)}))
    order.with_name("order.new").rename(order)

    def processes() -> list[int]:
        return [int(each.read_text() or 0) for each in sorted(taken.iterdir())]

    try:
        yield processes
    finally:
        order.unlink(missing_ok=True)


def installed(place: Path) -> str:
    """Make the folder of a ``sitecustomize``; returns it."""
    place.mkdir(exist_ok=True)
    (place / "sitecustomize.py").write_text("from support.task_orders import obey\nobey()\n")
    return str(place)


def obey() -> None:
    """Obey orders in this process and its children."""
    from pyhudi_core.storage import local_files

    for name in ("publish_replacing", "publish_if_absent"):
        real = getattr(local_files, name)

        def published(temporary: str, path: str, *rest: Any, real: Any = real) -> Any:
            found = real(temporary, path, *rest)
            if "/.hoodie/" not in path and (".parquet" in path or ".log." in path):
                _obey(Path(os.environ[FOLDER]) / "order")
            return found

        setattr(local_files, name, published)


def _obey(order: Path) -> None:
    try:
        given = json.loads(order.read_text())
    except FileNotFoundError:
        return
    for number in range(given["times"]):
        try:
            with (Path(given["taken"]) / str(number)).open("x") as own:
                own.write(str(os.getpid()))
        except FileExistsError:
            continue
        if given["do"] == "raise":
            raise RuntimeError("this task fails after it has written its file")
        if given["do"] == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        held = []
        while given["do"] == "fill":
            held.append(bytearray(1 << 24))
        while given["do"] == "wait" and order.exists():
            time.sleep(0.02)
        return
