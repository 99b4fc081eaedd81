"""Write docs/conflicts.md from the conflict table: ``python scripts/conflict_table.py``; ``--check`` only says whether it is out of date."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from pyhudi_core.transaction.conflict_matrix import (  # noqa: E402
    MATRIX,
    MEANING,
    NOTES,
    OPERATIONS,
    Condition,
    Line,
    Operation,
    Verdict,
    line_of,
)

PAGE = ROOT / "docs" / "conflicts.md"
_LETTERS = {Verdict.COMMUTES: "·", Verdict.REPLAN: "R", Verdict.ABORT: "A"}

_HEAD = """\
# What may run at the same time

Written by `scripts/conflict_table.py` from `pyhudi_core/transaction/conflict_matrix.py`, which is the table that runs: `find_conflict` looks every
pair up there.

Two operations that overlap in time and meet one of their pair's conditions are in conflict. Whoever completes first stands. The later one is either
**planned anew**: a write at once, from the state that the other one left (`pyhudi.commit.retries` times, with a random pause), a table service
when it is scheduled next; or it is **given up** (abort): what it was planned from is not there any more. Everything else commutes. An operation
that is not one of the sixteen (a newer writer's, for example) conflicts with everything.

`table.explain_conflict(mine, theirs)` shows the line, the verdict and what two instants share; `write.would_commit()` asks beforehand.
"""


def render() -> str:
    """The page."""
    parts = [_HEAD, "## Conditions\n", *(f"- **{_name(c)}**: {MEANING[c]}" for c in Condition), ""]
    parts += [
        "## At a glance",
        "",
        "What becomes of the row's operation if it completes after the column's and a condition holds: `R` planned anew, `A` given up, `·` nothing.",
        "",
        *_overview(),
        "",
        "## Line by line",
        "",
        *_lines(),
        "",
    ]
    parts += ["## Where it departs from the specification, and why", ""]
    parts += [f"{number}. {NOTES[note]}" for number, note in enumerate(NOTES, 1)]
    parts += ["", *_STRATEGIES]
    return "\n".join(parts) + "\n"


_STRATEGIES = """\
## Strategies

`hoodie.write.lock.conflict.resolution.strategy` turns the table a little:

| word | Hudi's class | what changes |
|---|---|---|
| `simple` | `SimpleConcurrentFileWritesConflictResolutionStrategy` | nothing |
| `prefer_writer` | `PreferWriterConflictResolutionStrategy` | services also yield to running writes; writes yield to no pending plan |
| `bucket` | `BucketIndexConcurrentFileWritesConflictResolutionStrategy` | file ids with one bucket number in front (8 digits) are one file group |

A change of columns beside another write is refused under each of them (Hudi: `SimpleSchemaConflictResolutionStrategy`).
""".splitlines()


def _name(condition: Condition) -> str:
    return str(condition)


def _overview() -> list[str]:
    names = [str(operation).replace("_", " ") for operation in OPERATIONS]
    rows = ["| | " + " | ".join(names) + " |", "|---" * (len(names) + 1) + "|"]
    for operation, name in zip(OPERATIONS, names, strict=True):
        cells = (_LETTERS[line_of(operation, other).of(operation)] for other in OPERATIONS)
        rows.append(f"| **{name}** | " + " | ".join(cells) + " |")
    return rows


def _lines() -> list[str]:
    numbers = {note: number for number, note in enumerate(NOTES, 1)}
    rows = ["| pair | conditions | the later one | departs |", "|---|---|---|---|"]
    for line in MATRIX:
        conditions = ", ".join(_name(condition) for condition in line.conditions) or "-"
        notes = ", ".join(str(numbers[note]) for note in line.notes)
        rows.append(f"| {line.first}, {line.second} | {conditions} | {_fate(line)} | {notes} |")
    return rows


def _fate(line: Line) -> str:
    if line.first_later is line.second_later:
        return str(line.first_later)
    return f"{_of(line, line.first)}; {_of(line, line.second)}"


def _of(line: Line, operation: Operation) -> str:
    return f"{operation}: {line.of(operation)}"


def main() -> None:
    """Write the page, or with ``--check`` end with an error if it is not what the table says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing, fail if the page is out of date")
    text = render()
    if not parser.parse_args().check:
        PAGE.write_text(text, encoding="utf-8")
    elif not PAGE.exists() or PAGE.read_text(encoding="utf-8") != text:
        raise SystemExit("docs/conflicts.md is out of date; run scripts/conflict_table.py")


if __name__ == "__main__":
    main()
