"""The text of docs/conflicts.md, from the conflict table; ``python scripts/generate_docs.py`` writes it."""

from __future__ import annotations

from pyhudi_core.conflicts.matrix import (
    MATRIX,
    MEANING,
    NOTES,
    Condition,
    Line,
    Verdict,
    line_of,
)
from pyhudi_core.model.operation import OPERATIONS, OperationType

_LETTERS = {Verdict.COMMUTES: "·", Verdict.REPLAN: "R", Verdict.ABORT: "A"}

_HEAD = """\
# Which operations may run at the same time

Written by `scripts/generate_docs.py` from `pyhudi_core/conflicts/matrix.py`; `find_conflict` uses the same table.

Two operations conflict if they overlap in time and one of their pair's conditions holds. The operation that completes first succeeds. The later
operation is either **planned again** (replan) or **aborted** (abort). A write is planned again at once, from the new state (up to
`pyhudi.commit.retries` times, with a random pause); a table service is planned again when it is scheduled next. An operation is aborted if the
files that it was planned from no longer exist. All other operations commute. An operation that is not one of the seventeen operations
below (for example an operation of a newer writer) conflicts with every operation.

`table.explain_conflict(mine, theirs)` shows the line, the verdict and the shared file groups or keys of two instants. `write.would_commit()` runs
the check before the commit.
"""


def render() -> str:
    """The page."""
    parts = [_HEAD, "## Conditions\n", *(f"- **{_name(c)}**: {MEANING[c]}" for c in Condition), ""]
    parts += [
        "## At a glance",
        "",
        "The verdict for the operation of the row if it completes after the operation of the column and a condition holds: `R` planned again,",
        "`A` aborted, `·` no conflict.",
        "",
        *_overview(),
        "",
        "## Line by line",
        "",
        *_lines(),
        "",
    ]
    parts += ["## Notes: differences from the specification", ""]
    parts += [f"{number}. {NOTES[note]}" for number, note in enumerate(NOTES, 1)]
    parts += ["", *_STRATEGIES]
    return "\n".join(parts) + "\n"


_STRATEGIES = """\
## Non-blocking concurrency control

With `hoodie.write.concurrency.mode=NON_BLOCKING_CONCURRENCY_CONTROL` ([writing.md](writing.md#non-blocking-concurrency-control)) one condition is
weaker for a later upsert or delete: **group** does not hold for a file group to which both have only appended logs, because readers merge these rows
by event time. All other lines stay:

| the later operation | conflicts with an earlier one of the same file group |
|---|---|
| upsert, delete | insert overwrite, insert overwrite table, delete partition, cluster, and any write that made a base file for it |
| upsert, delete whose rows were read from the table (`write.scan`, `delete(where=)`) | all, as above |
| insert, bulk insert | all, as above: their keys must be new |
| insert overwrite, insert overwrite table, delete partition | all, as above: the rows of the earlier write would be lost |

Two writes with different numbers of buckets always conflict, in each mode: the same key would have two file groups.

## Strategies

`hoodie.write.lock.conflict.resolution.strategy` changes some of these rules:

| value | Hudi's class | change |
|---|---|---|
| `simple` | `SimpleConcurrentFileWritesConflictResolutionStrategy` | none |
| `prefer_writer` | `PreferWriterConflictResolutionStrategy` | services also yield to running writes; writes do not yield to pending plans |
| `bucket` | `BucketIndexConcurrentFileWritesConflictResolutionStrategy` | file ids with the same 8-digit bucket number count as one group |

Every strategy refuses a change of columns during another write (Hudi: `SimpleSchemaConflictResolutionStrategy`).

Each strategy here compares with every commit that completed after the write read the timeline, and with every commit of a later requested time.
Hudi's default strategy does not, so a Hudi writer of the same table needs [another one](spec-deviations.md#hudis-default-conflict-strategy).
""".splitlines()


def _name(condition: Condition) -> str:
    return str(condition)


def _overview() -> list[str]:
    names = [operation.word.replace("_", " ") for operation in OPERATIONS]
    rows = ["| | " + " | ".join(names) + " |", "|---" * (len(names) + 1) + "|"]
    for operation, name in zip(OPERATIONS, names, strict=True):
        cells = (_LETTERS[line_of(operation, other).of(operation)] for other in OPERATIONS)
        rows.append(f"| **{name}** | " + " | ".join(cells) + " |")
    return rows


def _lines() -> list[str]:
    numbers = {note: number for number, note in enumerate(NOTES, 1)}
    rows = ["| pair | conditions | the later operation | note |", "|---|---|---|---|"]
    for line in MATRIX:
        conditions = ", ".join(_name(condition) for condition in line.conditions) or "-"
        notes = ", ".join(str(numbers[note]) for note in line.notes)
        rows.append(f"| {line.first.word}, {line.second.word} | {conditions} | {_fate(line)} | {notes} |")
    return rows


def _fate(line: Line) -> str:
    if line.first_later is line.second_later:
        return str(line.first_later)
    return f"{_of(line, line.first)}; {_of(line, line.second)}"


def _of(line: Line, operation: OperationType) -> str:
    return f"{operation.word}: {line.of(operation)}"
