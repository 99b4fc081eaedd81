"""Check the code: ``make check``. Silent, with exit status 0, if nothing is wrong; else the output of each check that failed.

Two checks run at a time, the longest first. No verdict depends on the day, on the git history, or on the age of anything.
"""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PYTHON = sys.executable
TYPED = ("pyhudi", "pyhudi_airflow", "pyhudi_core", "pyhudi_dagster", "definitions.py", "benchmarks")
HOUSE_RULES = (
    "-q",
    "--no-header",
    "--tb=short",
    "-rN",
    "-n",
    "0",
    "-p",
    "no:cacheprovider",
    "-m",
    "not slow and not sample",
    "tests/style",
)

CHECKS: dict[str, tuple[str, ...]] = {
    "types (mypy)": (PYTHON, "-m", "mypy", "--no-error-summary", "--strict", *TYPED),
    "slow tests that no target runs": (PYTHON, "scripts/nightly_reach.py"),
    "links of the site, and the API (mkdocs)": (PYTHON, "-m", "mkdocs", "build", "--strict"),
    "house rules, links and generated pages (tests/style)": (PYTHON, "-m", "pytest", *HOUSE_RULES),
    "layers (import-linter)": (PYTHON, "scripts/layers.py"),
    "lint (ruff); make format mends some": (PYTHON, "-m", "ruff", "check", "--quiet", "--output-format=concise", "."),
    "format (ruff); make format mends it": (
        PYTHON,
        "-m",
        "ruff",
        "format",
        "--check",
        "--quiet",
        "--output-format=concise",
        ".",
    ),
}


def failure(name: str) -> str:
    """What a check prints, under its name; empty if it passed."""
    done = subprocess.run(
        CHECKS[name], cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1", "COLUMNS": "160"},
    )  # fmt: skip
    return f"=== {name}\n{done.stdout.strip()}\n" if done.returncode else ""


def main() -> int:
    """Run all checks, and print what failed in the order of the list; the exit status is 1 if one did."""
    with ThreadPoolExecutor(2) as pool:
        failed = [said for said in pool.map(failure, CHECKS) if said]
    print("\n".join(failed), end="")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
