"""What becomes of the properties when a table gets another version, and which tables cannot have it. Pure.

Format reference: versions 1.4, 2.1, 2.2, 3.2 and 3.3. The merge mode of a raised table is the one by which this release reads it: the payload class
decides, as in version 6. (Hudi's own upgrade gives event time to every merge-on-read table with an ordering column; decision 0114 says why this one
does not.)
"""

from __future__ import annotations

from collections.abc import Mapping

from pyhudi_core.model.merge_mode import MODE
from pyhudi_core.model.properties import (
    METADATA_PARTITIONS,
    METADATA_PARTITIONS_INFLIGHT,
    RAISED_AT,
    KeyGenerator,
    TableConfig,
)

Changes = Mapping[str, str | None]
"""Properties and their new values; None removes one."""

VERSION = "hoodie.table.version"
TIMELINE, HISTORY = "timeline", "history"
_INITIAL = "hoodie.table.initial.version"
_STRATEGY, _OLD_STRATEGY = "hoodie.record.merge.strategy.id", "hoodie.compaction.record.merger.strategy"
_PAYLOAD = "hoodie.compaction.payload.class"
_FROM_VERSION_6 = 6


def to_version_8(config: TableConfig, at: str = "") -> dict[str, str | None]:
    """Return the changes from version 6 to 8; ``at`` is the requested time of the upgrade. The metadata table goes: version 8 has another one."""
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
        METADATA_PARTITIONS: None,
        METADATA_PARTITIONS_INFLIGHT: None,
        RAISED_AT: at or None,
    }


def why_not_to_version_8(config: TableConfig) -> str:
    """Say why a table is not raised to version 8; empty if it can be."""
    if config.version != _FROM_VERSION_6:
        return f"the table has version {config.version}, and only version 6 is raised to 8: raise it to 6 with Hudi 0.15 first"
    if config.bootstrap_base_path:
        return "the rows of the table are in another folder (hoodie.bootstrap.base.path)"
    if config.keygenerator_type is KeyGenerator.OTHER:
        named = config.raw.get("hoodie.table.keygenerator.class") or config.raw.get("hoodie.table.keygenerator.type")
        return f"its key generator is {named}, and version 6 does not say how that makes the folders of partitions"
    return ""
