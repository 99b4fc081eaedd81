"""Which tests call which functions, and the tests of one mutant. Two uses:

pytest -p scripts.mutant_reach ...                    with PYHUDI_REACH: adds a line for each test that passed: file, name, seconds, functions
python scripts/mutant_reach.py REACH ORIGINAL PACKAGE...   the test command of cosmic-ray: finds the changed line of the packages in this folder
                                                      by a comparison with the ORIGINAL, and runs the tests that call its function, quick ones first
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
from typing import Any

import pytest

BUDGET_S = 60.0
"""Of the tests of a mutant, by the time that they took without it."""
MEMORY = 12 << 30
"""A changed program may ask for any amount of memory."""
_here = os.getcwd() + "/"
_called: set[tuple[str, str]] = set()


def pytest_configure() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Note what is called; a fixture that several tests share counts for the test that makes it."""
    if "PYHUDI_REACH" not in os.environ:
        return (yield)
    _called.clear()
    began = time.perf_counter()
    threading.setprofile(_note)
    sys.setprofile(_note)
    try:
        return (yield)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
        if not _failed:
            functions = sorted(
                f"{path.removeprefix(_here)}:{name}"
                for path, name in set(_called)
                if path.startswith(_here + "pyhudi_")
            )
            line = {"test": item.nodeid, "seconds": round(time.perf_counter() - began, 3), "functions": functions}
            with open(os.environ["PYHUDI_REACH"], "ab", buffering=0) as file:
                file.write(json.dumps(line).encode() + b"\n")
        _failed.clear()


_failed: list[str] = []


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.failed or report.skipped:
        _failed.append(report.nodeid)


def _note(frame: Any, event: str, _: Any) -> None:
    if event == "call":
        _called.add((frame.f_code.co_filename, frame.f_code.co_qualname))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the tests that PYHUDI_CHOSEN names, in its order."""
    if chosen := os.environ.get("PYHUDI_CHOSEN"):
        place = {name: number for number, name in enumerate(Path(chosen).read_text(encoding="utf-8").splitlines())}
        items[:] = sorted((item for item in items if item.nodeid in place), key=lambda item: place[item.nodeid])


def function_at(code: str, line: int) -> str:
    """The qualified name of the innermost function of a line; empty if the line runs with the import of its module."""
    found = ""

    def visit(node: ast.AST, prefix: str) -> None:
        nonlocal found
        for child in ast.iter_child_nodes(node):
            if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                visit(child, prefix)
            elif child.lineno <= line <= (child.end_lineno or child.lineno):
                name = prefix + child.name
                if not isinstance(child, ast.ClassDef) and line >= child.body[0].lineno:
                    found = name
                visit(child, name + ("." if isinstance(child, ast.ClassDef) else ".<locals>."))

    visit(ast.parse(code), "")
    return found


def tests_of(reach: Path, module: str, function: str) -> list[str]:
    """The tests that call the function, or without one any function of the module: the quickest first, as many as the budget allows."""
    found: list[tuple[float, str]] = []
    for line in reach.read_text(encoding="utf-8").splitlines():
        if f'"{module}:{function}' in line:
            one = json.loads(line)
            if any(
                name == f"{module}:{function}" or (not function and name.startswith(module + ":"))
                for name in one["functions"]
            ):
                found.append((one["seconds"], one["test"]))
    spent, chosen = 0.0, list[str]()
    for seconds, test in sorted(found):
        spent += seconds
        if spent <= BUDGET_S or not chosen:
            chosen.append(test)
    return chosen


def main() -> int:
    """Run the tests of the mutant in this folder; exit status 0 if they pass, or if there are none."""
    reach, original = Path(sys.argv[1]), Path(sys.argv[2])
    for path in (path for package in sys.argv[3:] for path in Path(package).rglob("*.py")):
        before, now = ((root / path).read_text(encoding="utf-8").splitlines() for root in (original, Path()))
        if before != now:
            line = next(number for number, (one, other) in enumerate(zip_longest(before, now), 1) if one != other)
            chosen = tests_of(reach, path.as_posix(), function_at("\n".join(before), line))
            if not chosen:
                print(f"no test reaches line {line} of {path}")
                return 0
            Path(".chosen").write_text("\n".join(chosen), encoding="utf-8")
            files = dict.fromkeys(test.partition("::")[0] for test in chosen)
            command = [
                sys.executable,
                "-m",
                "pytest",
                "-x",
                "-q",
                "-n",
                "0",
                "--tb=line",
                "-p",
                "no:cacheprovider",
                "-p",
                "scripts.mutant_reach",
                *files,
            ]
            return subprocess.run(command, env={**os.environ, "PYHUDI_CHOSEN": ".chosen"}, check=False).returncode
    return 0


if __name__ == "__main__":
    sys.exit(main())
