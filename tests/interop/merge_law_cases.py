"""Random versions of keys, in a few commits: what Hudi and this project are given alike.

A case is written by Hudi as a copy-on-write and as a merge-on-read table, and here as a copy-on-write table. Each commit holds up to three versions of a
key: rows, and rows that say they are deleted. `is_known` says over which versions a release is known to differ (docs/spec-deviations.md has why).
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from support.merge_cases import KEY, KINDS, MARKED, ROW, Kind, Version

Entry = tuple[str, int, Version]
KEYS = 1000


@dataclass(frozen=True, slots=True)
class LawCase:
    """One case.

    Attributes:
        kind: the ordering columns, by their name in `KINDS`.
        releases: of Hudi, which can write such tables.
        types: table types that these releases can write and read.
        plan: the commits: operation, and the share of keys that it deletes by key.
        mode: the merge mode.
        stored_nulls: the share of rows whose first version, from a bulk insert, has no ordering value.
    """

    kind: str
    releases: tuple[str, ...] = ("1.0.2", "1.2.0")
    types: tuple[str, ...] = ("COPY_ON_WRITE", "MERGE_ON_READ")
    plan: tuple[str, ...] = ("bulk_insert", "upsert", "upsert", "delete")
    mode: str = "EVENT_TIME_ORDERING"
    stored_nulls: float = 0.0

    @property
    def name(self) -> str:
        """The name of the case, and of its tables."""
        nulls = "_nulls" if self.stored_nulls else ""
        by = "_by_commits" if self.mode.startswith("COMMIT") else ""
        return f"{self.kind.replace(' ', '_')}{nulls}{by}{'_deletes_between' if 'delete' in self.plan[:-1] else ''}"

    def steps(self, seed: int = 7) -> list[tuple[str, list[Entry]]]:
        """The commits: operation, and versions. Versions are numbered through all commits."""
        chance = random.Random(f"{seed} {self.name}")
        kind = KINDS[self.kind]
        values = [value for step in kind.ladder for value in step if None not in value]
        steps: list[tuple[str, list[Entry]]] = []
        for commit, operation in enumerate(self.plan):
            entries = []
            for key in (f"k{number:05}" for number in range(KEYS)):
                for turn in range(_how_many(operation, chance)):
                    what = ROW if operation != "upsert" or chance.random() > 0.15 else MARKED
                    ordering = chance.choice(values)
                    if operation == "bulk_insert" and chance.random() < self.stored_nulls:
                        ordering = kind.value("none")
                    entries.append((key, commit * 10 + turn, Version(KEY if operation == "delete" else what, ordering)))
            steps.append((operation, sorted(entries, key=lambda entry: (entry[1], entry[0]))))
        return steps


def _how_many(operation: str, chance: random.Random) -> int:
    if operation == "upsert":
        return chance.choice([0, 0, 1, 1, 2, 3])
    return int(chance.random() < (0.8 if operation == "bulk_insert" else 0.15))


def is_known(release: str, table_type: str, kind: Kind, story: Sequence[Version]) -> bool:
    """Whether a release is known to merge these versions of a key in a way of its own."""
    if release != "1.0.2" or kind != KINDS["int"]:
        return False
    numbers = [version.ordering[0] for version in story]
    if table_type == "COPY_ON_WRITE":  # an int of 0 is a value of a deleted row, and null is the lowest value
        zero = any(version.what == MARKED and version.ordering == (0,) for version in story)
        return zero or (None in numbers and min(number or 0 for number in numbers) < 0)
    outright = [place for place, version in enumerate(story) if version.outright(kind)]
    return any((number or 0) < 0 for place in outright[:1] for number in numbers[place + 1 :])


BETWEEN = ("bulk_insert", "upsert", "delete", "upsert", "delete", "upsert")
NEW = ("1.2.0",)
QUICK = 2
"""How many of the cases are run where 1.0.2 is the only release that is asked."""
CASES = [
    # 1.0.2 cannot read logs in which a row follows a delete of a key, unless the ordering column is an int.
    LawCase("int", plan=BETWEEN),
    LawCase("double"),
    LawCase("long", mode="COMMIT_TIME_ORDERING"),
    LawCase("long"),
    LawCase("int", plan=("bulk_insert", "upsert", "upsert"), stored_nulls=0.4),
    LawCase("long", NEW, plan=BETWEEN),
    LawCase("float"),
    LawCase("string", NEW),
    LawCase("string", ("1.0.2",), ("COPY_ON_WRITE",)),
    LawCase("timestamp"),
    LawCase("date", ("1.0.2",), ("COPY_ON_WRITE",)),
    LawCase("decimal", ("1.0.2",), ("COPY_ON_WRITE",)),
    LawCase("decimal", NEW, ("MERGE_ON_READ",)),
    LawCase("bytes", types=("COPY_ON_WRITE",)),
    LawCase("two columns", NEW, plan=BETWEEN),
]
