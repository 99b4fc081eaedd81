"""Run the quick suite, as `make test` does: three processes at the same time, then what has to be alone.

    python scripts/quick_suite.py tests          everything
    python scripts/quick_suite.py tests/unit     a part; further words are pytest's

The processes share the files of tests between them (tests/conftest.py says what stays together). Tests marked `alone` measure wall time or the
disk; they run after the others, on the disk. The others have their temporary files in memory where the machine lets them: most of what they
wait for is the disk, and none of them is about it. The exit status is 1 if a test failed, or if there was none.
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
"""One more than CI has cores: tests wait for JVMs, for child processes and for locks."""
MEMORY = Path("/dev/shm")
ROOM = 3 << 30
"""Bytes that have to be free there: three times what the suite has needed."""
INTERRUPTED, NO_TESTS = 2, 5
"""What pytest ends with if somebody stopped it, and if it found no test."""
SIDE_BY_SIDE = ("-n", str(PROCESSES), "--dist", "loadscope", "--no-loadscope-reorder")


def main() -> int:
    started = time.monotonic()
    given = sys.argv[1:] or ["tests"]
    folder = temporary_folder()
    ended = [run(given, "not slow and not alone", SIDE_BY_SIDE, folder)]
    if ended[0] != INTERRUPTED:
        ended.append(run(given, "alone and not slow", (), None))
    failed = verdict(ended)
    print(f"quick suite: {'failed' if failed else 'passed'} after {(time.monotonic() - started) / 60:.1f} minutes")
    if folder is not None and failed:
        print(f"what failed tests have left is in {folder}, in memory: remove it when it has been looked at")
    elif folder is not None:
        shutil.rmtree(folder, ignore_errors=True)
    return failed


def verdict(ended: Sequence[int]) -> int:
    """The exit status for what the runs of pytest ended with: no test may fail, and there has to be one."""
    return int(any(code not in (0, NO_TESTS) for code in ended) or all(code == NO_TESTS for code in ended))


def run(given: list[str], which: str, how: tuple[str, ...], temporary: Path | None) -> int:
    """Run the tests of a marker expression; their output is shown as it comes."""
    command = [sys.executable, "-m", "pytest", *given, "-q", "-m", which, "--durations=10"]
    environment = {**os.environ} if temporary is None else {**os.environ, "TMPDIR": str(temporary)}
    return subprocess.run([*command, *how], cwd=ROOT, env=environment, check=False).returncode


def temporary_folder() -> Path | None:
    """A new folder in memory, or None where there is no such place, or too little of it."""
    if not MEMORY.is_dir() or not os.access(MEMORY, os.W_OK) or shutil.disk_usage(MEMORY).free < ROOM:
        return None
    return Path(tempfile.mkdtemp(prefix="pyhudi-tests-", dir=MEMORY))


if __name__ == "__main__":
    sys.exit(main())
