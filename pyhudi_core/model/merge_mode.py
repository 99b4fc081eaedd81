"""How a table merges rows: the merge mode, strategy and payload class in its properties.

Specification of version 8, "Merge Modes". Version 9 (RFC-97) stores a payload class of Hudi as a mode and additional rules (`MergeRules`). Versions
up to 6 store only a payload class.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from pyhudi_core.model.printing import printable

MODE = "hoodie.record.merge.mode"
OLDER_LAW = "pyhudi.version6.merge.law"
"""The law by which logs of versions up to 6 merge; None means the law of 0.15.

It is an option of readers, and a property of a table that was raised under it.
"""
LAW_OF_LATER = "1.x"
_STRATEGY_ID = ("hoodie.record.merge.strategy.id", "hoodie.compaction.record.merger.strategy")
_PAYLOAD = ("hoodie.compaction.payload.class", "hoodie.table.legacy.payload.class")


class MergeMode(Enum):
    """The rule that decides which of two versions of a row wins."""

    COMMIT_TIME_ORDERING = "COMMIT_TIME_ORDERING"
    EVENT_TIME_ORDERING = "EVENT_TIME_ORDERING"
    CUSTOM = "CUSTOM"

    @property
    def strategy_id(self) -> str:
        """``hoodie.record.merge.strategy.id`` of this mode."""
        return _MERGE_MODES[self][0]

    @property
    def payload_class(self) -> str:
        """``hoodie.compaction.payload.class`` of this mode; empty for CUSTOM, where the user gives a class."""
        return _MERGE_MODES[self][1]


_MERGE_MODES = {
    MergeMode.EVENT_TIME_ORDERING: (
        "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5",
        "org.apache.hudi.common.model.DefaultHoodieRecordPayload",
    ),
    MergeMode.COMMIT_TIME_ORDERING: (
        "ce9acb64-bde0-424c-9b91-f6ebba25356d",
        "org.apache.hudi.common.model.OverwriteWithLatestAvroPayload",
    ),
    MergeMode.CUSTOM: ("00000000-0000-0000-0000-000000000000", ""),
}


@dataclass(frozen=True, slots=True)
@printable
class MergeRules:
    """The rules of merging in a table's properties, in addition to the merge mode. Version 8 has no such rules.

    Attributes:
        precombines: versions up to 6: log entries of a key are reduced by their ordering values before they meet the base row, and an entry of a
            delete block always removes that row (`merge/precombine.py`).
        partial_update: version 9: ``IGNORE_DEFAULTS`` or ``FILL_UNAVAILABLE``, or empty: which values the winning row takes from the losing row.
        unavailable: the text of a value that ``FILL_UNAVAILABLE`` replaces.
        delete_column, delete_word: version 9: a row with this text in this column is a delete; empty if there is no such column.
    """

    precombines: bool = False
    partial_update: str = ""
    unavailable: str = ""
    delete_column: str = ""
    delete_word: str = ""

    @property
    def mark(self) -> tuple[str, str]:
        """Return the column that marks deletes, and its text; two empty texts if there is none."""
        return self.delete_column, self.delete_word


PARTIAL_MODE = "hoodie.table.partial.update.mode"
IGNORE_DEFAULTS, FILL_UNAVAILABLE = "IGNORE_DEFAULTS", "FILL_UNAVAILABLE"
_PROPERTY = "hoodie.record.merge.property."
DELETE_COLUMN = f"{_PROPERTY}hoodie.payload.delete.field"
DELETE_WORD = f"{_PROPERTY}hoodie.payload.delete.marker"
_UNAVAILABLE = f"{_PROPERTY}hoodie.write.partial.update.unavailable.value"
_DEFAULT_UNAVAILABLE = "__debezium_unavailable_value"
_OLDER_PAYLOADS = {mode.payload_class: mode for mode in MergeMode if mode.payload_class}
_EVENT_TIME = "org.apache.hudi.common.model.EventTimeAvroPayload"


@dataclass(frozen=True, slots=True)
class Migrated:
    """The form of a payload class in version 9.

    Attributes:
        mode: the merge mode.
        partial: the mode of partial updates; empty if there is none.
        properties: further properties, for deletes and for unchanged values.
        ordering: the ordering columns that the class requires; empty if it uses the table's ordering columns.
        ordering_before: the ordering columns that the class requires in version 8; empty as for ``ordering``.
    """

    mode: MergeMode
    partial: str = ""
    properties: Mapping[str, str] = field(default_factory=dict)
    ordering: tuple[str, ...] = ()
    ordering_before: tuple[str, ...] = ()


_MODEL = "org.apache.hudi.common.model"
_BY_DEBEZIUM = {DELETE_COLUMN: "_change_operation_type", DELETE_WORD: "d"}
MIGRATED = {
    f"{_MODEL}.OverwriteWithLatestAvroPayload": Migrated(MergeMode.COMMIT_TIME_ORDERING),
    f"{_MODEL}.DefaultHoodieRecordPayload": Migrated(MergeMode.EVENT_TIME_ORDERING),
    _EVENT_TIME: Migrated(MergeMode.EVENT_TIME_ORDERING),
    f"{_MODEL}.OverwriteNonDefaultsWithLatestAvroPayload": Migrated(MergeMode.COMMIT_TIME_ORDERING, IGNORE_DEFAULTS),
    f"{_MODEL}.PartialUpdateAvroPayload": Migrated(MergeMode.EVENT_TIME_ORDERING, IGNORE_DEFAULTS),
    f"{_MODEL}.AWSDmsAvroPayload": Migrated(
        MergeMode.COMMIT_TIME_ORDERING, properties={DELETE_COLUMN: "Op", DELETE_WORD: "D"}
    ),
    f"{_MODEL}.debezium.PostgresDebeziumAvroPayload": Migrated(
        MergeMode.EVENT_TIME_ORDERING,
        FILL_UNAVAILABLE,
        {**_BY_DEBEZIUM, _UNAVAILABLE: _DEFAULT_UNAVAILABLE},
        ("_event_lsn",),
    ),
    f"{_MODEL}.debezium.MySqlDebeziumAvroPayload": Migrated(
        MergeMode.EVENT_TIME_ORDERING,
        properties=_BY_DEBEZIUM,
        ordering=("_event_bin_file", "_event_pos"),
        ordering_before=("_event_seq",),
    ),
}
"""The forms by payload class (RFC-97; versions 2.2)."""


def first(props: Mapping[str, str], keys: Iterable[str], default: str) -> str:
    """Return the value of the first of these properties that is set."""
    return next((props[key].strip() for key in keys if props.get(key, "").strip()), default)


def merging_of(props: Mapping[str, str], named: str, ordered: bool) -> tuple[MergeMode, str, str]:
    """Return the merge mode, the strategy id and the payload class. ``named`` is the checked mode of the properties; ``ordered``: whether there are
    ordering columns.

    Up to version 6, only the payload class counts: a strategy id means event time only in later versions.
    """
    if int(props["hoodie.table.version"]) < _LAWS_OF_MODES:
        payload = first(props, _PAYLOAD, MergeMode.COMMIT_TIME_ORDERING.payload_class)
        older = _OLDER_PAYLOADS.get(
            payload, MergeMode.EVENT_TIME_ORDERING if payload == _EVENT_TIME else MergeMode.CUSTOM
        )
        return older, older.strategy_id, payload
    mode = _mode(props, named, ordered)
    return mode, first(props, _STRATEGY_ID, mode.strategy_id), first(props, _PAYLOAD, mode.payload_class)


def rules_of(props: Mapping[str, str]) -> MergeRules:
    """Return the rules that the properties add to the mode. The mode of partial updates is already checked."""
    version = int(props["hoodie.table.version"])
    if version < _LAWS_OF_MODES:
        return MergeRules(precombines=props.get(OLDER_LAW) != LAW_OF_LATER)
    if version == _LAWS_OF_MODES:
        return MergeRules()
    partial = props.get(PARTIAL_MODE, "").strip().upper().replace("NONE", "")
    column, word = (props.get(key, "").strip() for key in (DELETE_COLUMN, DELETE_WORD))
    unavailable = first(props, (_UNAVAILABLE,), _DEFAULT_UNAVAILABLE)
    marked = (column, word) if column and word else ("", "")
    return MergeRules(False, partial, unavailable if partial == FILL_UNAVAILABLE else "", *marked)


_LAWS_OF_MODES = 8
"""From this version on, a merge mode decides. Later versions add rules to the mode."""


def _mode(props: Mapping[str, str], named: str, ordered: bool) -> MergeMode:
    if named:
        return MergeMode(named)
    strategy, payload = first(props, _STRATEGY_ID, ""), first(props, _PAYLOAD, "")
    if strategy:
        return {mode.strategy_id: mode for mode in MergeMode}.get(strategy, MergeMode.CUSTOM)
    if payload:
        return {mode.payload_class: mode for mode in MergeMode if mode.payload_class}.get(payload, MergeMode.CUSTOM)
    return MergeMode.EVENT_TIME_ORDERING if ordered else MergeMode.COMMIT_TIME_ORDERING
