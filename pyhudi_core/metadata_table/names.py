"""Partitions of the metadata table, and their keys.

Specification, "Metadata Table", corrected by tables of releases 1.0 to 1.2: hashes are xxHash64 with Hudi's seed in Base64, file names are hashed
by MD5. Java's hash of a key's text chooses the file group of the key: the hash gives the number in the group's id, so no number may be missing.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from pyhudi_core.errors import CorruptHFileError
from pyhudi_core.file_groups.slice import SlicePiece
from pyhudi_core.formats.byte_columns import contents
from pyhudi_core.model.properties import TableConfig
from pyhudi_core.opened_table.table_context import METADATA_TABLE
from pyhudi_core.transaction import layout

FOLDER = METADATA_TABLE
FILES = "files"
COLUMN_STATS = "column_stats"
PARTITION_STATS = "partition_stats"
BLOOM_FILTERS = "bloom_filters"
RECORD_INDEX = "record_index"
SECONDARY_INDEX_PREFIX = "secondary_index_"
EXPRESSION_INDEX_PREFIX = "expr_index_"
ALL_PARTITIONS = "__all_partitions__"
NON_PARTITIONED = "."
PARTITION_STAT = "__partition_stat__"
INITIAL_INSTANTS = layout.INITIAL_INSTANTS
REBUILD = (
    "`pyhudi metadata LOCATION rebuild` makes the metadata table again. Hudi's next writer does it if hoodie.table.metadata.partitions does not name"
    " the partition, and hoodie.metadata.enable is true, its default."
)
"""The advice for a damaged metadata table."""
SAME_FORM = frozenset({FILES, BLOOM_FILTERS, RECORD_INDEX})
"""Partitions without values of rows."""
_NOT_ASCII = 0x80
_FEW = 32  # a step over an array costs as much as some hundred characters
_SEED = 0xFFFFFFFFDABADABA


def readable_partitions(config: TableConfig) -> tuple[str, ...]:
    """Return the partitions of the metadata table that reads use.

    Statistics and secondary indexes of a bootstrapped table do not contain the rows in its source, so they are omitted. Reads then use Parquet's
    statistics, and find the same rows.
    """
    listed = config.metadata_partitions
    if not config.reads_metadata_table:
        return tuple(name for name in listed if name == FILES) if config.reads_list_of_files else ()
    if config.bootstrap_base_path is None:
        return listed
    return tuple(name for name in listed if name in SAME_FORM)


def is_build(requested_time: str) -> bool:
    """Say whether an instant of the metadata table built a partition for the first time.

    In version 6, a suffix of 010 or more after another time shows this.
    """
    is_older = len(requested_time) == _WITH_SUFFIX and requested_time[-3:] >= _FIRST_BUILD
    return is_older or requested_time.startswith(INITIAL_INSTANTS)


_WITH_SUFFIX, _FIRST_BUILD = 20, "010"


def partition_name(partition: str) -> str:
    """Return the name of a data table's partition in the metadata table."""
    return partition or NON_PARTITIONED


def partition_path(name: str) -> str:
    """Return the partition path that a name in the metadata table means: the inverse of `partition_name`."""
    return "" if name == NON_PARTITIONED else name


def name_hash(text: str) -> str:
    """Return twelve characters for a column or partition."""
    return base64.b64encode(xxhash.xxh64(text.encode("utf-8"), seed=_SEED).digest()).decode()


def file_hash(name: str) -> str:
    """Return twenty-four characters for a file name."""
    return base64.b64encode(hashlib.md5(name.encode("utf-8"), usedforsecurity=False).digest()).decode()


def column_stats_key(column: str, partition: str, file_name: str = "") -> str:
    """Return the key of a file's statistics; without a file name the prefix of all files of the partition."""
    return name_hash(column) + name_hash(partition_name(partition)) + (file_hash(file_name) if file_name else "")


def partition_stats_key(column: str, partition: str) -> str:
    """Return the key of a partition's statistics."""
    return name_hash(column) + name_hash(partition_name(partition))


def expression_partition_key(column: str, partition: str) -> str:
    """Return the key of a partition's statistics in an expression index."""
    return name_hash(column) + name_hash(PARTITION_STAT) + name_hash(partition_name(partition))


def bloom_filter_key(partition: str, file_name: str) -> str:
    """Return the key of a file's bloom filter."""
    return name_hash(partition_name(partition)) + file_hash(file_name)


def secondary_key(secondary: str, record_key: str = "") -> str:
    """Return the key of a secondary index entry; without a record key the prefix of all rows with the value."""
    return f"{_escaped(secondary)}${_escaped(record_key)}"


def secondary_keys(values: pa.Array, record_keys: pa.Array) -> pa.Array:
    """Return the keys of the secondary index entries of many rows, computed in columns; texts without nulls."""
    return pc.binary_join_element_wise(_escaped_texts(values), _escaped_texts(record_keys), "$")


def hashed_part(secondary_keys: pa.Array) -> pa.Array:
    """Return the part of each secondary index key (version 2) that chooses its file group: the value, and the separator before the record key."""
    return pc.replace_substring_regex(secondary_keys, r"(?s)^((?:[^\\$]|\\.)*\$).*$", r"\1")


def secondary_prefixes(secondary: str) -> tuple[str, ...]:
    """Return the possible key prefixes of rows with a secondary value. There are several, because only some releases escape the character NUL."""
    return tuple(f"{text}$" for text in escaped_in_secondary_keys(secondary))


def escaped_in_secondary_keys(text: str) -> tuple[str, ...]:
    """Return the possible texts of a value or a record key in the keys of secondary indexes, one for each way of escaping."""
    plain = _escaped(text)
    return (plain,) if "\0" not in text else (plain, plain.replace("\0", "\\\0"))


def record_keys_of(secondary_keys: pa.Array) -> pa.Array:
    """Return the record keys of secondary index entries: the second half of `split_secondary_key`, computed in columns."""
    escaped = pc.replace_substring_regex(secondary_keys, r"(?s)^(?:[^\\$]|\\.)*\$?", "")
    return pc.replace_substring_regex(escaped, r"(?s)\\(.)", r"\1")


def split_secondary_key(key: str) -> tuple[str, str]:
    """Return the secondary value and the record key in an entry's key."""
    at = 0
    while at < len(key) and key[at] != "$":
        at += 2 if key[at] == "\\" else 1
    return _plain(key[:at]), _plain(key[at + 1 :])


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("$", "\\$")


def _escaped_texts(texts: pa.Array) -> pa.Array:
    return pc.replace_substring(pc.replace_substring(texts, "\\", "\\\\"), "$", "\\$")


def _plain(text: str) -> str:
    out: list[str] = []
    at = 0
    while at < len(text):
        at += text[at] == "\\"
        out.append(text[at : at + 1])
        at += 1
    return "".join(out)


def file_groups_of(keys: Sequence[str], groups: int) -> npt.NDArray[np.int64]:
    """Return the numbers of the file groups of these keys, given the number of file groups."""
    return file_groups_of_texts(pa.array(keys, pa.string()), groups)


def file_groups_of_texts(keys: pa.Array, groups: int) -> npt.NDArray[np.int64]:
    """Return the numbers as `file_groups_of`, for a column of keys, without a Python object per key."""
    if groups == 1:
        return np.zeros(len(keys), np.int64)
    # Java's abs of the smallest int is that int itself, and its remainder keeps the sign; the sign goes in the end.
    return np.abs(np.abs(java_hashes(keys).astype(np.int32).astype(np.int64)) % groups)


def java_hashes(keys: pa.Array) -> npt.NDArray[np.uint32]:
    """Return Java's hash of each text. For more than a few texts this is vectorised over texts with equally many UTF-16 units."""
    if len(keys) <= _FEW:
        return np.array([_java_hash(text) for text in keys.cast(pa.binary()).to_pylist()], np.uint32)
    data, lengths = contents(keys)
    if (data >= _NOT_ASCII).any():
        # A character of four bytes is two UTF-16 units; any other one is one, and has one byte that does not continue it.
        units = np.frombuffer(
            data.tobytes().decode("utf-8", "surrogatepass").encode("utf-16-le", "surrogatepass"), np.uint16
        )
        weights = ((data & 0xC0) != 0x80).astype(np.int64) + (data >= 0xF0)
        ends = np.concatenate(([0], np.cumsum(weights)))[np.cumsum(lengths)]
        lengths = np.diff(ends, prepend=0)
    else:
        units = data.astype(np.uint16)
    begins = np.cumsum(lengths) - lengths
    found = np.empty(len(keys), np.uint32)
    for size in np.unique(lengths).tolist():
        which = np.flatnonzero(lengths == size)
        value = np.zeros(len(which), np.uint32)
        for column in range(size):
            value = value * np.uint32(31) + units[begins[which] + column]
        found[which] = value
    return found


def _java_hash(text: bytes) -> int:
    found = 0
    units: Iterable[int] = text
    if not text.isascii():
        wide = text.decode("utf-8", "surrogatepass").encode("utf-16-le", "surrogatepass")
        units = np.frombuffer(wide, np.uint16).tolist()
    for unit in units:
        found = (found * 31 + unit) & 0xFFFFFFFF
    return found


_NUMBERED = re.compile(r"(?P<family>.+?)-(?P<number>\d{4,})(-\d+)?")


def families_of(partition: str, pieces: Sequence[SlicePiece]) -> dict[str, list[SlicePiece]]:
    """Return the families of file groups over which keys are hashed, each in the order of its numbers.

    ``record-index-0003-0`` is number 3 of ``record-index``; release 0.11 wrote no last number. A record index by partition has a family for each
    partition, such as ``record-index-day=1``. Raises `CorruptHFileError` if a number is missing: then keys would be searched in wrong file groups.
    """
    families: dict[str, dict[int, SlicePiece]] = defaultdict(dict)
    for piece in pieces:
        found = _NUMBERED.fullmatch(piece.file_id)
        if found is None:
            raise damage(partition, f"has a file group without a number: {piece.file_id}")
        families[found["family"]][int(found["number"])] = piece
    for family, numbered in families.items():
        for wanted, number in enumerate(sorted(numbered)):
            if number != wanted:  # a name can have any number
                raise damage(partition, f"lacks the file group {family}-{wanted:04d}")
    if not families:
        raise damage(partition, "has no file groups")
    return {family: [numbered[number] for number in sorted(numbered)] for family, numbered in families.items()}


def damage(partition: str, what: str) -> CorruptHFileError:
    """Return the error for a listed partition whose files are wrong. ``what``: the damage, as a clause."""
    return CorruptHFileError(
        f"A partition of the metadata table is listed but {what}",
        path=f"{FOLDER}/{partition}",
        hint=REBUILD,
    )
