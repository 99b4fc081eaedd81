"""A plugin of pytest for `make mutants`: it collects all tests once; then each line of the input is a run of some tests in a child process.

A line is JSON: the tests, in order; for a mutant also the path of the module, its code and the changed code. The child gives the functions of the
module their changed bodies, so nothing has to be imported or collected again. It runs the tests until one fails. The answer is one line of JSON:
``outcome`` (``passed``, ``failed``, ``stuck``; ``anew``: the change has its effect at import, so ``server.py`` must run it) and ``by``.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import select
import signal
import time
from types import CodeType, FunctionType
from typing import Any, NoReturn

import hypothesis
import pytest

from scripts.mutants.chosen_tests import pytest_configure as limit_memory
from scripts.mutants.reached import empty_caches

_COMPREHENSIONS = {"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"}
_OPTIMIZED = 1  # the flag of functions; classes and modules do not have it
_functions: dict[tuple[str, int], list[FunctionType]] = {}
_failed: list[str] = []
_in, _out = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # the output of pytest is no answer


def pytest_configure() -> None:
    """Do not search for the smallest example of a failure."""
    phases = [hypothesis.Phase.explicit, hypothesis.Phase.generate]
    hypothesis.settings.register_profile("mutants", phases=phases, database=None)
    hypothesis.settings.load_profile("mutants")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Remember the test that failed."""
    if report.failed:
        _failed.append(report.nodeid)


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool:
    """Serve until the input ends."""
    items = {item.nodeid: item for item in session.items}
    for one in gc.get_objects():
        if isinstance(one, FunctionType):
            _functions.setdefault((one.__code__.co_qualname, one.__code__.co_firstlineno), []).append(one)
    gc.collect()
    gc.freeze()
    _say({"tests": len(items)})
    for line in _in:
        _say(_serve(json.loads(line), items))
    return True


def _say(answer: dict[str, Any]) -> None:
    print(json.dumps(answer), file=_out, flush=True)


def _serve(run: dict[str, Any], items: dict[str, pytest.Item]) -> dict[str, Any]:
    """One run, in a child with a session of its own; processes that it leaves behind are ended."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        _child(run, items, writing)
    os.close(writing)
    try:
        return _followed(reading, run["limits"])
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(reading)


def _followed(reading: int, limits: dict[str, float]) -> dict[str, Any]:
    """Read the child's report: each test that begins, and the outcome. Each test has its own time limit."""
    said, test, ended = b"", "", time.monotonic() + 120
    while True:
        ready, _, _ = select.select([reading], [], [], max(0.0, ended - time.monotonic()))
        if not ready:
            return {"outcome": "stuck", "by": test}
        more = os.read(reading, 1 << 16)
        if not more:
            return {"outcome": "failed", "by": test}  # it ended without a report
        *lines, said = (said + more).split(b"\n")
        for line in lines:
            word, _, test = line.decode().partition(" ")
            if word != "begins":
                return {"outcome": word, "by": test}
            ended = time.monotonic() + limits[test]


def _child(run: dict[str, Any], items: dict[str, pytest.Item], writing: int) -> NoReturn:
    outcome = "broken"
    try:
        os.setsid()
        limit_memory()
        if run.get("module") and not _change(run["module"], run["code"], run["changed"]):
            outcome = "anew"
            return
        empty_caches()
        chosen = [items[name] for name in run["tests"]]
        outcome = "failed"
        for item, following in zip(chosen, [*chosen[1:], None], strict=True):
            os.write(writing, f"begins {item.nodeid}\n".encode())
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if _failed:
                return
        outcome = "passed"
    finally:
        os.write(writing, f"{outcome} {_failed[0] if _failed else ''}\n".encode())
        os._exit(0)


def _change(module: str, code: str, changed: str) -> bool:
    """Give functions their changed bodies; False if the change is not inside functions, or none of them is in use."""
    pairs = list(_pairs(_compiled(code, module), _compiled(changed, module)))
    if not pairs or None in pairs:
        return False
    done = 0
    for pair in pairs:
        assert pair is not None
        for function in _functions.get((pair[0].co_qualname, pair[0].co_firstlineno), ()):
            if function.__code__.co_filename.endswith(module) and function.__code__ == pair[0]:
                if len(pair[0].co_freevars) != len(pair[1].co_freevars):
                    return False
                function.__code__ = pair[1]
                done += 1
    return bool(done)


def _compiled(code: str, module: str) -> CodeType:
    return compile(code, module, "exec", dont_inherit=True)


def _pairs(old: CodeType, new: CodeType) -> Any:
    """The functions that differ, with their inner functions; None if code that runs at import differs."""
    if old.co_flags & _OPTIMIZED:
        if old.co_name in _COMPREHENSIONS:
            yield None
        elif old != new:
            yield old, new
            yield from _inner(old, new)
        return
    inside = [[one for one in code.co_consts if isinstance(one, CodeType)] for code in (old, new)]
    values = [[repr(one) for one in code.co_consts if not isinstance(one, CodeType)] for code in (old, new)]
    names = [code.co_names for code in (old, new)]
    if old.co_code != new.co_code or values[0] != values[1] or names[0] != names[1] or len(inside[0]) != len(inside[1]):
        yield None
        return
    for one, other in zip(*inside, strict=True):
        if one != other:
            yield from _pairs(one, other)


def _inner(old: CodeType, new: CodeType) -> Any:
    inside = [[one for one in code.co_consts if isinstance(one, CodeType)] for code in (old, new)]
    for one, other in zip(*inside, strict=False):
        if one != other and one.co_name == other.co_name and one.co_name not in _COMPREHENSIONS:
            yield one, other
            yield from _inner(one, other)
