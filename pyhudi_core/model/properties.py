"""``hoodie.properties`` as a typed, checked value; ``java_properties`` reads the text.

Format reference: timeline 1.1 to 1.6 of table version 8; version 9 stores the merging of rows differently (`merge_mode`); versions 3 to 6 also have
another timeline layout and other names of key generators. ``raw`` of a ``TableConfig`` holds every property that was read, unknown ones included, and
``to_properties`` returns all of them.

Invariants
- a ``TableConfig`` exists only for a table that this package can open: version 8 or 9, or 3 to 6 (only read), with the timeline layout of its
  version, base files in Parquet, ORC or HFile, partition columns kept in the data files;
- folders named by properties are below ``.hoodie``.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from types import MappingProxyType

from pyhudi_core.errors import (
    CorruptPropertiesError,
    InvalidOptionError,
    TableError,
    TableHalfDroppedError,
    TableVersionError,
    UnsafePathError,
    UnsupportedTableError,
)
from pyhudi_core.model.java_properties import parse, render
from pyhudi_core.model.merge_mode import (
    FILL_UNAVAILABLE,
    IGNORE_DEFAULTS,
    MODE,
    OLDER_LAW,
    PARTIAL_MODE,
    MergeMode,
    MergeRules,
    first,
    merging_of,
    rules_of,
)
from pyhudi_core.model.meta_fields import IS_DELETED, RECORD_KEY
from pyhudi_core.model.printing import printable
from pyhudi_core.model.safe_path import safe_relative_path
from pyhudi_core.model.table_rules import COMMENT, EXPIRE, MOST_DAYS, PREFIX, TableRules
from pyhudi_core.naming import set_module

__all__ = ["CdcMode", "KeyGenerator", "MergeMode", "TableConfig", "TableType", "checksum", "parse", "render", "verify"]

CHECKSUM = "hoodie.table.checksum"
NAME = "hoodie.table.name"
DATABASE = "hoodie.database.name"
METADATA_PARTITIONS = "hoodie.table.metadata.partitions"
METADATA_PARTITIONS_INFLIGHT = "hoodie.table.metadata.partitions.inflight"
POPULATE = "hoodie.populate.meta.fields"
OPERATION_FIELD = "hoodie.allow.operation.metadata.field"
DROPPING = "pyhudi.table.dropping"
"""The property with the requested time of a drop that has begun. A process that finds it neither reads nor writes the table."""
INDEX_DEFINITIONS = "hoodie.table.index.defs.path"
RAISED_AT = "pyhudi.raised.at"
"""The property with the requested time of the upgrade from version 6 by this package. Files with older times come from version 6."""
PREFIX_WIDTH = "pyhudi.partition.random.prefix"
PREFIX_DEPTH = "pyhudi.partition.random.prefix.depth"
NO_UPGRADE = "To keep Hudi 1.1 and newer from upgrading a version 8 table, write with hoodie.write.auto.upgrade=false"
_PATH = ".hoodie/hoodie.properties"
FORMAT = "hoodie.table.format"
_WRITTEN_VERSIONS = (8, 9)
"""Tables of these versions are read and written. The other versions of `_LAYOUTS` are only read."""
V1, V2 = "V1", "V2"
"""The versions of new metadata table indexes, in table version 8 and in table version 9."""
_LAST_WITH_V1 = 8
_FIRST_WITH_LIST = 6
_MOST_NAMES = 1_000
"""The names that a property may list: a reader looks for each partition of the metadata table."""
_LAYOUTS = {"3": "1", "4": "1", "5": "1", "6": "1", "8": "2", "9": "2"}
"""The layout of the timeline for each table version that can be read."""


class TableType(Enum):
    """How a table stores updates."""

    COPY_ON_WRITE = "COPY_ON_WRITE"
    MERGE_ON_READ = "MERGE_ON_READ"


class KeyGenerator(Enum):
    """``hoodie.table.keygenerator.type`` without its ``_AVRO`` ending; OTHER is any generator that this package cannot write with."""

    SIMPLE = "SIMPLE"
    COMPLEX = "COMPLEX"
    TIMESTAMP = "TIMESTAMP"
    CUSTOM = "CUSTOM"
    NON_PARTITION = "NON_PARTITION"
    GLOBAL_DELETE = "GLOBAL_DELETE"
    HOODIE_TABLE_METADATA = "HOODIE_TABLE_METADATA"
    OTHER = "OTHER"


class CdcMode(Enum):
    """``hoodie.table.cdc.supplemental.logging.mode``."""

    DATA_BEFORE_AFTER = "DATA_BEFORE_AFTER"
    DATA_BEFORE = "DATA_BEFORE"
    OP_KEY_ONLY = "OP_KEY_ONLY"


def checksum(properties: Mapping[str, str]) -> str:
    """Return the value of ``hoodie.table.checksum``: CRC-32 of ``<database>.<table>``, in decimal."""
    return str(zlib.crc32(f"{properties.get(DATABASE, '')}.{properties.get(NAME, '')}".encode()))


def verify(properties: Mapping[str, str], *, required: bool = False) -> bool:
    """Return whether the checksum is correct; a missing checksum is accepted unless it is required."""
    found = properties.get(CHECKSUM)
    return not required if found is None else found.strip() == checksum(properties)


@set_module("pyhudi")
@dataclass(frozen=True, slots=True)
@printable
class TableConfig:
    """The properties of a table, typed."""

    name: str
    database: str
    table_type: TableType
    record_key_fields: tuple[str, ...]
    partition_fields: tuple[str, ...]
    partition_types: tuple[str, ...]
    """``SIMPLE`` or ``TIMESTAMP``, one for each partition field."""
    ordering_fields: tuple[str, ...]
    keygenerator_type: KeyGenerator
    merge_mode: MergeMode
    merge_strategy_id: str
    payload_class: str
    merge_rules: MergeRules
    base_file_format: str
    populate_meta_fields: bool
    operation_field: bool
    """Whether files have the sixth meta column (a property of this package; Hudi's writers have an option for it)."""
    hive_style_partitioning: bool
    url_encode_partitioning: bool
    drop_partition_columns: bool
    metafile_in_base_format: bool
    """Whether partition metafiles are Parquet files instead of text."""
    timeline_timezone: str
    """``UTC`` or ``LOCAL``: the zone of instant times."""
    cdc_enabled: bool
    cdc_mode: CdcMode
    metadata_partitions: tuple[str, ...]
    metadata_partitions_inflight: tuple[str, ...]
    create_schema: str | None
    """Avro JSON of the table at its creation, if stored."""
    timeline_path: str
    """The folder of the active timeline, relative to ``.hoodie``; empty for this folder itself."""
    history_path: str
    """Folder of the timeline history, relative to ``timeline_path``."""
    bootstrap_base_path: str | None
    index_defs_path: str
    """File of the index definitions, relative to the table."""
    prefix_width: int
    """Hex digits of the random prefix folders above partitions; 0 for none (a property of this package)."""
    prefix_depth: int
    """The maximum number of prefix folders above one another."""
    rules: TableRules
    """The rules of every write of this package (properties of this package)."""
    raw: Mapping[str, str]

    def __repr__(self) -> str:
        key = ", ".join(self.record_key_fields) or "generated"
        partitions = ", ".join(self.partition_fields) or "not partitioned"
        return f"TableConfig {self.name} ({self.table_type.value}, version {self.version}, key {key}; {partitions})"

    def _shown(self) -> Mapping[str, str]:
        return self.raw

    @property
    def written_metadata_partitions(self) -> tuple[str, ...]:
        """Return the partitions of the metadata table that every commit writes: first the complete ones, then those that an indexing builds.

        Returns none without a metadata table.
        """
        listed = self.metadata_partitions
        return tuple(dict.fromkeys((*listed, *self.metadata_partitions_inflight))) if listed else ()

    @classmethod
    def from_properties(cls, props: Mapping[str, str], *, table: str) -> TableConfig:
        """Check properties and type them.

        Args:
            props: all properties of the file.
            table: location of the table, for the errors.

        Raises:
            TableHalfDroppedError: a drop of the table has begun.
            TableVersionError: the table has a version that `_LAYOUTS` does not list.
            UnsupportedTableError: the table has an unsupported feature (named in the message).
            CorruptPropertiesError: the checksum is wrong, the table name is missing, or a property has an impossible value.
            UnsafePathError: the timeline folder or the index definitions are outside the table.
        """
        return _typed(tuple(props.items()), table)

    @property
    def version(self) -> int:
        """``hoodie.table.version``."""
        return int(self.raw["hoodie.table.version"])

    @property
    def timeline_layout(self) -> int:
        """``hoodie.timeline.layout.version``: 1 or 2."""
        return int(_LAYOUTS[str(self.version)])

    @property
    def reads_metadata_table(self) -> bool:
        """Whether reads use the complete metadata table, if there is one."""
        return self.timeline_layout > 1

    @property
    def reads_list_of_files(self) -> bool:
        """Whether reads use the list of files in the metadata table, if there is one. Before version 6 the list had another form."""
        return self.version >= _FIRST_WITH_LIST

    @property
    def timeline_folder(self) -> str:
        """Return the folder of the active timeline, relative to the table."""
        return f".hoodie/{self.timeline_path}" if self.timeline_path else ".hoodie"

    @property
    def why_not_written(self) -> str:
        """Why this release does not write the table; empty if it does."""
        if self.version not in _WRITTEN_VERSIONS:
            return f"the table has version {self.version}, which this release reads and does not write"
        plugged = self.raw.get(FORMAT, "").strip().lower() or "native"
        return "" if plugged == "native" else f"the table has the format {plugged!r} ({FORMAT}), of a plug-in of Hudi"

    def refusal_of_writing(self, table: str) -> TableError | None:
        """Return the error for a version or a format that is only read; None for a table that is written."""
        why, found, hint = self.why_not_written, str(self.version), f"Nothing was changed. {self.way_to_writing}"
        if why and self.version in _WRITTEN_VERSIONS:
            return UnsupportedTableError(why, table=table, path=_PATH, hint=hint)
        return TableVersionError(why, found=found, table=table, path=_PATH, hint=hint) if why else None

    @property
    def way_to_writing(self) -> str:
        """Return the advice for writing to a table that this release only reads."""
        return "Write with Hudi and this plug-in." if self.version in _WRITTEN_VERSIONS else _OLDER_ONLY_READ

    def refuse_writing(self, table: str, before: TableConfig | None = None) -> None:
        """Raise `TableVersionError` for a version that is only read, and for a version that differs from ``before``, the version at the start of a
        write.
        """
        if error := self.refusal_of_writing(table):
            raise error
        if before is not None and before.version != self.version:
            raise TableVersionError(
                f"the table has version {self.version} now, and had {before.version} when this began: another program has raised or lowered it",
                found=str(self.version), table=table, path=_PATH, hint="Nothing was published. Begin again.",
            )  # fmt: skip

    @property
    def index_version(self) -> str:
        """The version of a new index of the metadata table. An existing index has the version of its definition."""
        return V2 if self.version > _LAST_WITH_V1 else V1

    @property
    def merges_values(self) -> bool:
        """Say whether a merge can combine values of two versions into one row: by a merger, or by a mode of partial updates."""
        return self.merge_mode is MergeMode.CUSTOM or bool(self.merge_rules.partial_update)

    def says_deletes(self, columns: Collection[str]) -> bool:
        """Return whether one of these columns marks deleted rows."""
        return IS_DELETED in columns or self.merge_rules.delete_column in columns

    @property
    def several_formats(self) -> bool:
        """Whether the table may have base files of several formats."""
        return self.raw.get("hoodie.table.multiple.base.file.formats.enable", "").strip().lower() == "true"

    @property
    def is_partitioned(self) -> bool:
        """Whether the table has partition columns."""
        return bool(self.partition_fields)

    @property
    def generates_keys(self) -> bool:
        """Whether rows get generated keys, because the table has no key columns."""
        return not self.record_key_fields

    @property
    def may_prefix_keys(self) -> bool:
        """Whether record keys may have the form ``column:value``: Hudi 1.1 writes such keys with a COMPLEX generator over one column."""
        return self.keygenerator_type is KeyGenerator.COMPLEX and len(self.record_key_fields) == 1

    @property
    def prefixes_new_keys(self) -> bool:
        """Say whether new record keys have the form ``column:value`` if no row of the table shows the form."""
        return self.may_prefix_keys and self.index_version == V2

    @property
    def was_raised(self) -> bool:
        """Whether the table may have been raised from version 6 or older. Then its logs and archived files can have names of that version."""
        initial = self.raw.get("hoodie.table.initial.version", "").strip()
        return not (re.fullmatch("[0-9]{1,9}", initial) and int(initial) >= 8)

    @property
    def raised_at(self) -> str:
        """The requested time of the upgrade, if this package raised the table from version 6; empty if not."""
        return self.raw.get(RAISED_AT, "")

    @property
    def before_raised(self) -> TableConfig:
        """Return the configuration of the table in version 6, to merge slices that have only logs of that version."""
        return self.with_properties({"hoodie.table.version": "6", "hoodie.timeline.layout.version": "1"})

    @property
    def identifying_fields(self) -> tuple[str, ...]:
        """The columns that identify a row: the key columns, or the meta column of record keys if these are generated."""
        return self.record_key_fields or (RECORD_KEY,)

    @property
    def naming_fields(self) -> tuple[str, ...]:
        """The columns that name a row in the table: the identifying columns and the partition columns, each once."""
        return tuple(dict.fromkeys((*self.identifying_fields, *self.partition_fields)))

    def merged_by(self, older_law: str | None) -> TableConfig:
        """Return the configuration for a reader with a chosen law for tables up to version 6 (`OLDER_LAW`).

        The law does not affect later versions.
        """
        if older_law is None or self.timeline_layout > 1 or self.raw.get(OLDER_LAW) == older_law:
            return self
        return self.with_properties({OLDER_LAW: older_law})

    def to_properties(self) -> dict[str, str]:
        """Return every property for storing, unknown ones included."""
        return dict(self.raw)

    def with_properties(self, changes: Mapping[str, str | None], *, table: str = "") -> TableConfig:
        """Return the configuration with changed properties (None removes one), and a new checksum."""
        changed = {key: value for key, value in {**self.raw, **changes}.items() if value is not None}
        changed[CHECKSUM] = checksum(changed)
        return TableConfig.from_properties(changed, table=table)

    def __reduce__(self) -> tuple[object, ...]:
        # A mapping proxy cannot be pickled, and a Spark worker rebuilds the view cheaply.
        return (_from_raw, (dict(self.raw),))


@lru_cache(maxsize=64)
def _typed(items: tuple[tuple[str, str], ...], table: str) -> TableConfig:
    """Return the configuration of these properties. Cached, because every operation reads the file again, and it rarely changes."""
    props = dict(items)
    if props.get(DROPPING):
        raise TableHalfDroppedError(
            f"The drop {props[DROPPING]} has begun to delete this table, and has not ended",
            table=table, path=_PATH, instant=props[DROPPING],
            hint="If its process is gone, hudi.drop_table(location) or `pyhudi drop LOCATION` finishes it.",
        )  # fmt: skip
    view = _View(props, table)
    view.check_readable()
    ordering = view.fields("hoodie.table.ordering.fields") or view.fields("hoodie.table.precombine.field")
    partitions = view.fields("hoodie.table.partition.fields")
    named = view.word(MODE, MergeMode.__members__, "") if props.get(MODE, "").strip() else ""
    view.word(PARTIAL_MODE, [IGNORE_DEFAULTS, FILL_UNAVAILABLE, "NONE"], "NONE")
    mode, strategy, payload = merging_of(props, named, bool(ordering))
    layout = _LAYOUTS[props["hoodie.table.version"].strip()]
    return TableConfig(
        name=props[NAME],
        database=props.get(DATABASE, ""),
        table_type=TableType(view.word("hoodie.table.type", [kind.value for kind in TableType], "COPY_ON_WRITE")),
        record_key_fields=view.fields("hoodie.table.recordkey.fields"),
        partition_fields=tuple(field.partition(":")[0] for field in partitions),
        partition_types=tuple((field.partition(":")[2] or "SIMPLE").upper() for field in partitions),
        ordering_fields=ordering,
        keygenerator_type=_key_generator(props, len(partitions)),
        merge_mode=mode,
        merge_strategy_id=strategy,
        payload_class=payload,
        merge_rules=rules_of(props),
        base_file_format=first(props, _BASE_FORMAT, "PARQUET").upper(),
        populate_meta_fields=view.flag(POPULATE, True),
        operation_field=view.flag(OPERATION_FIELD, False),
        hive_style_partitioning=view.flag("hoodie.datasource.write.hive_style_partitioning", False),
        url_encode_partitioning=view.flag("hoodie.datasource.write.partitionpath.urlencode", False),
        drop_partition_columns=False,
        metafile_in_base_format=view.flag("hoodie.partition.metafile.use.base.format", False),
        timeline_timezone=view.word("hoodie.table.timeline.timezone", ["LOCAL", "UTC"], "LOCAL"),
        cdc_enabled=view.flag("hoodie.table.cdc.enabled", False),
        cdc_mode=CdcMode(view.word(_CDC_MODE, [mode.value for mode in CdcMode], "DATA_BEFORE_AFTER")),
        metadata_partitions=view.fields(METADATA_PARTITIONS),
        metadata_partitions_inflight=view.fields(METADATA_PARTITIONS_INFLIGHT),
        create_schema=props.get("hoodie.table.create.schema") or None,
        timeline_path=view.folder("hoodie.timeline.path", "timeline") if layout > "1" else "",
        history_path=view.folder(*_HISTORY[layout]),
        bootstrap_base_path=props.get("hoodie.bootstrap.base.path") or None,
        index_defs_path=view.folder(INDEX_DEFINITIONS, ".hoodie/.index_defs/index.json"),
        prefix_width=view.number(PREFIX_WIDTH, 0, 0, 8),
        prefix_depth=view.number(PREFIX_DEPTH, 1, 1, 4),
        rules=view.rules(),
        raw=MappingProxyType(props),
    )


def rules_said_by(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties that contain rules for rows."""
    return {key: value for key, value in properties.items() if key.startswith(PREFIX) and not key.startswith(COMMENT)}


def _from_raw(raw: dict[str, str]) -> TableConfig:
    return TableConfig.from_properties(raw, table="")


_BASE_FORMAT = ("hoodie.table.base.file.format", "hoodie.table.ro.file.format")
_HISTORY = {"1": ("hoodie.archivelog.folder", "archived"), "2": ("hoodie.timeline.history.path", "history")}
"""The property that names the folder of the archived timeline of a layout, and its default."""
_CDC_MODE = "hoodie.table.cdc.supplemental.logging.mode"


@dataclass(frozen=True, slots=True)
class _View:
    """Typed access to the properties of one table."""

    props: Mapping[str, str]
    table: str

    def check_readable(self) -> None:
        version = self.props.get("hoodie.table.version", "").strip()
        if version not in _LAYOUTS:
            raise self._version_error(version)
        if not self.props.get(NAME):
            raise self._corrupt(f"{NAME} is missing")
        if not verify(self.props):
            raise self._corrupt(
                f"{CHECKSUM} is {self.props[CHECKSUM]}, but the table's name gives {checksum(self.props)}"
            )
        layout = self.props.get("hoodie.timeline.layout.version", "")
        if layout.strip() != _LAYOUTS[version]:
            has = f"version {version} has {_LAYOUTS[version]}"
            raise self._unsupported(f"hoodie.timeline.layout.version is {layout or 'missing'}; {has}")
        base_format = first(self.props, _BASE_FORMAT, "PARQUET").upper()
        if base_format not in ("PARQUET", "ORC", "HFILE"):
            raise self._unsupported(f"base files of format {base_format} (hoodie.table.base.file.format)")
        for key, what in _REFUSED.items():
            if self.flag(key, False):
                raise self._unsupported(f"{what} ({key}=true)")

    def fields(self, key: str) -> tuple[str, ...]:
        found = tuple(part for part in (part.strip() for part in self.props.get(key, "").split(",")) if part)
        if len(found) > _MOST_NAMES:
            raise self._corrupt(f"{key} has {len(found):,} names, more than {_MOST_NAMES:,}")
        return found

    def flag(self, key: str, default: bool) -> bool:
        return self.word(key, ["TRUE", "FALSE"], str(default).upper()) == "TRUE"

    def word(self, key: str, choices: Iterable[str], default: str) -> str:
        value = self.props.get(key, "").strip().upper() or default
        if value not in choices:
            raise self._corrupt(f"{key} is {self.props[key][:80]!r}, not one of {', '.join(choices)}")
        return value

    def number(self, key: str, default: int, least: int, most: int) -> int:
        text = self.props.get(key, "").strip() or str(default)
        if not re.fullmatch(r"[0-9]{1,9}", text) or not least <= int(text) <= most:
            raise self._corrupt(f"{key} is {text[:80]!r}, not a number from {least} to {most}")
        return int(text)

    def rules(self) -> TableRules:
        self.number(EXPIRE, 0, 0, MOST_DAYS)
        try:
            return TableRules.of(self.props)
        except InvalidOptionError as error:
            raise self._corrupt(f"A rule of the table cannot be: {error.message}") from error

    def folder(self, key: str, default: str) -> str:
        path = self.props.get(key, "").strip().rstrip("/")
        if self.table:
            path = path.removeprefix(f"{self.table.rstrip('/')}/")
        try:
            return safe_relative_path(path or default)
        except UnsafePathError as error:
            raise UnsafePathError(
                f"{key}: {error.message}", table=self.table or None, path=_PATH, hint=error.hint
            ) from None

    def _version_error(self, version: str) -> TableVersionError:
        found = version or "missing"
        what = f"the table has version {version[:20]}" if version else "hoodie.table.version is missing"
        hint = _VERSION_HINTS.get(version, f"Versions 3 to 6, 8 and 9 are read, 8 and 9 are written. {NO_UPGRADE}")
        return TableVersionError(what, found=found, table=self.table or None, path=_PATH, hint=hint)

    def _corrupt(self, message: str) -> CorruptPropertiesError:
        hint = "Restore the file from hoodie.properties.backup or from a copy of the table"
        return CorruptPropertiesError(message, table=self.table or None, path=_PATH, hint=hint)

    def _unsupported(self, feature: str) -> UnsupportedTableError:
        hint = "Nothing was read or written; use Apache Hudi for this table, or copy it into a new one"
        return UnsupportedTableError(f"not supported: {feature}", table=self.table or None, path=_PATH, hint=hint)


_REFUSED = {
    "hoodie.datasource.write.drop.partition.columns": "drop.partition.columns, partition columns left out of data files",
}

_OLDER_ONLY_READ = (
    "Raise it to version 8 with table.upgrade() or `pyhudi upgrade LOCATION` (--plan shows before what that takes); or write with the release of"
    " Hudi that wrote it (0.14, 0.15)."
)
_VERSION_HINTS = {
    "": f"Set it to 8 if Hudi 1.0 wrote the table; newer releases treat such a table as version 9. {NO_UPGRADE}",
    **dict.fromkeys("012", "Raise it to version 6 with Hudi 0.15, which reads it; then open it again"),
}


def _key_generator(props: Mapping[str, str], partitions: int) -> KeyGenerator:
    named = re.sub(r"_AVRO$", "", props.get("hoodie.table.keygenerator.type", "").strip().upper())
    if named:
        return KeyGenerator(named) if named in KeyGenerator.__members__ else KeyGenerator.OTHER
    if given := props.get("hoodie.table.keygenerator.class", "").strip():
        return _of_class(props, given)
    keys = len([field for field in props.get("hoodie.table.recordkey.fields", "").split(",") if field.strip()])
    if not partitions:
        return KeyGenerator.NON_PARTITION
    return KeyGenerator.SIMPLE if keys <= 1 and partitions == 1 else KeyGenerator.COMPLEX


_CLASSES = {
    "SimpleKeyGenerator": KeyGenerator.SIMPLE,
    "ComplexKeyGenerator": KeyGenerator.COMPLEX,
    "NonpartitionedKeyGenerator": KeyGenerator.NON_PARTITION,
    "TimestampBasedKeyGenerator": KeyGenerator.TIMESTAMP,
    "GlobalDeleteKeyGenerator": KeyGenerator.GLOBAL_DELETE,
    "HoodieTableMetadataKeyGenerator": KeyGenerator.HOODIE_TABLE_METADATA,
}
"""Hudi's key generators, by their class in tables up to version 6.

The class for CUSTOM is missing: such a table does not show how its folders are made.
"""
CLASS_OF: Mapping[KeyGenerator, str] = {
    kind: name for name, kind in _CLASSES.items() if kind is not KeyGenerator.HOODIE_TABLE_METADATA
}
"""The names that a table of version 6 can have."""


def _of_class(props: Mapping[str, str], name: str) -> KeyGenerator:
    if _LAYOUTS[props["hoodie.table.version"].strip()] > "1":
        return KeyGenerator.OTHER
    short = name.rpartition(".")[2].replace("AvroKeyGenerator", "KeyGenerator")
    return _CLASSES.get(short, KeyGenerator.OTHER)
