"""Which folders go when whole partitions are dropped: what the caller names, checked before the table's files are looked at."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pyhudi_core.errors import InvalidOptionError
from pyhudi_core.model.partition_path import full_partition
from pyhudi_core.model.properties import TableConfig
from pyhudi_core.model.safe_path import is_safe


def checked_partitions(partitions: Sequence[str], config: TableConfig, table: str) -> tuple[str, ...]:
    """The folders of the partitions, each once, with their prefix folders.

    Raises `InvalidOptionError` for anything but a list of paths with something in it, and for a table without partitions.
    """
    listed = isinstance(partitions, Iterable) and not isinstance(partitions, str | bytes)
    names = tuple(partitions) if listed else ()
    if not names:
        raise InvalidOptionError(
            f"delete_partitions takes a list of partition paths, at least one, not {_shown(partitions)}",
            table=table,
            hint='For example delete_partitions(["day=2026-01-31"]).',
        )
    if not config.is_partitioned:
        raise InvalidOptionError("The table has no partitions", table=table, hint="Delete its rows instead.")
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
