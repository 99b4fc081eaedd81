"""Check that paths from metadata or from rows stay below the table's folder.

The rules concern text only and are the same for every storage: a path is relative, its separator is ``/``, and no segment is empty, ``.`` or ``..``,
also if its dots are url-encoded (``%2e``). Hudi encodes no dots, so such a segment is never a partition.

Two modules apply the rules: the reader of each file with paths, whose error names the file, and every storage before it uses the disk or the network
(``storage/paths.py``). So even without the check in a reader, no path leads out of the table's folder.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from pyhudi_core.errors import InvalidOptionError, UnsafePathError

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")
_DRIVE = re.compile(r"[A-Za-z]:[\\/]")
_INCOMPLETE = re.compile("[\\0\\ud800-\\udfff]")
_SURROGATE = re.compile("[\\ud800-\\udfff]")
_DOTS = re.compile(r"(?:\A|[/\\])\.\.?(?:[/\\]|\Z)")
_ENCODED = {"%2e": ".", "%2f": "/", "%5c": "\\"}
_ABSOLUTE = "is absolute, not relative to the table"
_CODE = re.compile("|".join(_ENCODED), re.IGNORECASE)


def safe_relative_path(path: str) -> str:
    """Return ``path`` if it stays inside the folder to which it is relative; "" is the folder itself.

    Raises:
        UnsafePathError: the path is absolute, has a scheme or a drive, a NUL, or a segment that is empty, ``.`` or ``..`` (also
            between backslashes, or url-encoded).
    """
    problem = _problem(path)
    if problem is None:
        return path
    raise UnsafePathError(
        f"the path {path[:200]!r} {problem}",
        path=path[:200],
        hint="The metadata that names it is damaged or was changed to reach outside the table; nothing was opened",
    )


def is_unicode(text: str) -> bool:
    """Say whether a text can be stored as UTF-8: Python's texts may have incomplete characters (lone surrogates), such as bytes of a command line."""
    return _SURROGATE.search(text) is None


def refuse_incomplete(argument: str, names: Iterable[object]) -> None:
    """Raise `InvalidOptionError` for a name that cannot be stored as UTF-8, so neither in Arrow nor as a file name. A name that is not a text has
    another error.
    """
    bad = next((name for name in names if isinstance(name, str) and not is_unicode(name)), None)
    if bad is not None:
        raise InvalidOptionError(
            f"{argument} has the name {bad!r:.80}, which has an incomplete character (a lone surrogate)",
            hint="Decode the bytes from which the name comes as UTF-8. Nothing was changed.",
        )


def is_safe(path: str) -> bool:
    """Say whether `safe_relative_path` accepts the path."""
    return _problem(path) is None


def way_out(path: str) -> str | None:
    """Return how a path, joined to a folder, could leave the folder, as the end of a sentence; None if it cannot.

    This is the rule of storages. Storages accept a path with a scheme: ``a:/x`` is an object in the folder ``a:``, which may be a partition.
    """
    if not path:
        return None
    if _INCOMPLETE.search(path):
        return "holds a NUL or an incomplete character (a lone surrogate)"
    if path[0] in "/\\":
        return _ABSOLUTE
    if "" in path.split("/"):
        return "has an empty segment"
    if _DOTS.search(path):
        return "has a '.' or '..' segment"
    if "%2" in path and _hides_dots(path):
        return "has a '.' or '..' segment that is url-encoded"
    return None


def _problem(path: str) -> str | None:
    return _ABSOLUTE if _SCHEME.match(path) or _DRIVE.match(path) else way_out(path)


def _hides_dots(path: str) -> bool:
    """Return whether a segment consists of encoded dots. An encoded slash alone is allowed: it is part of a partition's value, as Hudi encodes it."""
    decoded = _CODE.sub(lambda code: _ENCODED[code.group().lower()], path)
    return "%2e" in path.lower() and _DOTS.search(decoded) is not None
