"""Pause the garbage collector while very many objects are made.

CPython's collector runs after a number of new objects. Planning over 100,000 files makes several hundred thousand objects, and none of them is
garbage. The collector would take half of the time. Python documentation, module ``gc``.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_paused() -> Iterator[None]:
    """Switch the garbage collector off inside the block, if it was on. For work of a few seconds that makes no reference cycles.

    Reference counting continues. Blocks in several threads may overlap: the thread that switched the collector off switches it on again, so the other
    threads gain less.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
