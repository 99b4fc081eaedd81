"""One mutant: the change is made in a copy of the project, and the tests that run its line are run there until one fails."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from scripts.mutants.candidates import Candidate, mutated
from scripts.mutants.covering import Covering

CAUGHT, STUCK, SURVIVED, UNREACHED = "caught", "stuck", "survived", "unreached"
NOTICED = (CAUGHT, STUCK)
FIRST_S = 4.0
"""Seconds (as measured under coverage) of the tests in the first round."""
NO_TESTS = "5"  # pytest's exit status
_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Result:
    """What became of a mutant.

    Attributes:
        key, module, line, operator, text: of the candidate.
        outcome: caught: a test failed; stuck: the tests did not end in time; survived: they passed; unreached: no quick test runs the line.
        by: the test that failed.
        ran, known: tests that were run, and tests that run the line.
        seconds: what it took.
        budget: of the workshop.
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

    def as_json(self) -> dict[str, Any]:
        """For a line of the file of results."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Workshop:
    """A copy of the project in which one mutant at a time is made.

    Attributes:
        home: folder of the copy.
        covering: which tests run which line.
        budget: seconds (as measured under coverage) of the tests of a mutant: the longest ones beyond that are not run.
        server: runs the tests (``server.py``).
    """

    home: Path
    covering: Covering
    budget: float
    server: subprocess.Popen[str]

    @staticmethod
    def make(root: Path, home: Path, covering: Covering, budget: float) -> Workshop:
        """Copies what git knows, and new files that it would take."""
        shutil.rmtree(home, ignore_errors=True)
        command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        for name in subprocess.check_output(command, cwd=root, text=True).split("\0"):
            if name and (root / name).is_file():
                (home / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(root / name, home / name)
        command = [sys.executable, str(home / "scripts" / "mutants" / "server.py")]
        server = subprocess.Popen(command, cwd=home, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        return Workshop(home, covering, budget, server)

    def run(self, candidate: Candidate) -> Result:
        """Makes the change, runs the tests, takes the change back."""
        began = time.monotonic()
        tests = self.covering.of(candidate)
        path = self.home / candidate.module
        original = path.read_text(encoding="utf-8")
        outcome, by, ran = (SURVIVED if tests else UNREACHED), "", 0
        path.write_text(mutated(original, candidate), encoding="utf-8")
        try:
            for chosen in self._rounds(tests):
                ran += len(chosen)
                outcome, by = self._tests(chosen)
                if outcome != SURVIVED:
                    break
        finally:
            path.write_text(original, encoding="utf-8")
            self._forget_compiled(path)
        took = round(time.monotonic() - began, 1)
        about = (candidate.key, candidate.module, candidate.line, candidate.operator, candidate.text)
        return Result(*about, outcome, by, ran, len(tests), took, self.budget)

    def _rounds(self, tests: Sequence[str]) -> list[list[str]]:
        """The quickest tests first, then the others; a long test is run if there are no others."""
        rounds: list[list[str]] = [[], []]
        spent = 0.0
        for name in tests:
            spent += self.covering.seconds[name]
            if spent > self.budget and any(rounds):
                break
            rounds[spent > FIRST_S].append(name)
        return [each for each in rounds if each]

    def _tests(self, chosen: list[str]) -> tuple[str, str]:
        listed = self.home / ".chosen"
        listed.write_text("\n".join(chosen), encoding="utf-8")
        output = self.home / ".output"
        arguments = [
            "-x",
            "-q",
            "-rfE",
            "--tb=no",
            "-p",
            "no:cacheprovider",
            "--hypothesis-seed=0",
            f"--basetemp={self.home / '.tmp'}",
        ]
        arguments += ["-p", "support.chosen_tests", *dict.fromkeys(name.partition("::")[0] for name in chosen)]
        paths = os.pathsep.join([str(self.home), str(self.home / "tests")])
        run = {
            "arguments": arguments,
            "environment": {"PYHUDI_CHOSEN_TESTS": str(listed), "PYTHONPATH": paths, "PYHUDI_RECORD": "0"},
            "seconds": 45 + 4 * sum(self.covering.seconds[name] for name in chosen),
            "output": str(output),
        }
        status = self._ask(run)
        if status == "stuck":  # a busy machine is slow, too
            status = self._ask({**run, "seconds": 3 * run["seconds"]})
        said = output.read_text(encoding="utf-8", errors="replace")
        if status == "stuck":
            return STUCK, ""
        if status == "0":
            return SURVIVED, ""
        if status == NO_TESTS:
            raise RuntimeError(f"none of these tests was found: {chosen[:3]}\n{said[-2000:]}")
        failed = _FAILED.search(said)
        return CAUGHT, failed.group(1) if failed else f"exit status {status}"

    def _ask(self, run: dict[str, Any]) -> str:
        assert self.server.stdin is not None
        assert self.server.stdout is not None
        self.server.stdin.write(json.dumps(run) + "\n")
        self.server.stdin.flush()
        answer = self.server.stdout.readline().strip()
        if not answer:
            raise RuntimeError(f"the server of {self.home} has ended")
        return answer

    def close(self) -> None:
        """Ends the server."""
        assert self.server.stdin is not None
        self.server.stdin.close()
        self.server.wait()

    @staticmethod
    def _forget_compiled(path: Path) -> None:
        """Compiled modules are known by second and size, and two versions of a file may share both."""
        for compiled in path.parent.glob(f"__pycache__/{path.stem}.*.pyc"):
            compiled.unlink()
