"""A snapshot token is a short text that identifies one state of a table, and shows whether the state still exists.

A completion time is not enough: cleans, restores, and late commits of writers with another clock change the files of a state. So the token
also holds a digest of the files of the state.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass

from pyhudi_core.model.instant import BEFORE_ALL
from pyhudi_core.model.printing import printable

_PATTERN = re.compile(r"s1-([0-9]{14,17})-([0-9a-f]{32})")


@dataclass(frozen=True, slots=True)
@printable
class SnapshotToken:
    """The identity of a state; ``str(token)`` is its text, and `of` parses it.

    Attributes:
        completion_time: the completion time of the newest commit of the state; all zeros before the first commit.
        digest: 32 hexadecimal digits, a hash of the paths of all its files.
    """

    completion_time: str
    digest: str

    def __str__(self) -> str:
        return f"s1-{self.completion_time}-{self.digest}"

    @classmethod
    def of(cls, text: str) -> SnapshotToken | None:
        """Parse a token; None if the text is not one."""
        found = _PATTERN.fullmatch(text)
        return None if found is None else cls(found[1], found[2])

    @classmethod
    def naming(cls, completion_time: str, paths: Iterable[str]) -> SnapshotToken:
        """Return the token of a state whose files have these paths, relative to the table."""
        digest = hashlib.sha256("\n".join(sorted(paths)).encode())
        return cls(completion_time or BEFORE_ALL, digest.hexdigest()[:32])
