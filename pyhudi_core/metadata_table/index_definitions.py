"""The indexes that a table defines (``hoodie.table.index.defs.path``, a JSON file): their functions and columns.

The file only makes reads faster, so a damaged or far too large one is ignored with a warning.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyhudi_core.errors import ObjectNotFoundError
from pyhudi_core.metadata_table.names import COLUMN_STATS, EXPRESSION_INDEX_PREFIX, RECORD_INDEX
from pyhudi_core.model.printing import printable
from pyhudi_core.model.properties import V1, V2
from pyhudi_core.storage.base import Storage

_MOST_BYTES = 4 << 20
_OF_THE_TABLE = frozenset({COLUMN_STATS, RECORD_INDEX})
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
@printable
class IndexDefinition:
    """One index.

    Attributes:
        name: the partition of the metadata table.
        kind: ``column_stats``, ``bloom_filters``, ``secondary_index``, ``record_index``.
        function: the function of the column, such as ``lower``; ``identity`` for none.
        column: the first source column; empty if there is none.
        options: such as ``format`` of ``from_unixtime``.
        more: the other source columns.
        version: the version of the index's form; empty in release 1.0, which has only one form.
    """

    name: str
    kind: str
    function: str
    column: str
    options: Mapping[str, str]
    more: tuple[str, ...] = ()
    version: str = ""

    @property
    def is_expression(self) -> bool:
        """Whether the index keeps statistics of a function of a column."""
        return self.name.startswith(EXPRESSION_INDEX_PREFIX)

    def __str__(self) -> str:
        """Return the partition, and the indexed column or expression."""
        columns = ", ".join((self.column, *self.more))
        on = columns if self.function.lower() in ("", "identity") else f"{self.function}({columns})"
        return f"{self.name} (on {on})" if columns else self.name

    def says_the_same(self, other: IndexDefinition) -> bool:
        """Say whether both indexes store the same values.

        Definitions of different programs differ in the case of types, and in options without effect.
        """
        mine, its = (
            (one.kind.lower(), one.function.lower(), one.column, one.more, one.options.get("format"))
            for one in (self, other)
        )
        return mine == its


def read_definitions(storage: Storage, path: str) -> tuple[IndexDefinition, ...]:
    """Return the indexes that a table defines; none if the file is missing or unreadable."""
    try:
        info = storage.head(path)
        if info is None:
            return ()
        if info.size > _MOST_BYTES:
            raise ValueError(f"it has {info.size:,} bytes")
        found = json.loads(storage.get(path))["indexDefinitions"].values()
        return tuple(_definition(item) for item in found)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, ObjectNotFoundError) as error:
        _log.warning("the index definitions of %s in %s are passed over: %s", storage.location, path, error)
        return ()


def of_statistics(columns: Sequence[str], version: str) -> IndexDefinition:
    """Return the definition of the column statistics, which Hudi's data skipping needs. ``version``: `TableConfig.index_version`."""
    said = _said(version)
    return IndexDefinition(COLUMN_STATS, COLUMN_STATS, COLUMN_STATS, columns[0], {}, tuple(columns[1:]), said)


def of_record_index(version: str) -> tuple[IndexDefinition, ...]:
    """Return the definition of the record index; none if the table's version needs none."""
    if not _said(version):
        return ()
    return (IndexDefinition(RECORD_INDEX, RECORD_INDEX, "", "", {"isPartitioned": "false"}, version=V1),)


def _said(version: str) -> str:
    """Return the version in the definition of a table-wide index; empty for the first version, because some releases have only that one."""
    return "" if version == V1 else version


def statistics_version(definitions: Iterable[IndexDefinition]) -> str:
    """Return the version of the column statistics. Statistics of partitions have the same version, and no definition of their own."""
    return next((item.version for item in definitions if item.name == COLUMN_STATS), "") or V2


def changed_definitions(
    known: bytes | None, added: Sequence[IndexDefinition] = (), removed: Sequence[str] = ()
) -> bytes:
    """Return the definitions with the additions, and without the removed names.

    ``known``: the bytes of the file, None if there is none. If they cannot be read, the result replaces them.
    """
    try:
        found = json.loads(known or b"{}")
        others = dict(found.get("indexDefinitions") or {})
    except (ValueError, TypeError, AttributeError, RecursionError):
        found, others = {}, {}
    kept = {name: item for name, item in others.items() if name not in removed}
    made = {
        item.name: {
            "indexName": item.name,
            "indexType": item.kind,
            "indexFunction": item.function,
            "sourceFields": [item.column, *item.more] if item.column else [],
            "indexOptions": dict(item.options),
            **({"version": item.version} if item.version else {}),
        }
        for item in added
    }
    whole = {**found, "indexDefinitions": {**kept, **made}}
    return json.dumps(whole, indent=2, separators=(",", " : ")).encode()


def with_versions(known: bytes) -> bytes:
    """Return the definitions, each with its version. Table version 9 requires a version; for a definition of version 8 it is `V1`.

    Raises `ValueError` for bytes that are not definitions.
    """
    try:
        found = json.loads(known)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    if not isinstance(found, dict) or not isinstance(found.get("indexDefinitions"), dict):
        raise ValueError("the file has no indexDefinitions")
    if not all(isinstance(item, dict) for item in found["indexDefinitions"].values()):
        raise ValueError("a definition is no object")
    named = {name: {"version": V1, **item} for name, item in found["indexDefinitions"].items()}
    return json.dumps({**found, "indexDefinitions": named}, indent=2, separators=(",", " : ")).encode()


def _definition(item: Mapping[str, Any]) -> IndexDefinition:
    fields = item.get("sourceFields") or [""]
    options = {str(key): str(value) for key, value in (item.get("indexOptions") or {}).items()}
    return IndexDefinition(
        str(item["indexName"]),
        str(item.get("indexType") or ""),
        str(item.get("indexFunction") or options.get("expr") or "identity"),
        str(fields[0]),
        options,
        () if item.get("indexType") in _OF_THE_TABLE else tuple(map(str, fields[1:])),
        str(item.get("version") or ""),
    )
