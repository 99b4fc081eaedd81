"""The text of Java properties files (``hoodie.properties``, ``.hoodie_partition_metadata``) as a mapping.

Follows java.util.Properties: ISO-8859-1, ``key=value`` or ``key: value`` or ``key value``, comment lines with ``#`` or ``!``,
backslash escapes, ``\\uXXXX`` in UTF-16 units, lines continued by a backslash at their end. Format reference: timeline 1.1.

Invariants
- ``parse(render(mapping, comment)) == mapping`` for every mapping of text that holds no lone surrogate;
- ``render`` returns plain ASCII, so every Java and Python reader sees the same characters;
- if a key occurs twice, the last value counts, as in Java.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache

from pyhudi_core.errors import CorruptPropertiesError, LimitExceededError

SIZE_LIMIT = 1 << 20
"""The maximum size in bytes. A properties file of a real table has a few thousand bytes."""

_BLANK = " \t\f"
_LINE_END = re.compile(r"\r\n|\r|\n")
_KEY_END = re.compile(r"(?:\\.|[^\\=: \t\f])*", re.DOTALL)
_SEPARATOR = re.compile(r"[ \t\f]*[=:]?[ \t\f]*")
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.|$)", re.DOTALL)
_NAMED_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_WRITTEN_ESCAPES = {
    ord("\\"): "\\\\",
    ord("\t"): "\\t",
    ord("\n"): "\\n",
    ord("\r"): "\\r",
    ord("\f"): "\\f",
    ord("="): "\\=",
    ord(":"): "\\:",
    ord("#"): "\\#",
    ord("!"): "\\!",
}


def parse(data: bytes, *, path: str) -> dict[str, str]:
    """Read properties text.

    Args:
        data: the file's bytes.
        path: the path of the file, for errors.

    Raises:
        LimitExceededError: more than ``SIZE_LIMIT`` bytes.
        CorruptPropertiesError: an escape that Java would refuse, or a NUL byte.
    """
    if len(data) > SIZE_LIMIT:
        raise LimitExceededError(
            f"a properties file of {len(data)} bytes is larger than the limit of {SIZE_LIMIT}",
            limit=SIZE_LIMIT,
            seen=len(data),
            path=path,
            hint="Check the file: a properties file has a few thousand bytes",
        )
    return dict(_parsed(data, path))


@lru_cache(maxsize=32)
def _parsed(data: bytes, path: str) -> Mapping[str, str]:
    """Parse the properties of a text. Cached, because each call on a table reads the same text again."""
    if b"\0" in data:
        raise CorruptPropertiesError(
            "a properties file holds a NUL byte",
            offset=data.index(b"\0"),
            path=path,
            hint="Restore it from its backup or from a copy of the table",
        )
    properties: dict[str, str] = {}
    for line in _logical_lines(data.decode("iso-8859-1")):
        key_end = _KEY_END.match(line).end()  # type: ignore[union-attr]
        value_start = _SEPARATOR.match(line, key_end).end()  # type: ignore[union-attr]
        properties[_unescape(line[:key_end], path)] = _unescape(line[value_start:], path)
    return properties


def render(properties: Mapping[str, str], comment: str) -> bytes:
    """Write properties as ``java.util.Properties.store`` does, in the order of the mapping.

    Every line of ``comment`` becomes a line that starts with ``#``; an empty comment adds no line.
    """
    lines = [f"#{_ascii(line)}" for line in _LINE_END.split(comment)] if comment else []
    for key, value in properties.items():
        escaped = _ascii(value.translate(_WRITTEN_ESCAPES))
        # Java skips blanks before a value, so a leading blank of a value needs a backslash. In a key, every blank needs one.
        leading = "\\" if escaped.startswith(" ") else ""
        lines.append(f"{_ascii(key.translate(_WRITTEN_ESCAPES)).replace(' ', chr(92) + ' ')}={leading}{escaped}")
    return ("\n".join(lines) + "\n").encode("ascii")


def _logical_lines(text: str) -> Iterator[str]:
    pending = ""
    continued = False
    for natural in _LINE_END.split(text):
        line = natural.lstrip(_BLANK)
        if not continued and (not line or line[0] in "#!"):
            continue
        trailing = len(line) - len(line.rstrip("\\"))
        pending += line[:-1] if trailing % 2 else line
        continued = bool(trailing % 2)
        if not continued:
            yield pending
            pending = ""
    if pending:
        yield pending


def _unescape(text: str, path: str) -> str:
    if "\\" not in text:
        return text

    def character(match: re.Match[str]) -> str:
        escape = match.group(1)
        if escape.startswith("u"):
            if len(escape) != 5:
                raise _bad_escape(text, path)
            return chr(int(escape[1:], 16))
        return _NAMED_ESCAPES.get(escape, escape)

    plain = _ESCAPE.sub(character, text)
    try:
        # Escapes are UTF-16 units, so a character beyond the first plane becomes two escapes.
        return plain.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
    except UnicodeDecodeError:
        raise _bad_escape(text, path) from None


def _bad_escape(text: str, path: str) -> CorruptPropertiesError:
    return CorruptPropertiesError(
        f"a properties file holds a malformed \\u escape in {text[:80]!r}",
        path=path,
        hint="Restore it from its backup or from a copy of the table",
    )


def _ascii(text: str) -> str:
    if text.isascii() and text.isprintable():
        return text
    units = text.encode("utf-16-be", "surrogatepass")
    codes = (int.from_bytes(units[i : i + 2], "big") for i in range(0, len(units), 2))
    return "".join(chr(code) if 0x20 <= code <= 0x7E else f"\\u{code:04X}" for code in codes)
