"""Convert partition values to the folder of a row, and back.

Format reference: timeline 6.3. A null or empty value is ``__HIVE_DEFAULT_PARTITION__``; hive style writes ``field=value``;
url encoding writes special characters as ``%XX``; ``/`` joins several fields. A table can distribute its partitions over prefix folders
(``3f/day=2026-01-01``), which depend on a hash of the path, so that every writer chooses the same folder.

Invariants
- for every value, the path is below the table's folder and outside ``.hoodie``; otherwise an error is raised before anything is written;
- different values give different paths, except that null, "" and the text ``__HIVE_DEFAULT_PARTITION__`` share one path.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from pyhudi_core.errors import InvalidPartitionValueError, UnsafePathError, UnsupportedTableError
from pyhudi_core.lazy import lazy
from pyhudi_core.model.key_text import as_text, key_column, text_problem, without_dictionary
from pyhudi_core.model.properties import KeyGenerator, TableConfig
from pyhudi_core.model.safe_path import safe_relative_path
from pyhudi_core.model.timestamp_partitions import TimestampFolders

if TYPE_CHECKING:
    import hashlib

    import pyarrow.compute as pc
else:
    hashlib, pc = lazy("hashlib"), lazy("pyarrow.compute")

__all__ = [
    "DEFAULT_PARTITION",
    "escaped",
    "full_partition",
    "parse_partition",
    "parse_partition_path",
    "partition_path",
    "partition_paths",
    "random_prefix",
    "safe_relative_path",
    "unescaped",
]

DEFAULT_PARTITION = "__HIVE_DEFAULT_PARTITION__"
SEGMENT_LIMIT = 255
"""The maximum UTF-8 bytes of a folder name, as POSIX file systems have it."""

_SPECIAL = re.compile(r"[\x00-\x1f\x7f\"#%'*/:=?\\{\[\]^]")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_ENCODED = re.compile(r"%([0-9a-fA-F]{2})")
_RESERVED = (".", "..", ".hoodie")


def partition_path(fields: Sequence[str], values: Sequence[str | None], hive_style: bool, url_encode: bool) -> str:
    """Return the folder of a row, relative to the table; "" if the table has no partition fields.

    Args:
        fields: partition columns.
        values: their values as text, in the same order.
        hive_style: write ``field=value``.
        url_encode: write special characters as ``%XX``.

    Raises:
        InvalidPartitionValueError: a value cannot be a safe folder name.
    """
    pairs = zip(fields, values, strict=True)
    return "/".join(_segment(field, value, hive_style, url_encode) for field, value in pairs)


def partition_paths(batch: pa.RecordBatch, config: TableConfig) -> pa.Array:
    """Return the folder of every row as a string array, prefix folders included. Computes each distinct value once.

    Raises:
        InvalidPartitionValueError: a column is missing, its type has no agreed text, or a value cannot be a safe folder name.
        UnsupportedTableError: this package does not write with the key generator, or with a property of it.
    """
    if not config.is_partitioned:
        return pa.repeat("", len(batch))
    times = _times(config)
    segments = [
        _timed_segments(batch, field, config) if time else _segments(batch, field, config)
        for field, time in zip(config.partition_fields, times, strict=True)
    ]
    paths = segments[0] if len(segments) == 1 else pc.binary_join_element_wise(*segments, "/")
    if not config.prefix_width:
        return paths
    encoded = paths.dictionary_encode()
    known = encoded.dictionary.to_pylist()
    prefixed = [f"{random_prefix(path, config.prefix_width, config.prefix_depth)}/{path}" for path in known]
    return pa.array(prefixed, pa.string()).take(encoded.indices)


def escaped(text: str) -> str:
    """Return a text with each special character replaced by ``%XX``, as Hudi encodes folders and Hive names partitions."""
    return _SPECIAL.sub(lambda match: f"%{ord(match.group()):02X}", text)


def unescaped(text: str) -> str:
    """Return a text with each ``%XX`` replaced by the character that it encodes."""
    return _ENCODED.sub(lambda match: chr(int(match.group(1), 16)), text)


def random_prefix(path: str, width: int = 2, depth: int = 1) -> str:
    """Return the prefix folders of a partition: one to ``depth`` folders of ``width`` hexadecimal digits, always the same for one path."""
    digest = hashlib.sha256(path.encode()).hexdigest()
    levels = 1 + int(digest[:8], 16) % depth
    return "/".join(digest[8 + width * level : 8 + width * (level + 1)] for level in range(levels))


def full_partition(name: str, config: TableConfig) -> str:
    """Return the folder of a partition, given with or without its prefix folders."""
    if not config.prefix_width or len(name.split("/")) != len(config.partition_fields):
        return name
    return f"{random_prefix(name, config.prefix_width, config.prefix_depth)}/{name}"


def parse_partition_path(
    path: str, fields: Sequence[str], hive_style: bool, url_encode: bool
) -> tuple[str | None, ...] | None:
    """Return the values of a partition folder as text, the inverse of ``partition_path``.

    A value is None for the default partition, which holds null and "". The result is None if the folder does not show its values, for example if a
    value has a slash and is not url-encoded. Prefix folders are skipped in hive style.
    """
    if not fields:
        return () if path == "" else None
    segments = path.split("/")
    if hive_style:
        segments = segments[-len(fields) :]
        if len(segments) != len(fields) or not all(map(str.startswith, segments, (f"{field}=" for field in fields))):
            return None
        segments = [segment[len(field) + 1 :] for segment, field in zip(segments, fields, strict=True)]
    elif len(segments) != len(fields):
        return None
    return tuple(_value(segment, url_encode) for segment in segments)


def parse_partition(path: str, config: TableConfig) -> tuple[str | None, ...] | None:
    """Return ``parse_partition_path`` for a folder of a table, without prefix folders; None if the folders are not column values."""
    if not values_are_columns(config):
        return None
    if config.prefix_width:
        path = "/".join(path.split("/")[-len(config.partition_fields) :])
    return parse_partition_path(
        path, config.partition_fields, config.hive_style_partitioning, config.url_encode_partitioning
    )


def values_are_columns(config: TableConfig) -> bool:
    """Say whether the partition folders show the values of the partition columns. (With a timestamp key generator, they show formatted values.)"""
    known = (KeyGenerator.SIMPLE, KeyGenerator.COMPLEX, KeyGenerator.CUSTOM, KeyGenerator.NON_PARTITION)
    return config.keygenerator_type in known and set(config.partition_types) <= {"SIMPLE"}


def _times(config: TableConfig) -> tuple[bool, ...]:
    """Return for each partition field whether its folders are formatted times. Raises `UnsupportedTableError` for unknown key generators."""
    if values_are_columns(config):
        return (False,) * len(config.partition_fields)
    alone = config.keygenerator_type is KeyGenerator.TIMESTAMP
    fits = len(config.record_key_fields) == len(config.partition_fields) == 1 if alone else True
    if not fits or not (alone or config.keygenerator_type is KeyGenerator.CUSTOM):
        raise UnsupportedTableError(
            f"not supported: writing with the {config.keygenerator_type.value} key generator",
            hint="It is not known how its keys and folders are made; write to this table with Apache Hudi",
        )
    unknown = set(config.partition_types) - {"SIMPLE", "TIMESTAMP"}
    if unknown:
        raise UnsupportedTableError(
            f"not supported: writing to partition fields of the kind {', '.join(sorted(unknown))}",
            hint="SIMPLE and TIMESTAMP are Hudi's own; write to this table with Apache Hudi",
        )
    return tuple(alone or kind == "TIMESTAMP" for kind in config.partition_types)


def _timed_segments(batch: pa.RecordBatch, field: str, config: TableConfig) -> pa.Array:
    """Return the folders that are formatted times; a slash in the format makes nested folders, unless folders are encoded."""
    column = key_column(batch, field)
    if column is None:
        raise _without_column(batch, field)
    encoded = without_dictionary(column).dictionary_encode(null_encoding="encode")
    style = config.hive_style_partitioning, config.url_encode_partitioning
    texts = TimestampFolders.of(config.raw).folders(encoded.dictionary, field).to_pylist()
    if style[1]:
        folders = [_segment(field, text, *style) for text in texts]
    else:
        folders = [safe_relative_path(f"{field}={text}" if style[0] else text) for text in texts]
    return pa.array(folders, pa.string()).take(encoded.indices)


def _without_column(batch: pa.RecordBatch, field: str) -> InvalidPartitionValueError:
    return InvalidPartitionValueError(
        f"the data has no partition column {field!r}; it has {', '.join(batch.schema.names[:20])}",
        hint="Add the column; every row needs its partition",
    )


def _segments(batch: pa.RecordBatch, field: str, config: TableConfig) -> pa.Array:
    column = key_column(batch, field)
    if column is None:
        raise _without_column(batch, field)
    problem = text_problem(column.type, timestamps=False)
    if problem is not None:
        raise InvalidPartitionValueError(
            f"the partition column {field!r} has the type {column.type}: {problem}",
            hint="Partition by a string, integer, boolean, decimal or date column",
        )
    if not pa.types.is_dictionary(column.type):
        column = as_text(column) if pa.types.is_null(column.type) else column
        column = column.dictionary_encode()
    values = as_text(column.dictionary).to_pylist()
    style = config.hive_style_partitioning, config.url_encode_partitioning
    folders = [_segment(field, value, *style) for value in values]
    default = _segment(field, None, *style)
    return pc.fill_null(pa.array(folders, pa.string()).take(column.indices), default)


def _segment(field: str, value: str | None, hive_style: bool, url_encode: bool) -> str:
    text = value or DEFAULT_PARTITION
    if text in _RESERVED or "\0" in text:
        raise _invalid(field, text, "is not a safe folder name", "Replace it in the data")
    if url_encode:
        text = escaped(text)
    elif "/" in text:
        raise _invalid(field, text, "holds a slash, which would make a folder of its own", _USE_ENCODING)
    elif _CONTROL.search(text):
        raise _invalid(field, text, "holds a control character", _USE_ENCODING)
    segment = f"{field}={text}" if hive_style else text
    if segment.startswith(".hoodie"):
        raise _invalid(field, text, "would be one of Hudi's own files", "Replace it in the data, or use hive style")
    try:
        size = len(segment.encode())
    except UnicodeEncodeError:
        raise _invalid(
            field, repr(text), "holds an incomplete character (a lone surrogate)", "Replace it in the data"
        ) from None
    if size > SEGMENT_LIMIT:
        what = f"makes a folder name of {size} bytes, more than {SEGMENT_LIMIT}"
        raise _invalid(field, text, what, "Partition by a shorter column, such as a date or a hash")
    try:
        return safe_relative_path(segment)
    except UnsafePathError as error:
        raise _invalid(field, text, f"makes a path that {error.message.split(' ', 3)[-1]}", _USE_ENCODING) from None


_USE_ENCODING = "Replace it in the data, or create the table with hoodie.datasource.write.partitionpath.urlencode=true"


def _invalid(field: str, value: str, what: str, hint: str) -> InvalidPartitionValueError:
    shown = value if len(value) <= 80 else f"{value[:80]}... ({len(value)} characters)"
    return InvalidPartitionValueError(
        f"the value {shown!r} of partition column {field!r} {what}", hint=f"{hint}. Nothing was written"
    )


def _value(segment: str, url_encode: bool) -> str | None:
    if segment == DEFAULT_PARTITION:
        return None
    return unescaped(segment) if url_encode else segment
