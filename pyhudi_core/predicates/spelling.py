"""Hints for errors: the SQL form of words and signs that other languages have in conditions, and SQL does not have."""

from __future__ import annotations

import re

_LITERAL = re.compile(r"'(?:[^'\\]|''|\\.)*'|`[^`]*`|\"[^\"]*\"")
_CURLY = re.compile("[\u2018\u2019\u201a\u201c\u201d\u201e]")
_SIGNS = (
    (re.compile(r"&&?"), "AND"),
    (re.compile(r"\|\|?"), "OR"),
    (re.compile(r"==="), "="),
    (re.compile("\u2260"), "<>"),
    (re.compile("\u2265"), ">="),
    (re.compile("\u2264"), "<="),
    (re.compile(r"\bis\s+none\b", re.IGNORECASE), "IS NULL"),
    (re.compile(r"=\s*none\b", re.IGNORECASE), "IS NULL"),
)


def meant_by(text: str) -> str | None:
    """Return the hint for a condition with signs of another language; None if the condition has no such sign. Signs inside of quotes do not count."""
    bare = _LITERAL.sub("''", text)
    if _CURLY.search(bare):
        return "Write straight quotes around a text: 'a'"
    if "'" in bare.replace("''", ""):
        return r"A text begins and ends with a quote, and a quote inside of it has a backslash before it: 'O\'Neil'"
    said = [f"{word} for {found[0]!r}" for sign, word in _SIGNS if (found := sign.search(bare)) is not None]
    return f"Write {', '.join(said)}" if said else None
