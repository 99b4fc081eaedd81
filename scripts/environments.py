"""Test in other environments than ``.venv``: ``python scripts/environments.py oldest|newest|python3.12|airflow-oldest ...``.

``oldest`` has the oldest release of everything that ``pyproject.toml`` allows, ``newest`` the newest; ``python3.12`` and ``python3.13`` have the
versions of ``requirements.lock`` on another Python; ``airflow-oldest`` and ``airflow-newest`` have Airflow and run its tests alone, because old
releases of Airflow and of Dagster do not fit together. Packages that ``pyproject.toml`` does not name have the lock's versions, except in ``newest``.
Each environment is ``.cache/venv-KIND``, and stays until ``pyproject.toml`` or the lock changes (``newest``: for a day). ``--only-make`` runs no
tests.

A Python that is neither on the machine nor to be had is skipped, and the last line says so.
"""

import hashlib
import re
import subprocess
import sys
import time
import tomllib
from pathlib import Path

from install import ROOT, find_python, find_uv, run, works

DAY = 24 * 3600
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
AIRFLOW_EXTRAS = ("airflow", "s3", "testing")
EXTRAS = sorted(PROJECT["optional-dependencies"].keys() - {"airflow", "bench", "demo", "dev", "docs"})
"""What users install, without Airflow."""
WITH_TESTS = ("dagster-pyspark", "duckdb", "moto", "polars", "pytest-timeout", "pytest-xdist")
WITH_AIRFLOW_TESTS = ("apache-airflow-providers-openlineage", "moto", "pytest-timeout", "pytest-xdist")
"""What tests need from the extra ``dev``; the other packages of it are tools."""
TESTS = (
    "tests/hostile/test_bad_batches.py",
    "tests/unit/test_first_mistakes.py",
    "tests/unit/test_mistakes.py",
    "tests/unit/test_integer_columns.py",
    "tests/unit/test_table_operations.py",
    "tests/unit/engine/test_pandas_frames.py",
    "tests/unit/model/test_schema.py",
    "tests/unit/read/test_polars_source.py",
    "tests/unit/read/test_scan_for_others.py",
    "tests/unit/statements/test_changes_and_definitions.py",
    "tests/unit/statements/test_queries.py",
    "tests/dagster/test_dagster_contract.py",
    "tests/dagster/test_guide.py",
    "tests/dagster/test_io_manager.py",
    "tests/dagster/test_loading.py",
    "tests/dagster/test_polars.py",
)
AIRFLOW_TESTS = ("tests/airflow",)


def direct():
    """The requirements of ``pyproject.toml``, as lines."""
    extras = PROJECT["optional-dependencies"]
    return [*PROJECT["dependencies"], *(line for lines in extras.values() for line in lines)]


def name_of(line):
    return re.match(r"[A-Za-z0-9._-]*", line).group().lower()


def lock():
    """The pins of ``requirements.lock``, as lines without hashes."""
    lines = (ROOT / "requirements.lock").read_text().splitlines()
    return [line.rstrip(" \\") for line in lines if re.match(r"[a-z0-9][a-z0-9._-]*==", line)]


def python_for(version, uv):
    """A Python of this version: one that uv finds or fetches, or one of pyenv; None if there is none."""
    for command in (["find", version], ["install", version]):
        if works([*uv, "python", *command]):
            return version
    found = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    return found[-1] if found and works([found[-1], "--version"]) else None


def of_airflow(kind):
    return kind.startswith("airflow")


def make(kind, uv):
    """The folder of the environment; None without its Python."""
    folder = ROOT / ".cache" / f"venv-{kind}"
    digest = hashlib.sha256(Path(__file__).read_bytes())
    for name in ("pyproject.toml", "requirements.lock"):
        digest.update((ROOT / name).read_bytes())
    digest.update(str(time.time() // DAY if kind.endswith("newest") else "").encode())
    stamp = folder / ".digest"
    if stamp.exists() and stamp.read_text() == digest.hexdigest():
        return folder
    version = kind.removeprefix("python") if kind.startswith("python") else None
    python = python_for(version, uv) if version else find_python()
    if python is None:
        return None
    run(*uv, "venv", "--quiet", "--clear", "--python", python, folder)
    named = {name_of(line) for line in direct()} if kind.endswith("oldest") else set()
    pins, wanted = folder / "requirements.txt", folder / "tests.in"
    pins.write_text(
        "" if kind.endswith("newest") else "\n".join(pin for pin in lock() if name_of(pin) not in named) + "\n"
    )
    needed = WITH_AIRFLOW_TESTS if of_airflow(kind) else WITH_TESTS
    wanted.write_text("\n".join(line for line in direct() if name_of(line) in needed) + "\n")
    extras = [part for extra in (AIRFLOW_EXTRAS if of_airflow(kind) else EXTRAS) for part in ("--extra", extra)]
    resolution = "lowest-direct" if kind.endswith("oldest") else "highest"
    binary = folder / "bin" / "python"
    run(
        *(
            *uv,
            "pip",
            "compile",
            "--quiet",
            "--python",
            binary,
            "--resolution",
            resolution,
            "--no-header",
            "--no-annotate",
        ),
        *(
            *extras,
            "--output-file",
            pins,
            "pyproject.toml",
            wanted,
        ),  # pins that the output file has are kept where they fit
    )
    install = [*uv, "pip", "install", "--quiet", "--python", binary]
    run(*install, "--requirement", pins)
    run(*install, "--no-deps", "--editable", ".")
    stamp.write_text(digest.hexdigest())
    return folder


def tried(kind, uv):
    """Whether the tests of the environment pass, and what to say of it."""
    folder = make(kind, uv)
    if folder is None:
        return True, f"{kind}: skipped, no such Python is on this machine, and uv could not fetch one"
    if "--only-make" in sys.argv:
        return True, f"{kind}: {folder}"
    began = time.monotonic()
    command = [folder / "bin" / "python", "-m", "pytest", "-q", "-n", "2", "-m", "not slow and not spark"]
    command += AIRFLOW_TESTS if of_airflow(kind) else TESTS
    ended = subprocess.run(command, cwd=ROOT, check=False)
    return ended.returncode == 0, f"{kind}: exit {ended.returncode}, {time.monotonic() - began:.0f} s"


def main():
    uv = find_uv()
    outcomes = [tried(kind, uv) for kind in sys.argv[1:] if not kind.startswith("-")]
    print(*(said for _, said in outcomes), sep="\n")
    return not all(passed for passed, _ in outcomes)


if __name__ == "__main__":
    sys.exit(main())
