"""Check that paths from metadata or from rows stay below the table's folder.

The rules concern text only and are the same for every storage: a path is relative, its separator is ``/``, and no segment is empty,
``.`` or ``..``. Every file name from a plan or from commit metadata is checked before the file is opened.
"""

from __future__ import annotations

import re

from pyhudi_core.errors import UnsafePathError

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")
_DRIVE = re.compile(r"[A-Za-z]:[\\/]")
_INCOMPLETE = re.compile("[\\0\\ud800-\\udfff]")
_DOTS = re.compile(r"(?:\A|[/\\])\.\.?(?:[/\\]|\Z)")


def safe_relative_path(path: str) -> str:
    """Return ``path`` if it is inside the folder it is relative to; "" is the folder itself.

    Raises:
        UnsafePathError: the path is absolute, has a scheme or a drive, a NUL, or a segment that is empty, ``.`` or ``..`` (also
            between backslashes).
    """
    problem = _problem(path)
    if problem is None:
        return path
    raise UnsafePathError(
        f"the path {path[:200]!r} {problem}",
        path=path[:200],
        hint="The metadata that names it is damaged or was changed to reach outside the table; nothing was opened",
    )


def is_safe(path: str) -> bool:
    """Whether `safe_relative_path` accepts the path."""
    return _problem(path) is None


def _problem(path: str) -> str | None:
    if not path:
        return None
    if _INCOMPLETE.search(path):
        return "holds a NUL or an incomplete character (a lone surrogate)"
    if path[0] in "/\\" or _SCHEME.match(path) or _DRIVE.match(path):
        return "is absolute, not relative to the table"
    segments = path.split("/")
    if "" in segments:
        return "has an empty segment"
    if _DOTS.search(path):
        return "has a '.' or '..' segment"
    return None
