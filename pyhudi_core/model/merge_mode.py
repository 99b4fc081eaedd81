"""How a table merges rows: the properties that say it, and the merge mode, strategy and payload class that they mean.

Specification of version 8, "Merge Modes". Version 9 (RFC-97) stores a payload class of Hudi's as a mode with properties beside it. They are turned
back into the class: the rules are the same, and the class is the name under which a merger is found.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum

MODE = "hoodie.record.merge.mode"
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


_PARTIAL_MODE = "hoodie.table.partial.update.mode"
_DELETE_MARKER = (
    "hoodie.record.merge.property.hoodie.payload.delete.field",
    "hoodie.record.merge.property.hoodie.payload.delete.marker",
)
_V9_PAYLOADS: Mapping[tuple[MergeMode, str, tuple[str, ...]], str] = {
    (
        MergeMode.COMMIT_TIME_ORDERING,
        "IGNORE_DEFAULTS",
        ("", ""),
    ): "org.apache.hudi.common.model.OverwriteNonDefaultsWithLatestAvroPayload",
}
"""The payload class with the rules of a mode, a mode of partial updates, and a column and word that mark a delete.

Not with event time: there `PartialUpdateAvroPayload` keeps the meta columns of the later row, and version 9 those of the winner.
"""


def first(props: Mapping[str, str], keys: Iterable[str], default: str) -> str:
    """Return the value of the first of these properties that is given."""
    return next((props[key].strip() for key in keys if props.get(key, "").strip()), default)


def merging_of(props: Mapping[str, str], named: str, ordered: bool) -> tuple[MergeMode, str, str]:
    """Merge mode, strategy id and payload class. ``named`` is the mode that the properties name, checked; ``ordered``: there are ordering columns."""
    mode = _mode(props, named, ordered)
    plain = mode, first(props, _STRATEGY_ID, mode.strategy_id), first(props, _PAYLOAD, mode.payload_class)
    if props["hoodie.table.version"].strip() == "8" or mode is MergeMode.CUSTOM:
        return plain
    partial = props.get(_PARTIAL_MODE, "").strip().upper() or "NONE"
    marked = tuple(props.get(key, "").strip() for key in _DELETE_MARKER)
    if partial == "NONE" and not any(marked):
        return plain
    said = [f"{_PARTIAL_MODE}={partial}"] * (partial != "NONE")
    said += [f"{key}={word}" for key, word in zip(_DELETE_MARKER, marked, strict=True) if word]
    by_payload = MergeMode.CUSTOM
    return by_payload, by_payload.strategy_id, _V9_PAYLOADS.get((mode, partial, marked), " and ".join(said))


def _mode(props: Mapping[str, str], named: str, ordered: bool) -> MergeMode:
    if named:
        return MergeMode(named)
    strategy, payload = first(props, _STRATEGY_ID, ""), first(props, _PAYLOAD, "")
    if strategy:
        return {mode.strategy_id: mode for mode in MergeMode}.get(strategy, MergeMode.CUSTOM)
    if payload:
        return {mode.payload_class: mode for mode in MergeMode if mode.payload_class}.get(payload, MergeMode.CUSTOM)
    return MergeMode.EVENT_TIME_ORDERING if ordered else MergeMode.COMMIT_TIME_ORDERING
