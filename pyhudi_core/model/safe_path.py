"""Paths that come from metadata or from rows must stay below the table's folder.

Pure text rules, the same for every storage: a path is relative, its separator is ``/``, and none of its segments is empty,
``.`` or ``..``. A file name of a plan or of commit metadata goes through ``safe_relative_path`` before anything opens it.
"""

from __future__ import annotations

import re

from pyhudi_core.errors import UnsafePathError

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")


def safe_relative_path(path: str) -> str:
    """Return ``path`` if it names something below the folder it is relative to; "" is the folder itself.

    Raises:
        UnsafePathError: it is absolute, has a scheme or a drive, an empty, ``.`` or ``..`` segment (also between
            backslashes), or a NUL.
    """
    problem = _problem(path)
    if problem is None:
        return path
    raise UnsafePathError(
        f"the path {path[:200]!r} {problem}",
        path=path[:200],
        hint="The metadata that names it is damaged or was made to reach outside of the table; nothing was opened",
    )


def is_safe(path: str) -> bool:
    """Whether `safe_relative_path` takes the path."""
    return _problem(path) is None


def _problem(path: str) -> str | None:
    if not path:
        return None
    if "\0" in path or any("\ud800" <= character <= "\udfff" for character in path):
        return "holds a NUL or half a character"
    if path[0] in "/\\" or _SCHEME.match(path) or re.match(r"[A-Za-z]:[\\/]", path):
        return "is absolute, not relative to the table"
    segments = path.split("/")
    if "" in segments:
        return "has an empty segment"
    if any(part in (".", "..") for part in re.split(r"[/\\]", path)):
        return "has a '.' or '..' segment"
    return None
