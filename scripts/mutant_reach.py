"""Which tests call which functions, and the tests of one mutant. Two uses:

pytest -p scripts.mutant_reach ...                          with PYHUDI_REACH: writes a line there for each test that passed
python scripts/mutant_reach.py REACH ORIGINAL PACKAGE...    cosmic-ray's test command: finds the changed line in the packages of this folder by a
                                                            comparison with the ORIGINAL, and runs the tests that call its function
"""

from __future__ import annotations

import ast
import json
import os
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from types import FrameType

import pytest

BUDGET_S = 60.0
"""Of the tests of a mutant, by the time that they took without it."""
MEMORY = 12 << 30
"""A changed program may ask for any amount of memory."""
_here = os.getcwd() + "/pyhudi_"
_called: set[tuple[str, str]] = set()
_outcomes: list[bool] = []


def pytest_configure() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _outcomes.append(report.passed)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Note what is called; a fixture that several tests share counts for the test that makes it."""
    if "PYHUDI_REACH" not in os.environ:
        return (yield)
    _called.clear()
    _outcomes.clear()
    began = time.perf_counter()
    threading.settrace(_note)
    sys.settrace(_note)
    try:
        return (yield)
    finally:
        sys.settrace(None)
        threading.settrace(None)  # type: ignore[arg-type]
        if all(_outcomes):
            functions = sorted(
                f"pyhudi_{path[len(_here) :]}:{name}" for path, name in set(_called) if path.startswith(_here)
            )
            line = {"test": item.nodeid, "seconds": round(time.perf_counter() - began, 3), "functions": functions}
            with open(os.environ["PYHUDI_REACH"], "ab", buffering=0) as file:
                file.write(json.dumps(line).encode() + b"\n")


def _note(frame: FrameType, _event: str, _: object) -> None:
    """A call; nothing is traced inside of it."""
    _called.add((frame.f_code.co_filename, frame.f_code.co_qualname))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the tests that PYHUDI_CHOSEN names, in its order; those of which it is not known yet what they call."""
    if Path(known := os.environ.get("PYHUDI_REACH", "")).is_file():
        done = {json.loads(line)["test"] for line in Path(known).read_text(encoding="utf-8").splitlines()}
        items[:] = [item for item in items if item.nodeid not in done]
    if chosen := os.environ.get("PYHUDI_CHOSEN"):
        place = {name: number for number, name in enumerate(Path(chosen).read_text(encoding="utf-8").splitlines())}
        items[:] = sorted((item for item in items if item.nodeid in place), key=lambda item: place[item.nodeid])


def function_at(code: str, line: int) -> str:
    """The qualified name of the innermost function of a line; empty if the line runs with the import of its module."""
    found, todo = "", [(child, "") for child in ast.parse(code).body]
    while todo:
        node, prefix = todo.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            if not node.body[0].lineno <= line <= (node.end_lineno or node.lineno):
                continue
            prefix += node.name
            found = found if isinstance(node, ast.ClassDef) else prefix
            prefix += "." if isinstance(node, ast.ClassDef) else ".<locals>."
        todo += [(child, prefix) for child in ast.iter_child_nodes(node)]
    return found


def tests_of(reach: Path, module: str, function: str) -> list[str]:
    """The tests that call the function, or without one any function of the module: the quickest first, as many as the budget allows."""
    begin = f"{module}:{function}"
    with reach.open(encoding="utf-8") as file:  # of all tests it has some hundred megabytes
        lines = (json.loads(line) for line in file if f'"{begin}' in line)
        found = sorted((one["seconds"], one["test"]) for one in lines if not function or begin in one["functions"])
    spent, chosen = 0.0, list[str]()
    for seconds, test in found:
        spent += seconds
        if spent <= BUDGET_S or not chosen:
            chosen.append(test)
    return chosen


def main() -> int:
    """Run the tests of the mutant in this folder; exit status 0 if they pass, or if there are none."""
    reach, original = Path(sys.argv[1]), Path(sys.argv[2])
    for path in (path for package in sys.argv[3:] for path in Path(package).rglob("*.py")):
        before, now = ((root / path).read_text(encoding="utf-8") for root in (original, Path()))
        if before == now:
            continue
        pairs = enumerate(zip_longest(before.splitlines(), now.splitlines()), 1)
        line = next(number for number, (one, other) in pairs if one != other)
        if not (chosen := tests_of(reach, path.as_posix(), function_at(before, line))):
            print(f"no test reaches line {line} of {path}")
            return 0
        Path(".chosen").write_text("\n".join(chosen), encoding="utf-8")
        options = ["-x", "-q", "-n", "0", "--tb=line", "-p", "no:cacheprovider", "-p", "scripts.mutant_reach"]
        files = dict.fromkeys(test.partition("::")[0] for test in chosen)
        command = [sys.executable, "-m", "pytest", *options, *files]
        return subprocess.run(command, env={**os.environ, "PYHUDI_CHOSEN": ".chosen"}, check=False).returncode
    return 0


if __name__ == "__main__":
    sys.exit(main())
