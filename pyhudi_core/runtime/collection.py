"""Making very many objects at once, without the garbage collector looking through all of them again and again.

CPython's collector runs by the number of new objects. Planning over 100,000 files makes several hundred thousand, none of them garbage, and half
of the time would go into looking for some. Python documentation, module ``gc``.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_paused() -> Iterator[None]:
    """No collections inside, if they were on before; reference counting goes on. For work of a few seconds that leaves no cycles.

    Threads may overlap: whoever switched the collector off switches it on again, and the others lose some of the gain.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
