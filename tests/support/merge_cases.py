"""Cases of the merge law as data: which version of a row wins. Every code that merges is tested against them.

A story is the versions of one key in the order of their arrival. `left_of` says in plain words what the law is, one pair after the other.
"""

from __future__ import annotations

import datetime as dt
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa

from pyhudi_core.formats.log.contents import DeleteRecord
from pyhudi_core.model.meta_fields import IS_DELETED

NAN = math.nan
Ordering = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Kind:
    """Ordering columns of one type.

    Attributes:
        types: one type for each ordering column.
        ladder: steps of ordering values, the lowest first; the values of a step are equal.
        low, middle, high: steps for the stories, none of them null or 0.
        wrapper: the name under which a delete block holds such a value; empty if it cannot.
    """

    types: tuple[pa.DataType, ...]
    ladder: tuple[tuple[Ordering, ...], ...]
    low: int
    middle: int
    high: int
    wrapper: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the ordering columns."""
        return tuple(f"o{number}" for number in range(len(self.types)))

    @property
    def schema(self) -> pa.Schema:
        """The columns of a table: key, ordering columns, which version it is, and whether the row is deleted."""
        columns = zip(self.names, self.types, strict=True)
        return pa.schema([("id", pa.string()), *columns, ("version", pa.int64()), (IS_DELETED, pa.bool_())])

    def rank(self, ordering: Ordering) -> int:
        """The step of a value; by `repr`, so that -0.0 is not 0.0 and NaN is NaN."""
        return next(n for n, step in enumerate(self.ladder) if repr(ordering) in map(repr, step))

    def value(self, word: str) -> Ordering:
        """The ordering values for a word of a story."""
        if word == "none":
            return (None,) * len(self.types)
        return self.ladder[{"low": self.low, "middle": self.middle, "high": self.high}[word]][-1]


def _single(kind: pa.DataType, *steps: Any, at: tuple[int, int, int], wrapper: str = "") -> Kind:
    """One ordering column; a step is a value, or a list of equal values."""
    ladder = tuple(tuple((value,) for value in (step if isinstance(step, list) else [step])) for step in steps)
    return Kind((kind,), ladder, *at, wrapper)


def _day(number: int) -> dt.datetime:
    return dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(days=number)


KINDS: dict[str, Kind] = {
    "int": _single(pa.int32(), -2, -1, [None, 0], 1, 2, at=(1, 3, 4), wrapper="IntWrapper"),
    "long": _single(pa.int64(), None, -(2**40), -1, 0, 1, 2**62, at=(2, 4, 5), wrapper="LongWrapper"),
    "float": _single(pa.float32(), None, -math.inf, -1.5, -0.0, 0.0, 1.5, math.inf, NAN, at=(2, 5, 7)),
    "double": _single(
        pa.float64(), None, -math.inf, -1.5, -0.0, 0.0, 5e-324, math.inf, NAN, at=(2, 5, 7), wrapper="DoubleWrapper"
    ),
    "string": _single(pa.string(), None, "", "a", "b", "é", "\uffee", "\U0001f600", at=(2, 3, 6), wrapper="StringWrapper"),
    "date": _single(
        pa.date32(), None, dt.date(1969, 12, 30), dt.date(1970, 1, 1), dt.date(2024, 2, 29), at=(1, 2, 3), wrapper="DateWrapper"
    ),
    "timestamp": _single(pa.timestamp("us", "UTC"), None, _day(-1), _day(0), _day(20_000), at=(1, 2, 3)),
    "decimal": _single(
        pa.decimal128(10, 2), None, Decimal("-1.00"), Decimal("0.00"), Decimal("1.50"), Decimal("9.25"), at=(1, 3, 4)
    ),
    "bytes": _single(pa.binary(), None, b"", b"\x80", b"\xff", b"\x00", b"\x7f", b"\x7f\x80", at=(2, 4, 6)),
    "bool": _single(pa.bool_(), None, False, True, at=(1, 1, 2)),
    "two columns": Kind(
        (pa.int64(), pa.string()),
        tuple((pair,) for pair in [(None, None), (None, "a"), (-1, "b"), (1, None), (1, ""), (1, "a"), (2, None), (2, "a")]),
        2, 5, 7,
    ),
}  # fmt: skip

ROW, MARKED, LISTED, KEY = "row", "marked", "listed", "key"
"""A row; one that says it is deleted; a delete of a delete block with an ordering value; a delete of a key, which has none."""


@dataclass(frozen=True, slots=True)
class Version:
    """One version of a row: its kind and its ordering values."""

    what: str
    ordering: Ordering

    def outright(self, kind: Kind) -> bool:
        """Whether it is a delete without an ordering value."""
        if self.what == KEY:
            return True
        missing = all(value is None for value in self.ordering)
        return self.what == MARKED and (missing or (kind.types == (pa.int32(),) and self.ordering == (0,)))


Story = tuple[Version, ...]


@dataclass(frozen=True, slots=True)
class Case:
    """A story in words, and which version is left: the number of a version, or None if the row is gone.

    Attributes:
        name: what the case shows.
        words: the versions: what, and where its ordering value stands.
        logs: what is left where all versions are entries of logs, or rows of one batch.
        base: what is left where the first version is a stored row, and the others are entries of logs, or one batch.
        commits: what is left of a copy-on-write table that every version reaches in a commit of its own.
    """

    name: str
    words: tuple[str, ...]
    logs: int | None
    base: int | None
    commits: int | None

    def story(self, kind: Kind) -> Story:
        """The versions, with ordering values of this kind."""
        parts = (word.split() for word in self.words)
        return tuple(Version(what, kind.value(where)) for what, where in parts)


CASES = [
    Case("a higher value wins", ("row low", "row high"), 1, 1, 1),
    Case("a lower value loses", ("row high", "row low"), 0, 0, 0),
    Case("on equal values the newer version wins", ("row middle", "row middle"), 1, 1, 1),
    Case("of three versions the highest wins", ("row low", "row high", "row middle"), 1, 1, 1),
    Case("of three versions the last of the equal ones wins", ("row high", "row high", "row low"), 1, 1, 1),
    Case("null loses to a high value", ("row high", "row none"), 0, 0, 0),
    Case("a high value wins over null", ("row none", "row high"), 1, 1, 1),
    Case("null over null is a tie", ("row none", "row none"), 1, 1, 1),
    Case("a row that says it is deleted wins by a higher value", ("row low", "marked high"), None, None, None),
    Case("a row that says it is deleted wins on equal values", ("row middle", "marked middle"), None, None, None),
    Case("a late row that says it is deleted loses", ("row high", "marked low"), 0, 0, 0),
    Case("a row that says it is deleted wins if it has no value", ("row high", "marked none"), None, None, None),
    Case("a delete of a key wins", ("row high", "key none"), None, None, None),
    Case("a delete of a delete block wins by a higher value", ("row low", "listed high"), None, None, None),
    Case("a late delete of a delete block loses", ("row high", "listed low"), 0, 0, 0),
    Case("a late row loses to a delete that is still known", ("row low", "marked high", "row middle"), None, None, 2),
    Case("a delete without a value loses to every later row", ("row high", "marked none", "row low"), 2, 0, 2),
    Case("a delete of a key loses to every later row", ("row high", "key none", "row low"), 2, 0, 2),
    Case("after a late delete the row is as it was", ("row high", "marked low", "row middle"), 0, 0, 0),
    Case("a delete, then a higher row", ("row low", "marked middle", "row high"), 2, 2, 2),
    Case("a delete of a delete block does not replace a delete of a key", ("row high", "key none", "listed low"), None, None, None),
    Case("a marked row replaces a delete of a key, and may lose to the base row", ("row high", "key none", "marked low"), None, 0, None),
    Case("a deleted row is written again", ("row middle", "marked middle", "row middle"), 2, 2, 2),
]  # fmt: skip


def fits(case: Case, kind: Kind) -> bool:
    """Whether a type has values for the case: booleans do not have three steps, and a delete block cannot contain every value."""
    words = " ".join(case.words)
    return ("listed" not in words or bool(kind.wrapper)) and ("bool" not in str(kind.types[0]) or "middle" not in words)


def stories(kind: Kind, choose: Callable[[Case], bool] = lambda case: True) -> dict[str, tuple[Case, Story]]:
    """The cases that fit this type, by name."""
    return {case.name: (case, case.story(kind)) for case in CASES if fits(case, kind) and choose(case)}


def left_of(story: Sequence[Version], kind: Kind, *, start: int = 0) -> int | None:
    """The merge law in its simplest form, for versions in the order of arrival, none of them stored. Returns the number of the deciding version."""
    state = start
    for number in range(start + 1, len(story)):
        if newer_wins(story[number], story[state], kind):
            state = number
    return state


def newer_wins(newer: Version, older: Version, kind: Kind) -> bool:
    """The merge law in its simplest form, for one pair."""
    if newer.outright(kind):
        return True
    if older.outright(kind):
        return newer.what != LISTED
    return kind.rank(newer.ordering) >= kind.rank(older.ordering)


def left_in_logs(story: Story, kind: Kind) -> int | None:
    """The remaining version if all versions are log entries."""
    state = left_of(story, kind)
    return state if state is not None and story[state].what == ROW else None


def left_over_base(story: Story, kind: Kind) -> int | None:
    """The remaining version if the first version is a stored row; the other versions are merged with each other first."""
    if len(story) == 1:
        return 0
    state = left_of(story, kind, start=1)
    assert state is not None
    if not newer_wins(story[state], story[0], kind):
        return 0
    return state if story[state].what == ROW else None


def left_by_commits(story: Story, kind: Kind) -> int | None:
    """The remaining version if only rows are stored, and each version is merged with the stored row."""
    state: int | None = None
    for number, version in enumerate(story):
        if state is None or newer_wins(version, story[state], kind):
            state = number if version.what == ROW else None
    return state


def random_stories(kind: Kind, seed: int, count: int, whats: Sequence[str] = (ROW, ROW, MARKED)) -> dict[str, Story]:
    """Random stories that start with a row; the same seed gives the same stories, and values are often equal."""
    chance = random.Random(seed)
    values = [value for step in kind.ladder for value in step]
    made = {}
    for number in range(count):
        kinds = [ROW, *(chance.choice(whats) for _ in range(chance.randrange(4)))]
        made[f"key {number}"] = tuple(
            Version(what, kind.value("none") if what == KEY else chance.choice(values)) for what in kinds
        )
    return made


def delete_record(key: str, version: Version, kind: Kind) -> DeleteRecord:
    """The entry of a delete block; Hudi writes an int of 0 as the ordering value of a delete by key."""
    wrapper, value = ("IntWrapper", 0) if version.what == KEY else (kind.wrapper, version.ordering[0])
    return DeleteRecord(key, "", value, wrapper)


def rows_of(versions: Sequence[tuple[str, int, Version]], kind: Kind) -> pa.Table:
    """Rows of a table with key, number and version; deletes by key have no ordering values."""
    columns = [
        pa.array([key for key, _, _ in versions], pa.string()),
        *(
            pa.array([version.ordering[n] for _, _, version in versions], item)
            for n, item in enumerate(kind.types)
        ),
        pa.array([number for _, number, _ in versions], pa.int64()),
        pa.array([version.what == MARKED for _, _, version in versions], pa.bool_()),
    ]  # fmt: skip
    return pa.table(columns, schema=kind.schema)
