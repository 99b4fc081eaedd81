"""Who starts a process, and what the process takes from where it is started: one function of the product does, and takes nothing."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.sources import MODULES, ROOT, keep, name, names

STARTERS = {"subprocess", "multiprocessing", "_posixsubprocess", "_winapi", "pty", "pexpect", "billiard", "loky", "joblib", "sh", "plumbum", "invoke",
            "psutil.Popen", "concurrent.futures.ProcessPoolExecutor", "concurrent.futures.process", "asyncio.subprocess",
            "asyncio.create_subprocess_exec", "asyncio.create_subprocess_shell"}  # fmt: skip
"""Modules, and names of modules, that start processes."""
CALLS = ("exec", "spawn", "posix_spawn", "system", "popen", "fork", "startfile")
"""How the names of functions of ``os`` that do begin."""
MAY_START = {"pyhudi_core/runtime/isolated.py"}
HARMLESS = {
    "pyhudi_dagster/lake/spark_session.py": {
        "subprocess.Popen",
        "subprocess.TimeoutExpired",
    },  # of the JVM that PySpark started
}
TOOLS = sorted(path for folder in ("scripts", "examples", "benchmarks") for path in (ROOT / folder).rglob("*.py"))
ISOLATED = {"-I", "-P", "-IS"}


def _starts(path: Path) -> Iterator[str]:
    where = name(path) if path.is_relative_to(ROOT) else ""
    for used, line in names(path).used.items():
        home, _, function = used.partition(".")
        starts = used in STARTERS or any(used.startswith(f"{one}.") for one in STARTERS)
        starts |= home in ("os", "posix") and function.startswith(CALLS)
        harmless = HARMLESS.get(where, set())
        if starts and used not in harmless and not any(one.startswith(f"{used}.") for one in harmless):
            yield f"line {line}: {used}"


def _open_to_the_folder(path: Path) -> Iterator[str]:
    """Commands that run a program or a module in a Python which looks for modules in the working folder first."""
    for node in names(path).nodes:
        if isinstance(node, ast.List):
            words = {word.value for word in node.elts if isinstance(word, ast.Constant) and isinstance(word.value, str)}
            if "-c" in words and not words & ISOLATED:
                yield f"line {node.lineno}: {ast.unparse(node)[:80]}"


def test_one_function_of_the_product_starts_processes() -> None:
    paths = [path for path in MODULES if name(path) not in MAY_START]
    keep(_starts, paths, "Call pyhudi_core.runtime.isolated.python_child: it takes nothing from the working folder.")


def test_a_program_that_a_tool_gives_to_python_is_isolated_from_the_folder() -> None:
    keep(_open_to_the_folder, [*MODULES, *TOOLS], "Add -I: without it, Python takes modules from the working folder.")


def test_what_is_harmless_is_used() -> None:
    assert [used for file, listed in HARMLESS.items() for used in listed if used not in names(ROOT / file).used] == []


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("import subprocess\nsubprocess.run(['x'])", "subprocess"),
        ("from subprocess import Popen as start", "subprocess.Popen"),
        ("from pyhudi_core.lazy import lazy\nlazy('subprocess').run(['x'])", "subprocess"),
        ("import importlib\nimportlib.import_module('multiprocessing')", "multiprocessing"),
        ("from concurrent.futures import ProcessPoolExecutor", "concurrent.futures.ProcessPoolExecutor"),
        ("import asyncio\nasyncio.create_subprocess_exec('x')", "asyncio.create_subprocess_exec"),
        ("import psutil\npsutil.Popen(['x'])", "psutil.Popen"),
        ("import os\nos.system('x')", "os.system"),
        ("import os\nos.popen('x')", "os.popen"),
        ("from os import execvp", "os.execvp"),
        ("import os as o\no.posix_spawn('x', [], {})", "os.posix_spawn"),
        ("import os\ngetattr(os, 'spawnl')(0, 'x')", "os.spawnl"),
        ("import os\nos.fork()", "os.fork"),
        ("import pty\npty.spawn('x')", "pty"),
    ],
)
def test_the_rule_finds_each_way_to_start_a_process(source: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text(source)
    assert said in [line.partition(": ")[2] for line in _starts(tmp_path / "module.py")]


@pytest.mark.parametrize(
    "source",
    ["import os\nos.stat('x')", "import psutil\npsutil.Process()", "from concurrent.futures import ThreadPoolExecutor"],
)
def test_what_starts_no_process_is_allowed(source: str, tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text(source)
    assert list(_starts(tmp_path / "module.py")) == []


def test_the_rule_finds_a_python_that_is_not_isolated(tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text(
        "import sys\nopen_to_all = [sys.executable, '-c', 'x']\nalone = [sys.executable, '-I', '-c', 'x']\n"
    )
    assert len(list(_open_to_the_folder(tmp_path / "module.py"))) == 1
