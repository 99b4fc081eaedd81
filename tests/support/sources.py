"""The source files of the project, and what a rule says of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path

import pytest

from scripts.layers import Names

ROOT = Path(__file__).resolve().parents[2]
MODULES = sorted(
    path
    for package in ("pyhudi", "pyhudi_airflow", "pyhudi_core", "pyhudi_dagster")
    for path in (ROOT / package).rglob("*.py")
)
OUTSIDE_PACKAGES = {"storage", "lock", "runtime", "testing"}
"""The packages of the core that implement what the others are given."""
INSIDE = [
    path for path in MODULES
    if path.is_relative_to(ROOT / "pyhudi_core") and path.relative_to(ROOT / "pyhudi_core").parts[0] not in OUTSIDE_PACKAGES
]  # fmt: skip
TESTS = sorted((ROOT / "tests").rglob("*.py"))


def name(path: Path) -> str:
    """The path of a file, relative to the repository."""
    return path.relative_to(ROOT).as_posix()


@cache
def text(path: Path) -> str:
    """The content of a file."""
    return path.read_text(encoding="utf-8")


@cache
def names(path: Path) -> Names:
    """What the names of a module stand for."""
    module = ".".join(path.relative_to(ROOT).with_suffix("").parts) if path.is_relative_to(ROOT) else path.stem
    return Names(text(path), module)


def keep(rule: Callable[[Path], Iterable[str]], paths: Iterable[Path], advice: str) -> None:
    """Fail if a rule says anything of one of the files: name each file, what the rule says of it, and what to do."""
    checked = list(paths)
    assert len(checked) > 20, "these are not all the files"
    if broken := [f"{name(path)}: {said}" for path in checked for said in rule(path)]:
        pytest.fail("\n".join([*broken, advice]), pytrace=False)
