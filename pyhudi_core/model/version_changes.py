"""Compute the properties of a table in another version, and decide which tables cannot have that version. Pure.

Format reference: versions 1.4, 2.1, 2.2, 3.2 and 3.3. A raised table gets the merge mode by which this release reads it: the payload class determines
the mode, as in version 6. (Hudi's own upgrade gives event time to every merge-on-read table with an ordering column; decision 0114 explains the
difference.)
"""

from __future__ import annotations

from collections.abc import Mapping

from pyhudi_core.model.merge_mode import MIGRATED, MODE, OLDER_LAW, PARTIAL_MODE, MergeMode, Migrated
from pyhudi_core.model.properties import (
    CLASS_OF,
    FORMAT,
    INDEX_DEFINITIONS,
    METADATA_PARTITIONS,
    METADATA_PARTITIONS_INFLIGHT,
    RAISED_AT,
    KeyGenerator,
    TableConfig,
    TableType,
)

Changes = Mapping[str, str | None]
"""Properties and their new values; None removes one."""

VERSION = "hoodie.table.version"
TIMELINE, HISTORY = "timeline", "history"
_INITIAL = "hoodie.table.initial.version"
_STRATEGY, _OLD_STRATEGY = "hoodie.record.merge.strategy.id", "hoodie.compaction.record.merger.strategy"
_PAYLOAD, _LEGACY = "hoodie.compaction.payload.class", "hoodie.table.legacy.payload.class"
_ORDERING, _PRECOMBINE = "hoodie.table.ordering.fields", "hoodie.table.precombine.field"
_FROM_VERSION_6 = 6


def to_version_8(config: TableConfig, at: str = "") -> dict[str, str | None]:
    """Return the changes from version 6 to 8; ``at`` is the requested time of the upgrade.

    Removes the metadata table, because version 8 has another form of it.
    """
    return {
        VERSION: "8",
        _INITIAL: config.raw.get(_INITIAL) or str(config.version),
        "hoodie.timeline.layout.version": "2",
        "hoodie.timeline.path": TIMELINE,
        "hoodie.timeline.history.path": HISTORY,
        "hoodie.table.keygenerator.type": config.keygenerator_type.value,
        "hoodie.table.keygenerator.class": None,
        MODE: config.merge_mode.value,
        _STRATEGY: config.merge_strategy_id,
        _OLD_STRATEGY: None,
        _PAYLOAD: config.payload_class,
        OLDER_LAW: config.raw.get(OLDER_LAW),
        METADATA_PARTITIONS: None,
        METADATA_PARTITIONS_INFLIGHT: None,
        RAISED_AT: at or None,
    }


def why_not_to_version_8(config: TableConfig) -> str:
    """Return why a table cannot be raised to version 8; empty if it can."""
    if config.version != _FROM_VERSION_6:
        return f"the table has version {config.version}, and only version 6 is raised to 8: raise it to 6 with Hudi 0.15 first"
    if config.bootstrap_base_path:
        return "the rows of the table are in another folder (hoodie.bootstrap.base.path)"
    if config.keygenerator_type is KeyGenerator.OTHER:
        named = config.raw.get("hoodie.table.keygenerator.class") or config.raw.get("hoodie.table.keygenerator.type")
        return f"its key generator is {named}, and version 6 does not say how that makes the folders of partitions"
    return ""


# --- from version 8 to 6

ARCHIVE = "hoodie.archivelog.folder"
_PARTITIONS = "hoodie.table.partition.fields"
_OF_LATER_VERSIONS = (
    "hoodie.timeline.path",
    "hoodie.timeline.history.path",
    "hoodie.table.keygenerator.type",
    "hoodie.table.multiple.base.file.formats.enable",
    "hoodie.bootstrap.index.type",
)


def to_version_6(config: TableConfig) -> dict[str, str | None]:
    """Return the changes from version 8 to 6. Removes the metadata table, because version 6 has another form of it."""
    is_merged = config.table_type is TableType.MERGE_ON_READ
    return {
        **dict.fromkeys(
            (*_OF_LATER_VERSIONS, _INITIAL, MODE, _STRATEGY, _LEGACY, INDEX_DEFINITIONS, FORMAT, RAISED_AT, OLDER_LAW)
        ),
        VERSION: "6",
        "hoodie.timeline.layout.version": "1",
        ARCHIVE: config.raw.get(ARCHIVE) or "archived",
        "hoodie.table.keygenerator.class": f"org.apache.hudi.keygen.{CLASS_OF[config.keygenerator_type]}",
        _PAYLOAD: config.payload_class or config.merge_mode.payload_class,
        _OLD_STRATEGY: MergeMode.EVENT_TIME_ORDERING.strategy_id if is_merged else None,
        _ORDERING: None,
        _PRECOMBINE: ",".join(config.ordering_fields) or None,
        _PARTITIONS: ",".join(config.partition_fields),
    }


def why_not_to_version_6(config: TableConfig) -> str:
    """Return why a table cannot be lowered from version 8 to 6; empty if it can."""
    if config.bootstrap_base_path:
        return "the rows of the table are in another folder (hoodie.bootstrap.base.path)"
    if config.keygenerator_type not in CLASS_OF:
        return f"its key generator is {config.keygenerator_type.value}, and version 6 does not say how that makes the folders of partitions"
    if len(config.ordering_fields) > 1:
        return f"{len(config.ordering_fields)} columns order its rows, and version 6 has one (hoodie.table.precombine.field)"
    said = MIGRATED.get(config.payload_class)
    if config.merge_mode is MergeMode.CUSTOM and (said is None or said.properties):
        return f"its rows are merged by {config.payload_class or config.merge_strategy_id}, and how version 6 does so is not proven here"
    if config.several_formats:
        return "it has base files of several formats (hoodie.table.multiple.base.file.formats.enable)"
    return config.why_not_written


# --- versions 8 and 9


def to_version_9(config: TableConfig) -> dict[str, str | None]:
    """Return the changes from version 8 to 9: only the mode decides how rows merge, and the ordering columns have another property."""
    said = _said_by_version_9(config)
    own = said.partial or said.properties
    return {
        VERSION: "9",
        _INITIAL: config.raw.get(_INITIAL) or "8",
        MODE: said.mode.value,
        PARTIAL_MODE: said.partial or None,
        **said.properties,
        _LEGACY: config.payload_class if own else said.mode.payload_class,
        _PAYLOAD: None,
        _STRATEGY: None,
        _OLD_STRATEGY: None,
        _ORDERING: ",".join(said.ordering or config.ordering_fields) or None,
        _PRECOMBINE: None,
        FORMAT: "native",
    }


def _said_by_version_9(config: TableConfig) -> Migrated:
    if config.merge_mode is not MergeMode.CUSTOM:
        return Migrated(config.merge_mode)
    return MIGRATED[config.payload_class]


def changes_law(config: TableConfig) -> bool:
    """Return whether logs of a table merge differently in versions 8 and 9, because a payload class becomes a mode of partial updates."""
    return config.merges_values or bool(config.merge_rules.delete_column)


def why_not_to_version_9(config: TableConfig) -> str:
    """Return why a table cannot be raised from version 8 to 9; empty if it can."""
    if config.merge_mode is MergeMode.CUSTOM and config.payload_class not in MIGRATED:
        return f"its rows are merged by {config.payload_class or config.merge_strategy_id}, for which version 9 has no mode here"
    return config.why_not_written


def to_version_8_again(config: TableConfig) -> dict[str, str | None]:
    """Return the changes from version 9 to 8."""
    rules = config.merge_rules
    by_class = bool(rules.partial_update or rules.delete_column)
    mode = MergeMode.CUSTOM if by_class else config.merge_mode
    initial = config.raw.get(_INITIAL) or "8"
    ordering = (MIGRATED[config.payload_class].ordering_before if by_class else ()) or config.ordering_fields
    return {
        VERSION: "8",
        _INITIAL: "8" if initial == "9" else initial,
        MODE: mode.value,
        PARTIAL_MODE: None,
        **(dict.fromkeys(MIGRATED[config.payload_class].properties) if by_class else {}),
        _LEGACY: None,
        _PAYLOAD: config.payload_class if by_class else mode.payload_class,
        _STRATEGY: mode.strategy_id,
        _OLD_STRATEGY: None,
        _ORDERING: None,
        _PRECOMBINE: ",".join(ordering) or None,
    }


def why_not_to_version_8_again(config: TableConfig) -> str:
    """Return why a table cannot be lowered from version 9 to 8; empty if it can."""
    rules = config.merge_rules
    said = MIGRATED.get(config.payload_class)
    of_class = {} if said is None else said.properties
    if rules.delete_column and (not of_class or not of_class.items() <= config.raw.items()):
        return f"rows are deletes by a column ({rules.delete_column}={rules.delete_word}), which version 8 cannot say"
    if rules.partial_update and (said is None or said.partial != rules.partial_update):
        return f"its rows are merged by {PARTIAL_MODE}={rules.partial_update}, and no payload class of version 8 is named for it"
    if config.merge_mode is MergeMode.CUSTOM:
        return f"its rows are merged by {config.payload_class or config.merge_strategy_id}"
    if config.may_prefix_keys:
        return "the keys of a COMPLEX generator over one column have another form in version 8, so Hudi 1.0 would write each row twice"
    return config.why_not_written


def of_metadata_table(properties: Mapping[str, str], version: str) -> dict[str, str | None]:
    """Return the changes of the metadata table of a table that gets this version, from 8 to 9 or back."""
    initial = properties.get(_INITIAL, version)
    return {VERSION: version, _INITIAL: min(initial, version)}
