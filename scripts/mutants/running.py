"""Run one mutant: make the change in a copy of the project, and run the tests that reach it until one fails.

A process that has collected all tests runs them in children whose functions are changed (``ready.py``). A change that has its effect when
the module is imported needs a child that imports and collects again (``server.py``). A test that also fails without the change does not count.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from scripts.mutants.candidates import Candidate, mutated
from scripts.mutants.covering import NO_JAVA, QUICK, Covering, copy_project, files_of_tests, temporary_folder

CAUGHT, STUCK, SURVIVED, UNREACHED = "caught", "stuck", "survived", "unreached"
NOTICED = (CAUGHT, STUCK)
FIRST_S = 4.0
"""Seconds of the tests in the first round."""
PATIENCE_S, PATIENCE = 30.0, 10
"""A test may take so many seconds, and so many times what it took before: a busy machine is slow, too."""
NO_TESTS = "5"  # pytest's exit status
_FAILED = re.compile(r"^(?:FAILED|ERROR) (.+)", re.MULTILINE)
_SECONDS = itertools.count(1_000_000_000)


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a mutant.

    Attributes:
        key, module, line, operator, text: of the candidate.
        outcome: caught: a test failed; stuck: the tests did not end in time; survived: they passed; unreached: no quick test reaches it.
        by: the test that failed.
        ran, known: the number of tests that were run, now and before, and of the tests that reach it.
        seconds: the time of the run.
        budget: of the workshop.
        code: digest of the module.
        passed: the names (`Covering.token`) of the tests that passed.
    """

    key: str
    module: str
    line: int
    operator: str
    text: str
    outcome: str
    by: str
    ran: int
    known: int
    seconds: float
    budget: float
    code: str
    passed: list[str]

    def as_json(self) -> dict[str, Any]:
        """As a line of the file of results."""
        return asdict(self)


@dataclass(slots=True)
class Workshop:
    """A copy of the project in which one mutant at a time is made.

    Attributes:
        home: folder of the copy.
        covering: which tests reach which mutant.
        budget: seconds of the tests of a mutant: the longest tests are left out until the others fit.
        ready: runs tests that it has collected.
        anew: runs tests of files that it imports again for each run.
        temporary: the folder for files of the tests.
    """

    home: Path
    covering: Covering
    budget: float
    ready: subprocess.Popen[str]
    anew: subprocess.Popen[str]
    temporary: str

    @staticmethod
    def make(root: Path, home: Path, covering: Covering, budget: float) -> Workshop:
        """Copy the project, and start the processes that run its tests."""
        copy_project(root, home)
        temporary = temporary_folder()
        paths = os.pathsep.join([str(home), str(home / "tests")])
        environment = {**os.environ, **NO_JAVA, "PYTHONPATH": paths, "TMPDIR": temporary}
        collected = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "--tb=no",
            "-p",
            "scripts.mutants.ready",
            "-p",
            "no:cacheprovider",
            "--hypothesis-seed=0",
        ]
        collected += [
            "--continue-on-collection-errors",
            f"--basetemp={temporary}/ready",
            "-m",
            QUICK,
            *files_of_tests(home),
        ]
        ready = _started(collected, home, environment)
        said = (ready.stdout.readline() if ready.stdout else "") or "nothing"
        if not said.startswith("{"):
            raise RuntimeError(f"the tests of {home} could not be collected: {said}")
        anew = _started([sys.executable, str(home / "scripts" / "mutants" / "server.py")], home, environment)
        return Workshop(home, covering, budget, ready, anew, temporary)

    def run(self, candidate: Candidate, before: Iterable[str] = ()) -> Result:
        """Make the change, run the tests, take the change back. Tests that passed before are left out."""
        began = time.monotonic()
        known, passed = self.covering.of(candidate), set(before)
        tests = [name for name in known if self.covering.token(name) not in passed]
        passed &= {self.covering.token(name) for name in known}
        path = self.home / candidate.module
        original = path.read_text(encoding="utf-8")
        changed = mutated(original, candidate)
        outcome, by, ran = (SURVIVED if known else UNREACHED), "", len(passed)
        written = path.stat().st_mtime_ns
        path.write_text(changed, encoding="utf-8")
        os.utime(path, (next(_SECONDS),) * 2)  # compiled modules are known by second and size
        try:
            for chosen in self._rounds(tests):
                ran += len(chosen)
                outcome, by = self._round(candidate, original, changed, chosen)
                if outcome != SURVIVED:
                    break
                passed |= {self.covering.token(name) for name in chosen}
        finally:
            path.write_text(original, encoding="utf-8")
            os.utime(path, ns=(written, written))
        took = round(time.monotonic() - began, 1)
        about = (candidate.key, candidate.module, candidate.line, candidate.operator, candidate.text)
        return Result(*about, outcome, by, ran, len(known), took, self.budget, digest(original), sorted(passed))

    def _rounds(self, tests: Sequence[str]) -> list[list[str]]:
        """The most probable catchers first, then the other tests, file by file; a long test is run only if there are no others."""
        rounds: list[list[str]] = [[], []]
        spent = 0.0
        for name in tests:
            if spent + self.covering.seconds[name] > self.budget and any(rounds):
                continue
            spent += self.covering.seconds[name]
            rounds[spent > FIRST_S].append(name)
        return [_by_file(each) for each in rounds if each]

    def _round(self, candidate: Candidate, original: str, changed: str, chosen: list[str]) -> tuple[str, str]:
        """Run tests until one fails that passes without the change."""
        at_import = candidate.key in self.covering.at_import
        while chosen:
            outcome, by = ("anew", "") if at_import else self.asked(chosen, candidate.module, original, changed)
            if outcome == "anew":
                outcome, by = self._anew(chosen)
            if outcome == "passed":
                return SURVIVED, ""
            if "::" not in by or (said := self.asked([by])[0]) == "passed":
                return (STUCK if outcome == "stuck" else CAUGHT), by
            print(f"{by} does not count: without a change it is {said}", flush=True)
            chosen = [name for name in chosen if name != by]
        return SURVIVED, ""

    def asked(self, tests: list[str], module: str = "", code: str = "", changed: str = "") -> tuple[str, str]:
        """The outcome of a run of collected tests, and the test that failed."""
        limits = {name: PATIENCE_S + PATIENCE * self.covering.seconds[name] for name in tests}
        run = {"tests": tests, "limits": limits, "module": module, "code": code, "changed": changed}
        said = json.loads(_answer(self.ready, run))
        if said["outcome"] == "broken":
            raise RuntimeError(f"{tests[:3]} could not be run with a change of {module}")
        return said["outcome"], said["by"]

    def _anew(self, chosen: list[str]) -> tuple[str, str]:
        listed, output = self.home / ".chosen", self.home / ".output"
        listed.write_text("\n".join(chosen), encoding="utf-8")
        arguments = [
            "-x",
            "-q",
            "-rfE",
            "--tb=no",
            "-p",
            "no:cacheprovider",
            "--hypothesis-seed=0",
            f"--basetemp={self.temporary}/anew",
        ]
        arguments += ["-p", "scripts.mutants.chosen_tests", *dict.fromkeys(name.partition("::")[0] for name in chosen)]
        seconds = 2 * PATIENCE_S + PATIENCE * sum(self.covering.seconds[name] for name in chosen)
        environment = {"PYHUDI_CHOSEN_TESTS": str(listed)}
        status = _answer(
            self.anew, {"arguments": arguments, "environment": environment, "seconds": seconds, "output": str(output)}
        )
        said = output.read_text(encoding="utf-8", errors="replace")
        if status == NO_TESTS:
            raise RuntimeError(f"none of these tests was found: {chosen[:3]}\n{said[-2000:]}")
        failed = _FAILED.search(said)
        words = failed.group(1) if failed else f"exit status {status}"
        by = max(
            (name for name in chosen if words.startswith(name)),
            key=len,
            default=words.partition(" - ")[0].partition("::")[0],
        )
        return {"0": "passed", "stuck": "stuck"}.get(status, "failed"), by

    def close(self) -> None:
        """End the servers."""
        for server in (self.ready, self.anew):
            assert server.stdin is not None
            server.stdin.close()
            server.wait()
        shutil.rmtree(self.temporary, ignore_errors=True)


def digest(code: str) -> str:
    """A hash of a module's code: it changes with the code."""
    return hashlib.sha256(code.encode()).hexdigest()[:16]


def _started(command: list[str], home: Path, environment: dict[str, str]) -> subprocess.Popen[str]:
    with (home / ".said").open("ab") as said:
        return subprocess.Popen(
            command, cwd=home, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said, text=True
        )


def _answer(server: subprocess.Popen[str], run: dict[str, Any]) -> str:
    assert server.stdin is not None
    assert server.stdout is not None
    server.stdin.write(json.dumps(run) + "\n")
    server.stdin.flush()
    answer = server.stdout.readline().strip()
    if not answer:
        raise RuntimeError("a server of the tests has ended")
    return answer


def _by_file(tests: Iterable[str]) -> list[str]:
    """File by file, in the order of each file's first test, so that shared fixtures are made once."""
    files: dict[str, list[str]] = {}
    for name in tests:
        files.setdefault(name.partition("::")[0], []).append(name)
    return [name for names in files.values() for name in names]
