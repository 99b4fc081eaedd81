"""Run the quick suite, as `make test` does: three concurrent processes, then the tests that must run alone.

    python scripts/quick_suite.py tests          everything
    python scripts/quick_suite.py tests/unit     a part; further words are pytest's, and outweigh those of this script (`-n 2`)

The test files are distributed over the processes (tests/conftest.py says which tests stay together). Tests marked `alone` measure wall time or the
disk; they run after the others, with temporary files on the disk. The others have their temporary files in memory if the machine allows it, because
they would mostly wait for the disk and do not test it. The exit status is 1 if a test failed, or if no test was found.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROCESSES = 3
"""One more than the cores in CI, because tests wait for JVMs, child processes and locks."""
MEMORY = Path("/dev/shm")
ROOM = 3 << 30
"""Bytes that must be free in memory: three times what the suite has used."""
ALONE = "mark.alone"
INTERRUPTED, NO_TESTS = 2, 5
"""Exit codes of pytest if it was interrupted, and if it found no test."""
SHORT_JVMS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Spark sessions of tests end before the better compiler has paid for itself: a start takes 5.5 instead of 11.5 s of processor time."""
SPARK = {"SPARK_SUBMIT_OPTS": SHORT_JVMS, "SPARK_LAUNCHER_OPTS": SHORT_JVMS}
SIDE_BY_SIDE = ("-n", str(PROCESSES), "--dist", "loadscope", "--no-loadscope-reorder")
IN_THIS_PROCESS = ("-n", "0")


def main() -> int:
    started = time.monotonic()
    given = sys.argv[1:] or ["tests"]
    folder = temporary_folder()
    # Old releases of pytest-xdist do not know the last word, which goes with loadscope alone.
    words = given if "--dist" in given else [*SIDE_BY_SIDE, *given]
    ended = [run(words, "not slow and not alone", folder)]
    if ended[0] != INTERRUPTED:
        left = with_tests_alone(given)
        ended.append(run([*left, *IN_THIS_PROCESS], "alone and not slow", None) if left else NO_TESTS)
    failed = verdict(ended)
    print(f"quick suite: {'failed' if failed else 'passed'} after {(time.monotonic() - started) / 60:.1f} minutes")
    if folder is not None and failed:
        print(f"the files of failed tests are in {folder}, in memory: remove the folder after you have looked at it")
    elif folder is not None:
        shutil.rmtree(folder, ignore_errors=True)
    return failed


def verdict(ended: Sequence[int]) -> int:
    """The exit status for these exit codes of pytest: 0 if no test failed and at least one ran."""
    return int(any(code not in (0, NO_TESTS) for code in ended) or all(code == NO_TESTS for code in ended))


def with_tests_alone(given: Sequence[str]) -> list[str]:
    """The given words, with folders narrowed to their files that have a test marked `alone`; empty if none has. To collect all files takes long."""
    folders = [word for word in given if Path(word).is_dir()]
    found = [
        str(path) for word in folders for path in sorted(Path(word).rglob("test_*.py")) if ALONE in path.read_text()
    ]
    others = [word for word in given if word not in folders]
    return [*found, *others] if found or not folders else []


def run(words: Sequence[str], which: str, temporary: Path | None) -> int:
    """Run the tests of a marker expression; their output is shown while they run."""
    command = [sys.executable, "-m", "pytest", "-q", "--durations=10", *words, "-m", which]
    environment = {**SPARK, **os.environ, **({} if temporary is None else {"TMPDIR": str(temporary)})}
    return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode


def temporary_folder() -> Path | None:
    """A new folder in memory; None if the machine has no file system in memory, or not enough free memory."""
    if not MEMORY.is_dir() or not os.access(MEMORY, os.W_OK) or shutil.disk_usage(MEMORY).free < ROOM:
        return None
    return Path(tempfile.mkdtemp(prefix="pyhudi-tests-", dir=MEMORY))


if __name__ == "__main__":
    sys.exit(main())
