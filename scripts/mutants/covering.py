"""Which tests run which line: collected once with coverage, over the quick tests that start no JVM."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from coverage.numbits import numbits_to_nums

from scripts.mutants.candidates import PLACES, Candidate

LEFT_OUT = {"interop", "spark", "e2e", "style", "support", "__pycache__"}
"""Folders of tests that start a JVM, or run no code of the places."""
QUICK = "not slow and not spark"


def parts(root: Path) -> dict[str, list[str]]:
    """The tests that may catch a mutant, in parts that are collected one by one: name, arguments of pytest."""
    found: dict[str, list[str]] = {}
    for folder in sorted(path for path in (root / "tests").iterdir() if path.is_dir() and path.name not in LEFT_OUT):
        inner = sorted(path.name for path in folder.iterdir() if path.is_dir() and any(path.rglob("test_*.py")))
        found |= {f"{folder.name}-{name}": [f"tests/{folder.name}/{name}"] for name in inner}
        found[folder.name] = [f"tests/{folder.name}", *(f"--ignore=tests/{folder.name}/{name}" for name in inner)]
    return found


@dataclass(frozen=True, slots=True)
class Covering:
    """The tests of each line, and how long each test takes.

    Attributes:
        tests: by module (a path below the repository), by line: names of tests.
        seconds: by name of a test; only tests that passed.
    """

    tests: dict[str, dict[int, frozenset[str]]]
    seconds: dict[str, float]

    def of(self, candidate: Candidate) -> list[str]:
        """The tests that run a mutant's line, the quickest first. A line that runs as the module is imported belongs to all tests of the module."""
        lines = self.tests.get(candidate.module, {})
        first, last = candidate.statement
        around = frozenset().union(*(lines.get(line, frozenset()) for line in range(first, last + 1)))
        found = (
            lines.get(candidate.line, frozenset()) or around
        )  # not every line of a statement is an event of the interpreter
        if "" in found:
            found = frozenset().union(*lines.values()) - {""}
        return sorted((name for name in found if name in self.seconds), key=lambda name: (self.seconds[name], name))


def collect(root: Path, folder: Path, part: str, arguments: Iterable[str]) -> bool:
    """Run the tests of a part under coverage, unless that was done; takes two to three times as long as without. Says whether it worked."""
    folder.mkdir(parents=True, exist_ok=True)
    seconds, data, unfinished = (folder / f"{part}{suffix}" for suffix in (".json", ".sqlite", ".part"))
    if seconds.exists():
        return True
    settings = folder / "coveragerc"
    sources = "".join(f"    {root / place}\n" for place in PLACES)
    settings.write_text(f"[run]\nconcurrency = thread,greenlet\nsource =\n{sources}", encoding="utf-8")
    data.unlink(missing_ok=True)
    command = [
        sys.executable,
        "-m",
        "coverage",
        "run",
        f"--rcfile={settings}",
        f"--data-file={data}",
        "-m",
        "pytest",
        "-q",
    ]
    command += [
        "-p",
        "support.line_contexts",
        "-p",
        "no:cacheprovider",
        "--hypothesis-seed=0",
        "--timeout=1200",
        "-m",
        QUICK,
    ]
    paths = os.pathsep.join([str(root), str(root / "tests")])
    environment = {**os.environ, "PYHUDI_TEST_TIMES": str(unfinished), "PYTHONPATH": paths}
    done = subprocess.run([*command, *arguments], cwd=root, env=environment, check=False)
    if done.returncode not in {0, 1} or not unfinished.exists():  # 1: tests that fail catch nothing, and are left out
        return False
    unfinished.replace(seconds)
    return True


def load(root: Path, folder: Path) -> Covering:
    """What `collect` has kept so far."""
    tests: dict[str, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
    seconds: dict[str, float] = {}
    for kept in sorted(folder.glob("*.json")):
        seconds |= json.loads(kept.read_text(encoding="utf-8"))
        with closing(sqlite3.connect(kept.with_suffix(".sqlite"))) as database:
            rows = database.execute(
                "select file.path, context.context, line_bits.numbits from line_bits"
                " join file on file.id = line_bits.file_id join context on context.id = line_bits.context_id"
            )
            for path, context, bits in rows:
                lines = tests[Path(path).relative_to(root).as_posix()]
                for line in numbits_to_nums(bits):
                    lines[line].add(context)
    frozen = {module: {line: frozenset(names) for line, names in lines.items()} for module, lines in tests.items()}
    return Covering(frozen, seconds)
