"""Which of the sixteen operations may run concurrently: one line for each pair, with its conflict conditions and its verdict on a conflict.

Specification, "Writer Expectations" 3 and "Table Service/Writer Concurrency". ``conflict.find_conflict`` looks up every pair here, and
docs/conflicts.md is generated from this table.

A line names the conditions under which the two operations conflict, and the verdict for the operation that commits later. It is planned again
(a write at once, from the new state; a table service when it is scheduled next) or aborted. A losing attempt is always aborted, as the
specification requires; planning again saves the caller a manual retry. The note of a line explains a difference from the specification.

Invariant: every pair of operations has one line; a pair of equal operations has one verdict for both; an unknown operation always conflicts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Operation(StrEnum):
    """The operation of an instant, as far as it matters for conflicts with other instants."""

    INSERT = "insert"
    BULK_INSERT = "bulk_insert"
    UPSERT = "upsert"
    DELETE = "delete"
    INSERT_OVERWRITE = "insert_overwrite"
    INSERT_OVERWRITE_TABLE = "insert_overwrite_table"
    DELETE_PARTITIONS = "delete_partitions"
    COMPACTION = "compaction"
    LOG_COMPACTION = "log_compaction"
    CLUSTERING = "clustering"
    CLEAN = "clean"
    ARCHIVAL = "archival"
    INDEXING = "indexing"
    ROLLBACK = "rollback"
    SAVEPOINT = "savepoint"
    RESTORE = "restore"
    UNKNOWN = "unknown"
    """Any other operation, for example one of a newer writer."""

    @property
    def is_writer(self) -> bool:
        """Whether it changes rows; the others are table services."""
        return self in WRITERS


OPERATIONS = tuple(operation for operation in Operation if operation is not Operation.UNKNOWN)
WRITERS = frozenset(OPERATIONS[:7])

_WORDS = {
    **{operation.value: operation for operation in OPERATIONS},
    "delete_partition": Operation.DELETE_PARTITIONS,
    "insert_prepped": Operation.INSERT,
    "upsert_prepped": Operation.UPSERT,
    "bulk_insert_prepped": Operation.BULK_INSERT,
    "delete_prepped": Operation.DELETE,
    "compact": Operation.COMPACTION,
    "log_compact": Operation.LOG_COMPACTION,
    "logcompaction": Operation.LOG_COMPACTION,
    "cluster": Operation.CLUSTERING,
    "index": Operation.INDEXING,
}


def operation_of(word: str | None) -> Operation:
    """The operation for a commit's ``operationType``, an action of the timeline or a word of the public API."""
    return _WORDS.get((word or "").lower(), Operation.UNKNOWN)


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
    Condition.SAME_KEY: "both inserted the same record key into one partition",
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
    "the strategy prefer_writer reverses this.",
    "restored": "A restore aborts every service, because it removes the files that the service was planned from.",
    "undone": "An index build ends when its own instant is rolled back.",
    "one_index": "Two builds of one part of the metadata table would write it twice.",
    "kept": "Cleaning yields to a savepoint: files of a savepoint must not be deleted, and a savepoint must not name files that a clean is deleting.",
}
"""Why a line departs from the specification."""


@dataclass(frozen=True, slots=True)
class Line:
    """One pair. ``first_later`` is the verdict for ``first`` if it commits after ``second`` and one of the conditions holds."""

    first: Operation
    second: Operation
    first_later: Verdict
    second_later: Verdict
    conditions: tuple[Condition, ...]
    notes: tuple[str, ...] = ()

    @property
    def verdict(self) -> Verdict:
        """The pair's verdict: the harder of the two."""
        return max(self.first_later, self.second_later, key=list(Verdict).index)

    def of(self, later: Operation) -> Verdict:
        """The verdict for the one that commits later."""
        return self.first_later if later is self.first else self.second_later

    @property
    def why(self) -> str:
        """Why the line departs from the specification; empty where it does not."""
        return " ".join(NOTES[note] for note in self.notes)

    def __str__(self) -> str:
        if not self.conditions:
            return f"{self.first} and {self.second} commute"
        when = " or ".join(MEANING[condition] for condition in self.conditions)
        if self.first_later is self.second_later:
            return f"{self.first} and {self.second}: {self.verdict} of the later one if {when}"
        fates = f"{self.first_later} of {self.first}, {self.second_later} of {self.second}"
        return f"{self.first} and {self.second}: {fates}, whichever is later, if {when}"


_TABLE = """
insert                 insert                 replan    replan    group + key               -
insert                 bulk_insert            replan    replan    group + key               -
insert                 upsert                 replan    replan    group + key               -
insert                 delete                 replan    replan    group                     no_new_key
insert                 insert_overwrite       replan    replan    group + key + partition   replaced
insert                 insert_overwrite_table replan    replan    group + key + partition   replaced
insert                 delete_partitions      replan    replan    group + partition         no_new_key replaced
insert                 compaction             replan    abort     rewritten                 slices
insert                 log_compaction         replan    abort     rewritten                 slices
insert                 clustering             replan    abort     group + plan              plan_first
insert                 clean                  commutes  commutes  -                         -
insert                 archival               commutes  commutes  -                         -
insert                 indexing               commutes  commutes  -                         -
insert                 rollback               abort     replan    plan                      -
insert                 savepoint              commutes  commutes  -                         -
insert                 restore                abort     replan    always                    -
bulk_insert            bulk_insert            replan    replan    group + key               -
bulk_insert            upsert                 replan    replan    group + key               -
bulk_insert            delete                 replan    replan    group                     no_new_key
bulk_insert            insert_overwrite       replan    replan    group + key + partition   replaced
bulk_insert            insert_overwrite_table replan    replan    group + key + partition   replaced
bulk_insert            delete_partitions      replan    replan    group + partition         no_new_key replaced
bulk_insert            compaction             replan    abort     rewritten                 slices
bulk_insert            log_compaction         replan    abort     rewritten                 slices
bulk_insert            clustering             replan    abort     group + plan              plan_first
bulk_insert            clean                  commutes  commutes  -                         -
bulk_insert            archival               commutes  commutes  -                         -
bulk_insert            indexing               commutes  commutes  -                         -
bulk_insert            rollback               abort     replan    plan                      -
bulk_insert            savepoint              commutes  commutes  -                         -
bulk_insert            restore                abort     replan    always                    -
upsert                 upsert                 replan    replan    group + key               -
upsert                 delete                 replan    replan    group                     no_new_key
upsert                 insert_overwrite       replan    replan    group + key + partition   replaced
upsert                 insert_overwrite_table replan    replan    group + key + partition   replaced
upsert                 delete_partitions      replan    replan    group + partition         no_new_key replaced
upsert                 compaction             replan    abort     rewritten                 slices
upsert                 log_compaction         replan    abort     rewritten                 slices
upsert                 clustering             replan    abort     group + plan              plan_first
upsert                 clean                  commutes  commutes  -                         -
upsert                 archival               commutes  commutes  -                         -
upsert                 indexing               commutes  commutes  -                         -
upsert                 rollback               abort     replan    plan                      -
upsert                 savepoint              commutes  commutes  -                         -
upsert                 restore                abort     replan    always                    -
delete                 delete                 replan    replan    group                     no_new_key
delete                 insert_overwrite       replan    replan    group + partition         no_new_key replaced
delete                 insert_overwrite_table replan    replan    group + partition         no_new_key replaced
delete                 delete_partitions      replan    replan    group + partition         no_new_key replaced
delete                 compaction             replan    abort     rewritten                 slices
delete                 log_compaction         replan    abort     rewritten                 slices
delete                 clustering             replan    abort     group + plan              plan_first
delete                 clean                  commutes  commutes  -                         -
delete                 archival               commutes  commutes  -                         -
delete                 indexing               commutes  commutes  -                         -
delete                 rollback               abort     replan    plan                      -
delete                 savepoint              commutes  commutes  -                         -
delete                 restore                abort     replan    always                    -
insert_overwrite       insert_overwrite       replan    replan    group + key + partition   replaced
insert_overwrite       insert_overwrite_table replan    replan    group + key + partition   replaced
insert_overwrite       delete_partitions      replan    replan    group + partition         no_new_key replaced
insert_overwrite       compaction             commutes  commutes  -                         whole_groups
insert_overwrite       log_compaction         commutes  commutes  -                         whole_groups
insert_overwrite       clustering             replan    abort     group + partition + plan  plan_first replaced
insert_overwrite       clean                  commutes  commutes  -                         -
insert_overwrite       archival               commutes  commutes  -                         -
insert_overwrite       indexing               commutes  commutes  -                         -
insert_overwrite       rollback               abort     replan    plan                      -
insert_overwrite       savepoint              commutes  commutes  -                         -
insert_overwrite       restore                abort     replan    always                    -
insert_overwrite_table insert_overwrite_table replan    replan    group + key + partition   replaced
insert_overwrite_table delete_partitions      replan    replan    group + partition         no_new_key replaced
insert_overwrite_table compaction             commutes  commutes  -                         whole_groups
insert_overwrite_table log_compaction         commutes  commutes  -                         whole_groups
insert_overwrite_table clustering             replan    abort     group + partition + plan  plan_first replaced
insert_overwrite_table clean                  commutes  commutes  -                         -
insert_overwrite_table archival               commutes  commutes  -                         -
insert_overwrite_table indexing               commutes  commutes  -                         -
insert_overwrite_table rollback               abort     replan    plan                      -
insert_overwrite_table savepoint              commutes  commutes  -                         -
insert_overwrite_table restore                abort     replan    always                    -
delete_partitions      delete_partitions      replan    replan    group + partition         no_new_key replaced
delete_partitions      compaction             commutes  commutes  -                         whole_groups
delete_partitions      log_compaction         commutes  commutes  -                         whole_groups
delete_partitions      clustering             replan    abort     group + partition + plan  plan_first replaced
delete_partitions      clean                  commutes  commutes  -                         -
delete_partitions      archival               commutes  commutes  -                         -
delete_partitions      indexing               commutes  commutes  -                         -
delete_partitions      rollback               abort     replan    plan                      -
delete_partitions      savepoint              commutes  commutes  -                         -
delete_partitions      restore                abort     replan    always                    -
compaction             compaction             abort     abort     plan                      -
compaction             log_compaction         abort     abort     plan                      -
compaction             clustering             abort     abort     plan                      -
compaction             clean                  commutes  commutes  -                         -
compaction             archival               commutes  commutes  -                         -
compaction             indexing               commutes  commutes  -                         -
compaction             rollback               abort     replan    plan                      -
compaction             savepoint              commutes  commutes  -                         -
compaction             restore                abort     replan    always                    -
log_compaction         log_compaction         abort     abort     plan                      -
log_compaction         clustering             abort     abort     plan                      -
log_compaction         clean                  commutes  commutes  -                         -
log_compaction         archival               commutes  commutes  -                         -
log_compaction         indexing               commutes  commutes  -                         -
log_compaction         rollback               abort     replan    plan                      -
log_compaction         savepoint              commutes  commutes  -                         -
log_compaction         restore                abort     replan    always                    -
clustering             clustering             abort     abort     plan                      -
clustering             clean                  commutes  commutes  -                         -
clustering             archival               commutes  commutes  -                         -
clustering             indexing               commutes  commutes  -                         -
clustering             rollback               abort     replan    plan                      -
clustering             savepoint              commutes  commutes  -                         -
clustering             restore                abort     replan    always                    -
clean                  clean                  commutes  commutes  -                         -
clean                  archival               commutes  commutes  -                         -
clean                  indexing               commutes  commutes  -                         -
clean                  rollback               commutes  commutes  -                         -
clean                  savepoint              replan    replan    plan                      kept
clean                  restore                abort     replan    always                    restored
archival               archival               replan    replan    always                    -
archival               indexing               commutes  commutes  -                         -
archival               rollback               commutes  commutes  -                         -
archival               savepoint              commutes  commutes  -                         -
archival               restore                abort     replan    always                    -
indexing               indexing               abort     abort     plan                      one_index
indexing               rollback               abort     replan    plan                      undone
indexing               savepoint              commutes  commutes  -                         -
indexing               restore                abort     replan    always                    restored
rollback               rollback               replan    replan    plan                      -
rollback               savepoint              commutes  commutes  -                         -
rollback               restore                abort     replan    always                    -
savepoint              savepoint              commutes  commutes  -                         -
savepoint              restore                abort     replan    always                    -
restore                restore                abort     abort     always                    -
"""
"""First operation, second operation, what becomes of the first if it is later, of the second if it is later, conditions, notes."""


def _parse(text: str) -> Line:
    first, second, one, other, *rest = text.split()
    codes = [word for word in rest if word not in ("+", "-")]
    conditions = tuple(Condition(word) for word in codes if word in Condition._value2member_map_)
    notes = tuple(word for word in codes if word in NOTES)
    return Line(Operation(first), Operation(second), Verdict(one), Verdict(other), conditions, notes)


MATRIX: tuple[Line, ...] = tuple(_parse(text) for text in _TABLE.strip().splitlines())

_BY_PAIR = {pair: line for line in MATRIX for pair in ((line.first, line.second), (line.second, line.first))}


def line_of(one: Operation, other: Operation) -> Line:
    """The line of a pair; for what is not one of the sixteen, one that always bites: whoever is later is planned anew from what it left."""
    known = _BY_PAIR.get((one, other))
    return known or Line(one, other, Verdict.REPLAN, Verdict.REPLAN, (Condition.ALWAYS,))
