"""Examine ``hoodie.properties``: whether it is complete, of version 8, and consistent (specification, "Table Properties").

For a table of another version, the finding advises how to prevent Hudi 1.1 and newer from upgrading shared tables.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from pyhudi_core.doctor.examination import Examination, describe
from pyhudi_core.doctor.kinds import Area, FindingKind, Severity
from pyhudi_core.errors import (
    ConfigError,
    CorruptPropertiesError,
    HudiError,
    LimitExceededError,
    TableHalfDroppedError,
    TableVersionError,
    UnsafePathError,
    UnsupportedTableError,
)
from pyhudi_core.model.java_properties import SIZE_LIMIT
from pyhudi_core.model.properties import CHECKSUM, NAME, MergeMode, TableConfig, TableType, checksum, parse, verify
from pyhudi_core.opened_table.opened_table import OpenedTable
from pyhudi_core.storage.no_table import no_table
from pyhudi_core.timeline.properties_file import BACKUP, PATH, is_cut_off

_AREA = Area.PROPERTIES

_KNOWN_PREFIXES = ("hoodie.keygen.", "hoodie.record.merge.property.", "pyhudi.")
_KNOWN = frozenset(
    f"hoodie.{key}"
    for key in (
        "table.name", "database.name", "table.type", "table.version", "table.initial.version", "timeline.layout.version",
        "timeline.path", "timeline.history.path", "archivelog.folder", "table.recordkey.fields", "table.partition.fields",
        "table.precombine.field", "table.ordering.fields", "table.keygenerator.type", "table.keygenerator.class",
        "record.merge.mode", "record.merge.strategy.id", "compaction.payload.class", "compaction.record.merger.strategy",
        "table.base.file.format", "table.ro.file.format", "table.log.file.format", "table.multiple.base.file.formats.enable",
        "populate.meta.fields", "datasource.write.hive_style_partitioning", "datasource.write.partitionpath.urlencode",
        "datasource.write.drop.partition.columns", "partition.metafile.use.base.format", "table.timeline.timezone",
        "table.cdc.enabled", "table.cdc.supplemental.logging.mode", "table.create.schema", "table.metadata.partitions",
        "allow.operation.metadata.field",
        "table.metadata.partitions.inflight", "table.index.defs.path", "table.secondary.indexes.metadata", "bootstrap.base.path",
        "bootstrap.index.enable", "bootstrap.index.type", "bootstrap.index.class", "table.checksum", "table.legacy.payload.class",
        "table.partial.update.mode", "table.partition_extractor_class", "table.format", "datasource.write.slash.separated.date.partitioning",
    )
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _File:
    """One of the two properties files. ``problem`` is the reason why it cannot be used; empty if it can."""

    exists: bool
    properties: dict[str, str]
    problem: str = ""

    @property
    def usable(self) -> bool:
        return self.exists and not self.problem


def examine(exam: Examination, opened: OpenedTable) -> None:
    """Read both files, then check whether the table can be used."""
    main, backup = _read(exam, PATH), _read(exam, BACKUP)
    exam.add_summary(_AREA, f"{len((main if main.usable else backup).properties)} properties")
    if not main.exists and not backup.exists:
        if _AREA in exam.incomplete:
            return  # the storage did not answer, so nothing is known about the table
        found = no_table(opened.storage)
        exam.add(FindingKind.NO_TABLE, found.message, PATH, what_to_do=found.hint)
        return
    if not main.usable and not backup.usable:
        exam.add(FindingKind.PROPERTIES_DAMAGED, main.problem or backup.problem, PATH if main.exists else BACKUP)
        return
    if not main.usable:
        what = f"hoodie.properties is damaged ({main.problem})" if main.exists else "hoodie.properties is missing"
        exam.add(FindingKind.PROPERTIES_FROM_BACKUP, f"{what}; readers use the backup", PATH)
    elif backup.exists:
        exam.add(
            FindingKind.PROPERTIES_BACKUP_LEFT,
            "An update of the properties was interrupted, and its backup still exists",
            BACKUP,
        )
    properties = main.properties if main.usable else backup.properties
    _examine_values(exam, properties)
    _open(exam, opened, properties)


def _read(exam: Examination, path: str) -> _File:
    info = None
    with exam.recording_failures(_AREA, path):
        info = exam.storage.head(path)
    if info is None:
        return _File(False, {})
    if info.size > SIZE_LIMIT:
        return _File(True, {}, f"it has {info.size:,} bytes, but a properties file has only a few thousand")
    data = exam.read(_AREA, info)
    if data is None:
        return _File(False, {})
    try:
        found = parse(data, path=path)
    except (CorruptPropertiesError, LimitExceededError) as error:
        return _File(True, {}, describe(error))
    if not found.get(NAME):
        return _File(True, found, "the table's name is missing, as in a truncated file")
    if is_cut_off(found, data):
        return _File(True, found, "it is truncated: the checksum at its end is missing")
    if not verify(found):
        return _File(
            True,
            found,
            f"{CHECKSUM} is {found[CHECKSUM][:20]!r}, but the checksum of the table's name is {checksum(found)}",
        )
    return _File(True, found)


def _examine_values(exam: Examination, properties: dict[str, str]) -> None:
    if CHECKSUM not in properties:
        exam.add(
            FindingKind.PROPERTIES_INCONSISTENT, f"{CHECKSUM} is missing, so damage of the file cannot be detected", PATH, severity=Severity.INFO,
            what_to_do="No action is needed: the next change of the properties adds it.",
        )  # fmt: skip
    for key in sorted(properties):
        if key not in _KNOWN and not key.startswith(_KNOWN_PREFIXES):
            exam.add(FindingKind.UNKNOWN_PROPERTY, f"The property {key[:120]!r} is not known in any release", PATH)
    mode, strategy = (
        properties.get("hoodie.record.merge.mode", "").strip(),
        properties.get("hoodie.record.merge.strategy.id", "").strip(),
    )
    if mode in MergeMode.__members__ and MergeMode(mode) is not MergeMode.CUSTOM and strategy:
        wanted = MergeMode(mode).strategy_id
        if strategy != wanted:
            exam.add(
                FindingKind.PROPERTIES_INCONSISTENT,
                f"Merge mode {mode} has the strategy id {wanted}, but the table has {strategy[:50]!r}",
                PATH,
            )


def _open(exam: Examination, opened: OpenedTable, properties: dict[str, str]) -> None:
    """Parse the values of the properties, and open the table. The reason for a failure becomes a finding."""
    timeline = properties.get("hoodie.timeline.path", "").strip() or "timeline"
    history = properties.get("hoodie.timeline.history.path", "").strip() or "history"
    try:
        config = TableConfig.from_properties(properties, table=exam.storage.location)
        if config.timeline_layout == 1:
            what = f"The table has version {config.version}, which is read, and which this release does not examine"
            exam.not_examined(_AREA, what, PATH, "Examine it after it was raised to version 8.")
            exam.examines = False
            return
        exam.config = config
        timeline, history = config.timeline_path, config.history_path
    except TableVersionError as error:
        exam.add(FindingKind.OTHER_VERSION, describe(error), PATH, what_to_do=_upgrade_advice(error))
    except UnsupportedTableError as error:
        exam.add(FindingKind.UNSUPPORTED_TABLE, describe(error), PATH)
    except UnsafePathError as error:
        exam.add(FindingKind.UNSAFE_PATH, describe(error), PATH, area=_AREA)
        timeline, history = "timeline", "history"
    except TableHalfDroppedError as error:
        exam.add(FindingKind.HALF_DROPPED, error.message, PATH)
    except HudiError as error:
        exam.add(FindingKind.PROPERTIES_DAMAGED, describe(error), PATH)
    exam.timeline_folder = f".hoodie/{timeline}"
    exam.history_folder = f"{exam.timeline_folder}/{history}"
    if exam.config is None:
        return
    if exam.config.table_type is TableType.MERGE_ON_READ:
        exam.counts["merge-on-read"] = 1
    try:
        exam.use(opened.context())
    except ConfigError as error:
        exam.add(
            FindingKind.PROPERTIES_INCONSISTENT,
            f"The options of this handle no longer fit the table: {describe(error)}",
            PATH,
        )
    except HudiError as error:
        # The properties were changed between two reads; the next check sees the new ones.
        exam.not_examined(_AREA, f"The properties changed during the examination: {describe(error)}", PATH)


def _upgrade_advice(error: TableVersionError) -> str | None:
    """Return the hint of the error; None for versions above 8, for which the default advice is right."""
    return None if re.fullmatch("[0-9]{1,9}", error.found) and int(error.found) > 8 else f"{error.hint}."
