"""Regular expressions: ``s RLIKE p``, ``regexp_replace(s, p, with)`` and ``regexp_extract(s, p, group)``. The pattern is a literal.

Patterns have the syntax of RE2, as in DuckDB: the common part of all dialects, without look-around and back references, which are refused.
A text without a match gives an empty text to ``regexp_extract``, as in Spark.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from pyhudi_core.errors import PredicateError

_GROUP = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]?|\((?!\?)|\(\?P?<\w+>", re.DOTALL)
"""Finds the start of each group. Also matches escaped characters and classes of characters, so that a parenthesis inside of these does not count.

A class without an end matches the rest of the pattern, so the time is proportional to the pattern. RE2 then refuses the pattern.
"""


def matches(text: pc.Expression, pattern: str) -> pc.Expression:
    """Return whether a part of each text matches."""
    _check(pattern, lambda: pc.match_substring_regex(pa.array([""]), pattern=pattern))
    return pc.match_substring_regex(text, pattern=pattern)


def replaced(text: pc.Expression, pattern: str, replacement: str) -> pc.Expression:
    """Return texts with each match replaced. ``$1`` in the replacement is the first group; a character after a backslash is literal."""

    new = rewritten(replacement)
    _check(pattern, lambda: pc.replace_substring_regex(pa.array([""]), pattern=pattern, replacement=new))
    return pc.replace_substring_regex(text, pattern=pattern, replacement=new)


def rewritten(replacement: str) -> str:
    """Convert a replacement from the form of Spark to the form of RE2: ``\1`` in place of ``$1``."""

    def written(match: re.Match[str]) -> str:
        if match[1]:
            return f"\\{match[1]}"
        return "\\\\" if match[0] in ("\\", "\\\\") else match[0].removeprefix("\\")

    return re.sub(r"\$(\d)|\\.?", written, replacement, flags=re.DOTALL)


def extracted(text: pc.Expression, pattern: str, group: int) -> pc.Expression:
    """Return the part of each text that a group matches in the first match of the pattern; for group 0, the complete match."""
    count = 0

    def named(match: re.Match[str]) -> str:
        nonlocal count
        if not match[0].startswith("("):
            return match[0]
        count += 1
        return f"(?P<g{count}>"

    wrapped = f"(?P<g0>{_GROUP.sub(named, pattern)})"
    if not 0 <= group <= count:
        raise PredicateError(
            f"the pattern {pattern!r} has {count} groups, and regexp_extract wants group {group}",
            hint="Group 0 is the whole match",
        )
    _check(pattern, lambda: pc.extract_regex(pa.array([""]), pattern=wrapped))
    found = pc.struct_field(pc.extract_regex(text, pattern=wrapped), [group])
    return pc.if_else(pc.is_valid(text), pc.coalesce(found, pc.scalar("")), pc.scalar(pa.scalar(None, pa.string())))


def _check(pattern: str, use: Callable[[], object]) -> None:
    """Raise `PredicateError` for a pattern that is not valid."""
    try:
        use()
    except pa.ArrowInvalid as error:
        said = str(error).splitlines()[0].removeprefix("Invalid regular expression: ")
        raise PredicateError(
            f"the pattern {pattern[:120]!r} is no regular expression of RE2: {said}",
            hint="Look-around and back references are not part of it; in an SQL string a backslash is written twice",
        ) from error
