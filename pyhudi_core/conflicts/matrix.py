"""The conflict table of the seventeen operations: one line for each pair, with its conflict conditions and its verdict on a conflict.

Specification, "Writer Expectations" 3 and "Table Service/Writer Concurrency". ``conflict.find_conflict`` looks up every pair here, and
docs/conflicts.md is generated from this table.

A line names the conditions under which the two operations conflict, and the verdict for the operation that commits later. This operation is planned
again (a write at once, from the new state; a table service when it is next scheduled) or aborted. The losing attempt is always aborted, as the
specification requires; the new plan saves the caller a manual retry. The note of a line explains a difference from the specification.

A change of columns (alter_schema, which is not in the specification) conflicts with every writer and plan, because readers find the columns of a file
by its requested time.

Invariant: every pair of operations has one line; a pair of equal operations has one verdict for both; an unknown operation always conflicts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from pyhudi_core.model.operation import OperationType
from pyhudi_core.model.printing import printable


class Verdict(StrEnum):
    """The verdict for the operation that commits later."""

    COMMUTES = "commutes"
    REPLAN = "replan"
    ABORT = "abort"


class Condition(StrEnum):
    """The conditions under which two operations conflict."""

    SAME_GROUP = "group"
    REWRITTEN_GROUP = "rewritten"
    SAME_KEY = "key"
    SAME_PARTITION = "partition"
    PLAN_OVERLAP = "plan"
    ALWAYS = "always"


MEANING: Mapping[Condition, str] = {
    Condition.SAME_GROUP: "both wrote or replaced the same file group",
    Condition.REWRITTEN_GROUP: "both changed the same file group, and the write created a new base file for it (not a log file)",
    Condition.SAME_KEY: "both inserted the same record key into one partition, or into the table if it has a record index",
    Condition.SAME_PARTITION: "the later operation replaces a complete partition to which the earlier one wrote",
    Condition.PLAN_OVERLAP: "the pending plan of one operation names file groups, slices or the instant of the other",
    Condition.ALWAYS: "they ran at the same time, whatever they changed",
}

NOTES: Mapping[str, str] = {
    "no_new_key": "Keys are not compared if one of the two operations adds no key: a key that both wrote is then in a shared file group, "
    "and the group condition detects it.",
    "replaced": "Added to the specification: otherwise rows that arrive in a partition after it was read for a "
    "replacement would survive the replacement.",
    "slices": "Writers do not yield to a planned compaction: version 8 assigns log files to slices by completion time, so rows logged during a "
    "compaction belong to the slice after it. Only a new base file for the same group conflicts.",
    "whole_groups": "Writers do not yield to a planned compaction: the write replaces the complete file groups, whichever base file they have.",
    "plan_first": "A pending plan counts like a completed clustering, because it was on the timeline first and its work would be lost; "
    "the strategy prefer_writer and hoodie.clustering.updates.strategy=allow reverse this.",
    "restored": "A restore aborts every service, because it removes the files that the service was planned from.",
    "undone": "An index build ends when its own instant is rolled back.",
    "one_index": "Two builds of one part of the metadata table would write it twice.",
    "columns": "Added to the specification: an index that is being built has the columns of the time when its build began.",
    "kept": "Cleaning yields to a savepoint: files of a savepoint must not be deleted, and a savepoint must not name files that a clean is deleting.",
}
"""Reasons why a line differs from the specification."""


@dataclass(frozen=True, slots=True)
@printable
class Line:
    """One pair. ``first_later`` is the verdict for ``first`` if it commits after ``second`` and one of the conditions holds."""

    first: OperationType
    second: OperationType
    first_later: Verdict
    second_later: Verdict
    conditions: tuple[Condition, ...]
    notes: tuple[str, ...] = ()

    @property
    def verdict(self) -> Verdict:
        """Return the stricter of the pair's two verdicts."""
        return max(self.first_later, self.second_later, key=list(Verdict).index)

    def of(self, later: OperationType) -> Verdict:
        """Return the verdict if this operation commits later."""
        return self.first_later if later is self.first else self.second_later

    @property
    def why(self) -> str:
        """Return the reason why the line differs from the specification; empty if it does not differ."""
        return " ".join(NOTES[note] for note in self.notes)

    def __str__(self) -> str:
        if not self.conditions:
            return f"{self.first.word} and {self.second.word} commute"
        when = " or ".join(MEANING[condition] for condition in self.conditions)
        if self.first_later is self.second_later:
            return f"{self.first.word} and {self.second.word}: {self.verdict} of the later one if {when}"
        fates = f"{self.first_later} of {self.first.word}, {self.second_later} of {self.second.word}"
        return f"{self.first.word} and {self.second.word}: {fates}, whichever is later, if {when}"


_TABLE = """
insert                 insert                 replan    replan    group + key               -
insert                 bulk_insert            replan    replan    group + key               -
insert                 upsert                 replan    replan    group + key               -
insert                 delete                 replan    replan    group                     no_new_key
insert                 insert_overwrite       replan    replan    group + key + partition   replaced
insert                 insert_overwrite_table replan    replan    group + key + partition   replaced
insert                 delete_partition       replan    replan    group + partition         no_new_key replaced
insert                 compact                replan    abort     rewritten                 slices
insert                 log_compact            replan    abort     rewritten                 slices
insert                 cluster                replan    abort     group + plan              plan_first
insert                 clean                  commutes  commutes  -                         -
insert                 archive                commutes  commutes  -                         -
insert                 index                  commutes  commutes  -                         -
insert                 rollback               abort     replan    plan                      -
insert                 savepoint              commutes  commutes  -                         -
insert                 restore                abort     replan    always                    -
insert                 alter_schema           replan    replan    always                    -
bulk_insert            bulk_insert            replan    replan    group + key               -
bulk_insert            upsert                 replan    replan    group + key               -
bulk_insert            delete                 replan    replan    group                     no_new_key
bulk_insert            insert_overwrite       replan    replan    group + key + partition   replaced
bulk_insert            insert_overwrite_table replan    replan    group + key + partition   replaced
bulk_insert            delete_partition       replan    replan    group + partition         no_new_key replaced
bulk_insert            compact                replan    abort     rewritten                 slices
bulk_insert            log_compact            replan    abort     rewritten                 slices
bulk_insert            cluster                replan    abort     group + plan              plan_first
bulk_insert            clean                  commutes  commutes  -                         -
bulk_insert            archive                commutes  commutes  -                         -
bulk_insert            index                  commutes  commutes  -                         -
bulk_insert            rollback               abort     replan    plan                      -
bulk_insert            savepoint              commutes  commutes  -                         -
bulk_insert            restore                abort     replan    always                    -
bulk_insert            alter_schema           replan    replan    always                    -
upsert                 upsert                 replan    replan    group + key               -
upsert                 delete                 replan    replan    group                     no_new_key
upsert                 insert_overwrite       replan    replan    group + key + partition   replaced
upsert                 insert_overwrite_table replan    replan    group + key + partition   replaced
upsert                 delete_partition       replan    replan    group + partition         no_new_key replaced
upsert                 compact                replan    abort     rewritten                 slices
upsert                 log_compact            replan    abort     rewritten                 slices
upsert                 cluster                replan    abort     group + plan              plan_first
upsert                 clean                  commutes  commutes  -                         -
upsert                 archive                commutes  commutes  -                         -
upsert                 index                  commutes  commutes  -                         -
upsert                 rollback               abort     replan    plan                      -
upsert                 savepoint              commutes  commutes  -                         -
upsert                 restore                abort     replan    always                    -
upsert                 alter_schema           replan    replan    always                    -
delete                 delete                 replan    replan    group                     no_new_key
delete                 insert_overwrite       replan    replan    group + partition         no_new_key replaced
delete                 insert_overwrite_table replan    replan    group + partition         no_new_key replaced
delete                 delete_partition       replan    replan    group + partition         no_new_key replaced
delete                 compact                replan    abort     rewritten                 slices
delete                 log_compact            replan    abort     rewritten                 slices
delete                 cluster                replan    abort     group + plan              plan_first
delete                 clean                  commutes  commutes  -                         -
delete                 archive                commutes  commutes  -                         -
delete                 index                  commutes  commutes  -                         -
delete                 rollback               abort     replan    plan                      -
delete                 savepoint              commutes  commutes  -                         -
delete                 restore                abort     replan    always                    -
delete                 alter_schema           replan    replan    always                    -
insert_overwrite       insert_overwrite       replan    replan    group + key + partition   replaced
insert_overwrite       insert_overwrite_table replan    replan    group + key + partition   replaced
insert_overwrite       delete_partition       replan    replan    group + partition         no_new_key replaced
insert_overwrite       compact                commutes  commutes  -                         whole_groups
insert_overwrite       log_compact            commutes  commutes  -                         whole_groups
insert_overwrite       cluster                replan    abort     group + partition + plan  plan_first replaced
insert_overwrite       clean                  commutes  commutes  -                         -
insert_overwrite       archive                commutes  commutes  -                         -
insert_overwrite       index                  commutes  commutes  -                         -
insert_overwrite       rollback               abort     replan    plan                      -
insert_overwrite       savepoint              commutes  commutes  -                         -
insert_overwrite       restore                abort     replan    always                    -
insert_overwrite       alter_schema           replan    replan    always                    -
insert_overwrite_table insert_overwrite_table replan    replan    group + key + partition   replaced
insert_overwrite_table delete_partition       replan    replan    group + partition         no_new_key replaced
insert_overwrite_table compact                commutes  commutes  -                         whole_groups
insert_overwrite_table log_compact            commutes  commutes  -                         whole_groups
insert_overwrite_table cluster                replan    abort     group + partition + plan  plan_first replaced
insert_overwrite_table clean                  commutes  commutes  -                         -
insert_overwrite_table archive                commutes  commutes  -                         -
insert_overwrite_table index                  commutes  commutes  -                         -
insert_overwrite_table rollback               abort     replan    plan                      -
insert_overwrite_table savepoint              commutes  commutes  -                         -
insert_overwrite_table restore                abort     replan    always                    -
insert_overwrite_table alter_schema           replan    replan    always                    -
delete_partition       delete_partition       replan    replan    group + partition         no_new_key replaced
delete_partition       compact                commutes  commutes  -                         whole_groups
delete_partition       log_compact            commutes  commutes  -                         whole_groups
delete_partition       cluster                replan    abort     group + partition + plan  plan_first replaced
delete_partition       clean                  commutes  commutes  -                         -
delete_partition       archive                commutes  commutes  -                         -
delete_partition       index                  commutes  commutes  -                         -
delete_partition       rollback               abort     replan    plan                      -
delete_partition       savepoint              commutes  commutes  -                         -
delete_partition       restore                abort     replan    always                    -
delete_partition       alter_schema           replan    replan    always                    -
compact                compact                abort     abort     plan                      -
compact                log_compact            abort     abort     plan                      -
compact                cluster                abort     abort     plan                      -
compact                clean                  commutes  commutes  -                         -
compact                archive                commutes  commutes  -                         -
compact                index                  commutes  commutes  -                         -
compact                rollback               abort     replan    plan                      -
compact                savepoint              commutes  commutes  -                         -
compact                restore                abort     replan    always                    -
compact                alter_schema           abort     replan    always                    -
log_compact            log_compact            abort     abort     plan                      -
log_compact            cluster                abort     abort     plan                      -
log_compact            clean                  commutes  commutes  -                         -
log_compact            archive                commutes  commutes  -                         -
log_compact            index                  commutes  commutes  -                         -
log_compact            rollback               abort     replan    plan                      -
log_compact            savepoint              commutes  commutes  -                         -
log_compact            restore                abort     replan    always                    -
log_compact            alter_schema           abort     replan    always                    -
cluster                cluster                abort     abort     plan                      -
cluster                clean                  commutes  commutes  -                         -
cluster                archive                commutes  commutes  -                         -
cluster                index                  commutes  commutes  -                         -
cluster                rollback               abort     replan    plan                      -
cluster                savepoint              commutes  commutes  -                         -
cluster                restore                abort     replan    always                    -
cluster                alter_schema           abort     replan    always                    -
clean                  clean                  commutes  commutes  -                         -
clean                  archive                commutes  commutes  -                         -
clean                  index                  commutes  commutes  -                         -
clean                  rollback               commutes  commutes  -                         -
clean                  savepoint              replan    replan    plan                      kept
clean                  restore                abort     replan    always                    restored
clean                  alter_schema           commutes  commutes  -                         -
archive                archive                replan    replan    always                    -
archive                index                  commutes  commutes  -                         -
archive                rollback               commutes  commutes  -                         -
archive                savepoint              commutes  commutes  -                         -
archive                restore                abort     replan    always                    -
archive                alter_schema           commutes  commutes  -                         -
index                  index                  abort     abort     plan                      one_index
index                  rollback               abort     replan    plan                      undone
index                  savepoint              commutes  commutes  -                         -
index                  restore                abort     replan    always                    restored
index                  alter_schema           abort     replan    always                    columns
rollback               rollback               replan    replan    plan                      -
rollback               savepoint              commutes  commutes  -                         -
rollback               restore                abort     replan    always                    -
rollback               alter_schema           replan    abort     plan                      -
savepoint              savepoint              commutes  commutes  -                         -
savepoint              restore                abort     replan    always                    -
savepoint              alter_schema           commutes  commutes  -                         -
restore                restore                abort     abort     always                    -
restore                alter_schema           replan    abort     always                    -
alter_schema           alter_schema           replan    replan    always                    -
"""
"""First operation, second operation, verdict if the first is later, verdict if the second is later, conditions, notes."""


def _parse(text: str) -> Line:
    first, second, one, other, *rest = text.split()
    codes = [word for word in rest if word not in ("+", "-")]
    conditions = tuple(Condition(word) for word in codes if word in Condition._value2member_map_)
    notes = tuple(word for word in codes if word in NOTES)
    return Line(OperationType.of(first), OperationType.of(second), Verdict(one), Verdict(other), conditions, notes)


MATRIX: tuple[Line, ...] = tuple(_parse(text) for text in _TABLE.strip().splitlines())

_BY_PAIR = {pair: line for line in MATRIX for pair in ((line.first, line.second), (line.second, line.first))}


def line_of(one: OperationType, other: OperationType) -> Line:
    """Return the line of a pair. An operation outside the seventeen conflicts with every operation; the later operation is planned again."""
    known = _BY_PAIR.get((one, other))
    return known or Line(one, other, Verdict.REPLAN, Verdict.REPLAN, (Condition.ALWAYS,))
