"""List old figures: measured more than 50 commits ago, counting only commits to the code that they depend on. `make check` runs it.

Old figures are a warning, because the commit that makes them old cannot measure them again. Figures of a promise (docs/benchmarks.md, "What is
promised"; the explored orders and crash points of docs/reliability.md) are an error after 300 commits. See docs/decisions/0029.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
OLD = 50
TOO_OLD = 300
NO_COMMIT, NO_DAY = "none", "unknown"
CORE = "pyhudi_core"
READ = tuple(
    f"{CORE}/{name}"
    for name in (
        "read",
        "merge",
        "formats",
        "metadata_table",
        "file_groups",
        "snapshot",
        "predicates",
        "engine",
        "storage",
    )
)
WRITE = tuple(
    f"{CORE}/{name}"
    for name in ("write", "index", "formats", "engine", "transaction", "conflicts", "timeline", "storage")
)
COMMIT = tuple(f"{CORE}/{name}" for name in ("write", "transaction", "conflicts", "timeline", "lock", "storage"))
ALL = (CORE, "pyhudi_dagster")
DEPENDS: dict[str, tuple[str, ...]] = {
    "benchmarks/results/upsert-*": WRITE,
    "benchmarks/results/load-*": WRITE,
    "benchmarks/results/spark_loads-*": WRITE,
    "benchmarks/results/large_upsert-*": WRITE,
    "benchmarks/results/local_peers": (*WRITE, *READ),
    "benchmarks/results/indexed_writes": (*WRITE, *READ),
    "benchmarks/results/indexed_peers": WRITE,
    "benchmarks/results/ingest": (*WRITE, *READ, f"{CORE}/services"),
    "benchmarks/results/delete-*": WRITE,
    "benchmarks/results/memory": (*WRITE, *READ),
    "benchmarks/results/many_groups": (*WRITE, *READ),
    "benchmarks/results/services": (*WRITE, *READ, f"{CORE}/services"),
    "benchmarks/results/locks": COMMIT,
    "benchmarks/results/*": READ,
    "docs/reliability/mutants": (*ALL, "tests"),
    "docs/reliability/*": (CORE,),
    "docs/nightly/*": (*ALL, "tests"),
}
"""The code that each file of figures depends on; the first matching pattern counts."""
PROMISED = (
    "benchmarks/results/upsert-1m", "benchmarks/results/snapshot_read-10m", "benchmarks/results/merge_on_read", "benchmarks/results/planning",
    "benchmarks/results/many_groups", "benchmarks/results/memory", "benchmarks/results/load-1m", "benchmarks/results/load-10m",
    "benchmarks/results/spark_loads-1m", "benchmarks/results/spark_loads-10m", "benchmarks/results/large_upsert-1m",
    "benchmarks/results/local_peers", "benchmarks/results/indexed_writes", "benchmarks/results/indexed_peers", "benchmarks/results/services",
    "benchmarks/results/ingest",
    "docs/reliability/crash_points", "docs/reliability/interleavings", "docs/reliability/eleven_rows", "docs/reliability/processes",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Figure:
    """Figures of one run.

    Attributes:
        name: the file, without its ending; or the part of the nightly run.
        commit, date: when they were measured.
        age: number of commits since then to the code that they depend on; None if unknown.
    """

    name: str
    commit: str
    date: str
    age: int | None

    @property
    def nameless(self) -> bool:
        """Whether their commit or their day is missing."""
        return self.commit == NO_COMMIT or self.date == NO_DAY

    @property
    def promised(self) -> bool:
        """Whether a promise depends on them."""
        return self.name in PROMISED

    def __str__(self) -> str:
        since = "of a commit and day that are not known" if self.age is None else f"{self.age} commits old"
        return f"{self.name} ({self.date}, commit {self.commit}): {since}"


def occasions(root: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every file of figures, with day and commit of its runs."""
    for folder in ("benchmarks/results", "docs/reliability"):
        for path in sorted((root / folder).glob("*.json")):
            kept = json.loads(path.read_text(encoding="utf-8"))
            entries = [entry["taken"] for entry in kept.values() if isinstance(entry, dict) and "taken" in entry]
            for taken in entries or [kept.get("taken", {})]:
                yield f"{folder}/{path.stem}", taken
    nightly = root / "docs" / "nightly.json"
    for name, run in json.loads(nightly.read_text(encoding="utf-8")).items() if nightly.exists() else ():
        yield f"docs/nightly/{name}", run


def figures(root: Path = ROOT) -> list[Figure]:
    """Every run with stored figures, and its age."""
    found = dict.fromkeys(
        (name, str(taken.get("commit", NO_COMMIT)), str(taken.get("date", NO_DAY))) for name, taken in occasions(root)
    )
    return [Figure(name, commit, date, _age(root, name, commit, date)) for name, commit, date in found]


def _age(root: Path, name: str, commit: str, date: str) -> int | None:
    paths = next(paths for pattern, paths in DEPENDS.items() if fnmatchcase(name, pattern))
    of = commit.split()[0]
    if of != NO_COMMIT and _git(root, "cat-file", "-e", f"{of}^{{commit}}") is not None:
        counted = _git(root, "rev-list", "--count", f"{of}..HEAD", "--", *paths)
    elif date != NO_DAY:  # the commit was rebased before it landed: its day tells
        counted = _git(root, "rev-list", "--count", f"--since={date}T23:59:59Z", "HEAD", "--", *paths)
    else:
        counted = None
    return int(counted) if counted else None


def _git(root: Path, *words: str) -> str | None:
    try:
        done = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return None
    return None if done.returncode else done.stdout.strip()


def judged(found: list[Figure]) -> tuple[list[Figure], list[Figure]]:
    """The figures to list, and those of them that fail: they do not say their commit and day, or are too old for a promise."""
    old = [one for one in found if one.age is None or one.age > OLD or one.nameless]
    return old, [one for one in old if one.nameless or (one.promised and (one.age is None or one.age > TOO_OLD))]


def main() -> int:
    """List old figures; the exit status is 1 if figures of a promise are too old, or any have no commit or no day."""
    if _git(ROOT, "rev-parse", "--is-shallow-repository") != "false":
        print("no history here: the ages of figures are not known")
        return 0
    old, failing = judged(figures())
    if old:
        print(
            f"WARNING: figures that are older than {OLD} commits in the code they depend on; `make nightly` takes them anew:"
        )
        for one in old:
            print(f"  {one}{'  (of a promise)' if one.promised else ''}")
    for one in failing:
        why = "no commit or no day" if one.nameless else f"too old for a promise ({TOO_OLD} commits)"
        print(f"ERROR: {why}: {one}")
    return int(bool(failing))


if __name__ == "__main__":
    sys.exit(main())
