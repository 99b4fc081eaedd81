"""Checks of a write's arguments, and errors for calls of its handle that do not fit its state.

Refusals because of tables and options are in ``write/refusals.py``; errors in rows are found in ``write/prepare.py``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches

from pyhudi_core.errors import InvalidOptionError, PartitionNotFoundError
from pyhudi_core.index.choice import INDEX_KEY
from pyhudi_core.model.commit import (
    BUCKETS_KEY,
    MERGES_KEY,
    METADATA_FILES_KEY,
    ROWS_REPLACED_KEY,
    SCHEMA_KEY,
    WRITER_KEY,
)
from pyhudi_core.model.partition_path import full_partition
from pyhudi_core.model.properties import TableConfig
from pyhudi_core.model.safe_path import is_safe
from pyhudi_core.model.shared_commits import BATCHES_KEY
from pyhudi_core.snapshot.evolution import LATEST_SCHEMA
from pyhudi_core.snapshot.snapshot import Snapshot
from pyhudi_core.transaction.begin import TOKEN_KEY
from pyhudi_core.transaction.group import TRANSACTION_KEY

_NAMED = 5
_OWN_KEYS = (
    SCHEMA_KEY,
    TOKEN_KEY,
    TRANSACTION_KEY,
    BATCHES_KEY,
    ROWS_REPLACED_KEY,
    METADATA_FILES_KEY,
    INDEX_KEY,
    BUCKETS_KEY,
    MERGES_KEY,
    LATEST_SCHEMA,
)


def nothing_written(table: str) -> InvalidOptionError:
    """Return the error for a call that needs a batch."""
    return InvalidOptionError(
        "Nothing was written in this handle yet, or it was rolled back",
        table=table,
        hint="Call write(data) first. After the end of its with block a handle that did not commit is rolled back: begin a new one.",
    )


def nothing_to_change(table: str, reason: str) -> InvalidOptionError:
    """Return the error for a call that needs written files."""
    return InvalidOptionError(
        f"This handle has nothing to change: {reason}",
        table=table,
        hint="Look at would_commit(), or at what commit() returns: it is false then.",
    )


def committed_already(table: str, instant: str) -> InvalidOptionError:
    """Return the error for a second commit of a handle."""
    return InvalidOptionError(
        "This handle has committed already",
        table=table,
        instant=instant or None,
        hint="Begin another write for more data.",
    )


def second_batch(table: str) -> InvalidOptionError:
    """Return the error for a second batch of a handle."""
    return InvalidOptionError(
        "This handle has written its batch already",
        table=table,
        hint="Put all rows into one batch (a RecordBatchReader for streams), or begin another write.",
    )


def checked_partitions(partitions: Sequence[str], config: TableConfig, table: str) -> tuple[str, ...]:
    """Return the folders of the partitions, each once, with their prefix folders.

    Raises `InvalidOptionError` unless the value is a list of paths that is not empty.
    """
    listed = isinstance(partitions, Iterable) and not isinstance(partitions, str | bytes)
    names = tuple(partitions) if listed else ()
    if not names:
        raise InvalidOptionError(
            f"delete_partitions takes a list of partition paths, at least one, not {_shown(partitions)}",
            table=table,
            hint='For example delete_partitions(["day=2026-01-31"]).',
        )
    return tuple(dict.fromkeys(_folder(name, config, table) for name in names))


def _folder(name: str, config: TableConfig, table: str) -> str:
    if not isinstance(name, str) or not is_safe(name) or name.split("/", maxsplit=1)[0] in ("", ".hoodie"):
        raise InvalidOptionError(
            f"{name!r} is not the path of a partition",
            table=table,
            hint="Give paths below the table, such as day=2026-01-31.",
        )
    return full_partition(name, config)


def _shown(given: object) -> str:
    text = repr(given)
    return text if len(text) <= 80 else f"{text[:80]}..."


def _values(path: str) -> str:
    """Return the values of a partition's path without the names of the columns."""
    return "/".join(part.partition("=")[2] or part for part in path.split("/"))


def known_partitions(
    snapshot: Snapshot, partitions: tuple[str, ...], table: str, *, missing_ok: bool
) -> tuple[str, ...]:
    """Return the partitions that have rows. Raises `PartitionNotFoundError` if a partition has no rows, unless ``missing_ok``."""
    snapshot.view.prepare(partitions)
    known = tuple(partition for partition in partitions if snapshot.view.slices(partition))
    missing = [partition for partition in partitions if partition not in known]
    if missing and not missing_ok:
        with_rows = [path for path in snapshot.view.partitions() if snapshot.view.slices(path)]
        of_value = [path for path in with_rows if _values(path) == missing[0]]
        similar = of_value or get_close_matches(missing[0], with_rows, n=3)
        hint = f"There is {' and '.join(map(repr, similar))}. " if similar else ""
        raise PartitionNotFoundError(
            f"The table has no partition {', '.join(map(repr, missing[:_NAMED]))}"
            + (" and others" * (len(missing) > _NAMED)),
            table=table,
            hint=f"{hint}Nothing was changed; missing_ok=True passes over partitions that are not there.",
        )
    return known


def _is_text(value: object) -> bool:
    """Say whether a value is a string that UTF-8 can encode."""
    try:
        return isinstance(value, str) and value.encode() is not None
    except UnicodeEncodeError:
        return False


def checked_extra(extra: Mapping[str, str]) -> dict[str, str]:
    """Return the caller's extra metadata. Raises `InvalidOptionError` for a value that is not a string, and for a key that the commit itself uses."""
    if not isinstance(extra, Mapping):
        raise InvalidOptionError(
            f"extra_metadata= takes a mapping, not {type(extra).__name__}",
            hint='For example extra_metadata={"source": "shop"}.',
        )
    wrong = [key for key, value in extra.items() if not (_is_text(key) and _is_text(value))]
    reserved = [key for key in extra if key in _OWN_KEYS or str(key).startswith(WRITER_KEY)]
    if wrong or reserved:
        raise InvalidOptionError(
            f"extra_metadata cannot hold {', '.join(map(repr, wrong + reserved))}",
            hint=f"Keys and values are strings; {', '.join(map(repr, _OWN_KEYS))} and keys that begin with {WRITER_KEY!r} are its own.",
        )
    return dict(extra)
