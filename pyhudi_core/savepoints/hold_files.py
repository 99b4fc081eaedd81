"""Files of holds, and the data files that they keep. A hold keeps the files of one state until a given time (``holds.py``).

A hold that cannot be read may keep any data file. So nothing deletes a data file while it is there; whatever else a sweep finds goes, and other holds
are made, listed and deleted (`look_at_holds`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any

from pyhudi_core.errors import (
    CorruptionError,
    CorruptTimelineError,
    HudiError,
    LimitExceededError,
    ObjectNotFoundError,
    UnsafePathError,
    at_table,
)
from pyhudi_core.model.bounded_json import parse_json
from pyhudi_core.model.file_names import join
from pyhudi_core.model.printing import escaped, printable
from pyhudi_core.model.safe_path import safe_relative_path
from pyhudi_core.model.snapshot_token import SnapshotToken
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.storage.at_once import each
from pyhudi_core.storage.base import ObjectInfo
from pyhudi_core.transaction import layout

_VERSION = 1
MOST_BYTES = 64 << 20
"""The most bytes of a hold, as of a file of the timeline: some 700,000 data files."""
_UNREADABLE = (CorruptionError, LimitExceededError, UnsafePathError)


@dataclass(frozen=True, slots=True)
@printable
class Hold:
    """The files of a state, held back from cleaning.

    Attributes:
        name: the name of the hold; `Holds.delete` accepts it.
        token: the state; ``scan(as_of=hold.token)`` reads it.
        ends_ms: its end, in milliseconds since 1970.
        comment: a text by its maker.
        files: names of the files, by partition path.
    """

    name: str
    token: SnapshotToken
    ends_ms: int
    comment: str = ""
    files: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def ends(self) -> datetime:
        """Return its end, in UTC."""
        return datetime.fromtimestamp(self.ends_ms / 1000, UTC)

    @property
    def paths(self) -> frozenset[str]:
        """The paths of the files, relative to the table."""
        return frozenset(join(partition, name) for partition, names in self.files.items() for name in names)

    def __repr__(self) -> str:
        return f"Hold {escaped(self.name)}, {len(self.paths):,} files, until {self.ends:%Y-%m-%d %H:%M:%S} UTC"

    def __str__(self) -> str:
        said = f", {self.comment!r}" if self.comment else ""
        return f"Hold {escaped(self.name)} of {self.token}, {len(self.paths)} files, until {self.ends:%Y-%m-%d %H:%M:%S} UTC{said}"

    def to_json(self) -> bytes:
        """Return the bytes of its file."""
        said = {"version": _VERSION, "token": str(self.token), "ends_ms": self.ends_ms, "comment": self.comment}
        return json.dumps({**said, "files": self.files}).encode()

    @classmethod
    def of_json(cls, data: bytes, path: str) -> Hold:
        """Read these bytes. Raises `CorruptTimelineError`."""
        try:
            found: dict[str, Any] = parse_json(data)
            token = SnapshotToken.of(found["token"])
            files = {str(partition): tuple(map(str, names)) for partition, names in found["files"].items()}
            if token is None or found["version"] != _VERSION:
                raise ValueError("unknown version or token")
            hold = cls(path.rpartition("/")[2], token, int(found["ends_ms"]), str(found["comment"]), files)
            hold.ends  # noqa: B018  a time that is no date is damage
            for held in hold.paths:
                safe_relative_path(held)
        except (
            ValueError,
            KeyError,
            TypeError,
            AttributeError,
            RecursionError,
            OverflowError,
            OSError,
            UnsafePathError,
        ) as error:
            raise CorruptTimelineError(
                f"A hold of files is damaged: {error!s:.200}", path=path, hint=_WAY_OUT
            ) from error
        return hold


_WAY_OUT = (
    "No data file is cleaned or swept while it is there, because its files are not known."
    " If no reader needs it, delete it: table.holds.delete(name), or `pyhudi hold LOCATION delete --name NAME`."
)


@dataclass(frozen=True, slots=True)
class FoundHolds:
    """What is in the folder of holds.

    Attributes:
        lasting: the holds that have not ended; the first to end comes first.
        ended: the holds that have, in the same order.
        unreadable: an error for each hold that cannot be read. It may keep any data file.
    """

    lasting: tuple[Hold, ...] = ()
    ended: tuple[Hold, ...] = ()
    unreadable: tuple[HudiError, ...] = ()

    def complete(self) -> FoundHolds:
        """Return these holds. Raises the first error of ``unreadable``."""
        for error in self.unreadable:
            raise error
        return self


def look_at_holds(context: TableContext) -> FoundHolds:
    """Return the holds of a data table, without an error for those that cannot be read."""
    if context.prefix:
        return FoundHolds()
    now = context.runtime.clock.now_ms() - context.options.clock.max_skew_ms
    try:
        listed = context.root.list_folder(layout.HOLDS).objects
    except UnsafePathError as error:
        return FoundHolds(unreadable=(error,))
    found = each(context.root, context.runtime.executor, partial(_read, context), listed)
    holds = sorted((one for one in found if isinstance(one, Hold)), key=lambda hold: (hold.ends_ms, hold.name))
    return FoundHolds(
        tuple(hold for hold in holds if hold.ends_ms > now),
        tuple(hold for hold in holds if hold.ends_ms <= now),
        tuple(one for one in found if isinstance(one, HudiError)),
    )


def read_holds(context: TableContext) -> FoundHolds:
    """Return the holds of a data table.

    Raises `CorruptTimelineError`, `LimitExceededError` or `UnsafePathError` for a hold that cannot be read: its files are unknown.
    """
    with at_table(context.table):
        return look_at_holds(context).complete()


def held_files(context: TableContext) -> frozenset[str]:
    """Return the paths of all files that holds keep. Raises as `read_holds`."""
    return frozenset[str]().union(*(hold.paths for hold in read_holds(context).lasting))


def _read(context: TableContext, info: ObjectInfo) -> Hold | HudiError | None:
    try:
        if info.size > MOST_BYTES:
            raise _too_large(info.size, info.path)
        return Hold.of_json(context.root.get(info.path), info.path)
    except ObjectNotFoundError:
        return None
    except _UNREADABLE as error:
        return error


def _too_large(size: int, path: str) -> LimitExceededError:
    what = f"A hold of files has {size:,} bytes, and readers take at most {MOST_BYTES:,}"
    return LimitExceededError(what, limit=MOST_BYTES, seen=size, path=path, hint=_WAY_OUT)
