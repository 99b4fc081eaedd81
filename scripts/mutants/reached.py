"""Plugin of pytest for `make mutants`, and the module that the marks in the code call (``scripts/mutants/marking.py`` copies it there).

PYHUDI_REACHED names a file that gets one line for each mark that a test reaches first: number and test. What a shared fixture
reaches counts for all tests of the file. PYHUDI_TEST_TIMES names the file for the seconds of every test that passed. Caches of functions
are emptied before each test, so that every test reaches all code that it uses.
"""

from __future__ import annotations

import os
import sys
from typing import Any

_file = os.environ.get("PYHUDI_REACHED", "")
_out = os.open(_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND) if _file else None
_seen: dict[str, set[int]] = {}
_known: set[str] = set()
_caches: list[Any] = []


def _running_test() -> str:
    """The test that started this process; only the file while its fixtures are made."""
    name, _, when = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")
    return name.partition("::")[0] if when == "(setup)" else name


now = _running_test()


def reached(number: int) -> None:
    """The running test has reached this mark."""
    seen = _seen.setdefault(now, set())
    if number not in seen and _out is not None:
        seen.add(number)
        os.write(_out, f"{number}\t{now}\n".encode())


def empty_caches() -> None:
    """Empty the caches of the project's functions."""
    modules = [name for name in sys.modules if name.startswith("pyhudi_")]
    if len(modules) != len(_known):
        _known.update(modules)
        _caches[:] = _found(modules)
    for cache in _caches:
        cache.cache_clear()


def _found(modules: list[str]) -> list[Any]:
    named = [one for name in modules for one in list(vars(sys.modules[name]).values())]
    inner = [each for one in named if isinstance(one, type) for each in list(vars(one).values())]
    return [one for one in (*named, *inner) if hasattr(one, "cache_clear") and hasattr(one, "__wrapped__")]
