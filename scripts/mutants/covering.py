"""Which tests reach which mutant: the quick tests that start no JVM run once in a marked copy of the project (``marking.py``).

The mutants that a test file reached are stored until the code or the file changes. So after a new test only its file runs again.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scripts.mutants.candidates import PLACES, Candidate
from scripts.mutants.marking import PACKAGES, Marks, marked

LEFT_OUT = {"interop", "spark", "e2e", "style", "support", "__pycache__"}
"""Folders of tests that start a JVM, or run no code of the places."""
STAGES = range(3)
"""Tests near the code; the other tests of units; those that try many orders and crashes. Each stage is collected and run for what is not caught."""
QUICK = "not slow and not spark"
TOGETHER = 40
"""Files of tests that are run by one process."""
NO_JAVA = {"JAVA_HOME": "/nonexistent", "PYHUDI_RECORD": "0", "PYHUDI_FUZZ": "1"}
"""A test that starts a JVM all the same fails, and is left out."""
_MEMORY = Path("/dev/shm")


@dataclass(frozen=True, slots=True)
class Covering:
    """The tests of each mutant.

    Attributes:
        tests: by key of a candidate: names of tests.
        seconds: by name of a test; only tests that passed.
        at_import: keys of candidates that run, or were reached, during the import of their module.
        digests: of the files of tests, with the code that they ran on.
    """

    tests: Mapping[str, frozenset[str]]
    seconds: Mapping[str, float]
    at_import: frozenset[str] = frozenset()
    digests: Mapping[str, str] = field(default_factory=dict)

    def of(self, candidate: Candidate) -> list[str]:
        """The tests that reach a mutant: the quick ones, those about its package and those about its module first."""
        place = Path(candidate.module)
        about = _tests_of(candidate.module)
        # A module in a folder of a package has its tests beside those of the package: formats/avro/columns.py in formats/test_avro_columns.py.
        words = {place.stem, *place.parts[2:-1]}

        def cost(name: str) -> tuple[float, str]:
            near = 4 if name.startswith(about) else 1
            for word in words:
                near *= 4 if word in name.partition("::")[0].rpartition("/")[2] else 1
            return (0.02 + self.seconds[name]) / near, name

        return sorted((name for name in self.tests.get(candidate.key, frozenset()) if name in self.seconds), key=cost)

    def token(self, name: str) -> str:
        """A name for the test in its present form, on this code."""
        return hashlib.sha256(f"{name}|{self.digests.get(name.partition('::')[0])}".encode()).hexdigest()[:8]


def files_of_tests(root: Path, stage: int = STAGES[-1]) -> Iterator[str]:
    """The files of tests that may catch a mutant, up to a stage."""
    for path in sorted((root / "tests").rglob("test_*.py")):
        name = path.relative_to(root)
        if name.parts[1] not in LEFT_OUT and _stage_of(name) <= stage:
            yield name.as_posix()


def _stage_of(name: Path) -> int:
    near = {Path(place).name for place in PLACES}
    return {"unit": int(name.parts[2] not in near), "reliability": 2}.get(name.parts[1], 0)


def copy_project(root: Path, home: Path) -> None:
    """Copies what git knows, and new files that it would take."""
    shutil.rmtree(home, ignore_errors=True)
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    for name in subprocess.check_output(command, cwd=root, text=True).split("\0"):
        if name and (root / name).is_file():
            (home / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, home / name)


def temporary_folder() -> str:
    """The folder for files of tests: in memory if the machine has enough."""
    room = _MEMORY.is_dir() and os.access(_MEMORY, os.W_OK) and shutil.disk_usage(_MEMORY).free > 3 << 30
    return tempfile.mkdtemp(prefix="pyhudi-mutants-", dir=_MEMORY if room else None)


def files_beside(root: Path, modules: Collection[str]) -> list[str]:
    """The files of tests of the modules' packages."""
    packages = {_tests_of(module) for module in modules}
    return [name for name in files_of_tests(root) if any(name.startswith(package) for package in packages)]


def _tests_of(module: str) -> str:
    """The folder of the tests of a module's package."""
    first, second, *_ = Path(module).parts
    return f"tests/unit/{second}/" if first == "pyhudi_core" else f"tests/{first.removeprefix('pyhudi_')}/"


def collect(
    root: Path, home: Path, chosen: Sequence[Candidate], files: Iterable[str], end: float = float("inf")
) -> Covering | None:
    """Run the test files of which it is not known what they reach; None if the time ended before.

    Arguments:
        root: the project.
        home: the folder of the copies and of the stored results.
        chosen: the mutants.
        files: those of the tests that count.
        end: until when, by the monotonic clock.
    """
    home.mkdir(parents=True, exist_ok=True)
    marks = marked(root, chosen)
    code = _digest(
        root, [*PACKAGES, "tests/support", "scripts/mutants/marking.py"], sorted(each.key for each in chosen)
    )
    wanted = {name: _digest(root, [name, *_conftests(root, name)], [code]) for name in files}
    kept = _kept(home)
    todo = [name for name, digest in wanted.items() if kept.get(name, {}).get("digest") != digest]
    if todo:
        tree = _marked_copy(root, home / "marked", marks)
        for some in (todo[at : at + TOGETHER] for at in range(0, len(todo), TOGETHER)):
            if time.monotonic() > end:
                return None
            print(f"{time.strftime('%H:%M:%S')} what {len(some)} files of tests reach: {some[0]} ...", flush=True)
            _keep(home, _run(tree, some), {name: wanted[name] for name in some})
        kept = _kept(home)
    return _covering(marks, [kept[name] for name in wanted if name in kept], wanted)


def _marked_copy(root: Path, tree: Path, marks: Marks) -> Path:
    copy_project(root, tree)
    shutil.copy2(root / "scripts" / "mutants" / "reached.py", tree / PACKAGES[0] / "_reached.py")
    for path, code in marks.code.items():
        (tree / path).write_text(code, encoding="utf-8")
    return tree


def _run(tree: Path, files: list[str]) -> dict[str, dict[str, Any]]:
    """The mutants that each file's tests reached, and the seconds that they took."""
    reached, seconds, temporary = tree / ".reached", tree / ".seconds", temporary_folder()
    reached.unlink(missing_ok=True)
    seconds.unlink(missing_ok=True)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "--tb=no",
        "-p",
        "scripts.mutants.reaching",
        "-p",
        "no:cacheprovider",
    ]
    command += ["--hypothesis-seed=0", "--continue-on-collection-errors", "-m", QUICK, *files]
    environment = {**os.environ, **NO_JAVA, "PYHUDI_TEST_TIMES": str(seconds), "PYHUDI_REACHED": str(reached), "TMPDIR": temporary,
                   "PYTHONPATH": os.pathsep.join([str(tree), str(tree / "tests")])}  # fmt: skip
    try:
        subprocess.run(command, cwd=tree, env=environment, check=False)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    took = json.loads(seconds.read_text(encoding="utf-8")) if seconds.exists() else {}
    found: dict[str, dict[str, Any]] = {name: {"seconds": {}, "reached": defaultdict(list)} for name in files}
    for name, length in took.items():
        found[name.partition("::")[0]]["seconds"][name] = length
    for line in reached.read_text(encoding="utf-8").splitlines() if reached.exists() else ():
        number, _, name = line.partition("\t")
        file = name.partition("::")[0]
        for each in (file,) if file in found else (files if not file else ()):
            found[each]["reached"][name].append(int(number))
    return found


def _keep(home: Path, found: dict[str, dict[str, Any]], digests: Mapping[str, str]) -> None:
    with (home / "reached.jsonl").open("a", encoding="utf-8") as file:
        for name, what in found.items():
            file.write(json.dumps({"file": name, "digest": digests[name], **what}) + "\n")


def _kept(home: Path) -> dict[str, dict[str, Any]]:
    path = home / "reached.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return {one["file"]: one for one in map(json.loads, lines)}


def _covering(marks: Marks, kept: Iterable[Mapping[str, Any]], digests: Mapping[str, str]) -> Covering:
    keys: dict[int, list[str]] = defaultdict(list)
    for key, numbers in marks.of.items():
        for number in numbers:
            keys[number].append(key)
    tests: dict[str, set[str]] = defaultdict(set)
    seconds: dict[str, float] = {}
    at_import = set(marks.at_import)
    for one in kept:
        seconds |= one["seconds"]
        for name, numbers in one["reached"].items():
            found = {key for number in numbers for key in keys.get(number, ())}
            names = [name] if "::" in name else one["seconds"] if name else ()
            for key in found:
                tests[key].update(names)
            at_import |= found if not name else set()
    return Covering({key: frozenset(names) for key, names in tests.items()}, seconds, frozenset(at_import), digests)


def _conftests(root: Path, name: str) -> list[str]:
    """The files of fixtures and stories beside a file of tests."""
    folder = (root / name).parent
    beside = (path for path in folder.glob("*.py") if not path.name.startswith("test_"))
    return ["tests/conftest.py", *sorted(path.relative_to(root).as_posix() for path in beside)]


def _digest(root: Path, places: Iterable[str], more: Iterable[str]) -> str:
    digest = hashlib.sha256("\n".join(more).encode())
    for place in places:
        path = root / place
        for each in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            digest.update(each.relative_to(root).as_posix().encode() + b"\0" + each.read_bytes())
    return digest.hexdigest()
