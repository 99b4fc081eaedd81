"""The explanation why two instants commute or conflict, as a printable value. Pure. ``table.explain_conflict`` returns one for any two instants; a
dry run and `CommitConflictError` have one, too.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyhudi_core.conflicts.conflict import Conflict, ConflictKind, Group, Touched
from pyhudi_core.conflicts.matrix import Line, Verdict, line_of
from pyhudi_core.model.operation import OperationType
from pyhudi_core.model.printing import printable

_MOST = 20
_PRINTED = 5

_ADVICE = {
    Verdict.COMMUTES: "Nothing: both may commit, in either order.",
    Verdict.REPLAN: "Write again, based on the state after the other commit. "
    "The write methods of a table do this automatically, up to pyhudi.commit.retries times.",
    Verdict.ABORT: "Give this write up: it is based on files that no longer exist. Read the table again, and begin a new write.",
}


@dataclass(frozen=True, slots=True)
@printable
class Side:
    """One of the two instants: when it was requested, what it does, and what it changed. ``completion_time`` is None while it is pending."""

    requested_time: str
    operation: OperationType
    touched: Touched
    completion_time: str | None = None

    def __str__(self) -> str:
        state = f"completed {self.completion_time}" if self.completion_time else "pending"
        return f"{self.operation.word} {self.requested_time} ({state})"


@dataclass(frozen=True, slots=True)
@printable
class ConflictExplanation:
    """The verdict on two instants. True as a condition if both can be committed.

    Attributes:
        mine, theirs: the two instants. The verdict is for ``mine``, which commits later.
        verdict: commutes, replan or abort.
        line: the line of the conflict table for their operations.
        at_one_time: whether they ran at the same time; if not, they cannot be in conflict.
        kind: the kind of the conflict; None if they commute.
        shared_groups, shared_partitions, shared_keys: what both changed, at most 20 of each, even if it is no conflict; keys as (partition, key).
        why: the reason.
        what_to_do: the advice.
    """

    mine: Side
    theirs: Side
    verdict: Verdict
    line: Line
    at_one_time: bool
    kind: ConflictKind | None
    shared_groups: tuple[Group, ...]
    shared_partitions: tuple[str, ...]
    shared_keys: tuple[tuple[str, str], ...]
    why: str
    what_to_do: str

    def __bool__(self) -> bool:
        return self.verdict is Verdict.COMMUTES

    def _shown(self) -> dict[str, str]:
        departs = {"departs": self.line.why} if self.line.why else {}
        return {
            "mine": str(self.mine),
            "theirs": str(self.theirs),
            "verdict": str(self.verdict),
            "why": self.why,
            "rule": str(self.line),
            **departs,
            "file groups": _listed([f"{partition}/{file_id}" for partition, file_id in self.shared_groups]),
            "partitions": _listed(self.shared_partitions),
            "keys": _listed([f"{key} in {partition!r}" for partition, key in self.shared_keys]),
            "to do": self.what_to_do,
        }

    def __str__(self) -> str:
        return "ConflictExplanation\n" + "\n".join(f"  {name:12}{value}" for name, value in self._shown().items())

    def __repr__(self) -> str:
        return f"ConflictExplanation: {self.verdict}, {self.why}"


def _listed(names: tuple[str, ...] | list[str]) -> str:
    shown = ", ".join(names[:_PRINTED]) + (f" and {len(names) - _PRINTED} more" if len(names) > _PRINTED else "")
    return shown or "none in common"


def explained(mine: Side, theirs: Side, conflict: Conflict | None, *, at_one_time: bool = True) -> ConflictExplanation:
    """Return the explanation of a comparison. ``conflict`` is the conflict between the two, if any."""
    groups = frozenset(conflict.file_groups) if conflict else mine.touched.file_groups & theirs.touched.file_groups
    partitions = frozenset(conflict.partitions) if conflict else frozenset()
    partitions |= mine.touched.partitions & theirs.touched.partitions
    line = conflict.line if conflict and conflict.line else line_of(mine.operation, theirs.operation)
    verdict = conflict.verdict if conflict else Verdict.COMMUTES
    return ConflictExplanation(
        mine,
        theirs,
        verdict,
        line,
        at_one_time,
        conflict.kind if conflict else None,
        tuple(sorted(groups))[:_MOST],
        tuple(sorted(partitions))[:_MOST],
        conflict.keys[:_MOST] if conflict else (),
        _reason(conflict, at_one_time),
        _ADVICE[verdict],
    )


def _reason(conflict: Conflict | None, at_one_time: bool) -> str:
    if conflict is not None:
        return conflict.describe()
    if not at_one_time:
        return "one had completed before the other one began"
    return "nothing that they touched stands in the way"


def of_conflict(own: str, mine: Touched, conflict: Conflict) -> ConflictExplanation:
    """Return the explanation of the conflict of a commit. It has only the facts of the conflict about the other commit."""
    groups = frozenset(conflict.file_groups)
    other = Touched(groups, frozenset(conflict.partitions), frozenset(), conflict.operation)
    theirs = Side(conflict.instant.requested_time, conflict.operation, other, conflict.instant.completion_time)
    return explained(Side(own, mine.operation, mine), theirs, conflict)
