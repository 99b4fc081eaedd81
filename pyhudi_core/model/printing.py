"""Print the objects of the public API: as one line in a Python session, as a small table in a notebook.

Both are safe for any content of a table: secrets are masked, control characters are escaped, and the notebook's table is escaped HTML. A long line is
cut between words, so no number is cut.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, TypeVar

from pyhudi_core.errors import HudiError
from pyhudi_core.model.masking import is_secret, masked_text

_T = TypeVar("_T", bound=type)

LINE = 100
"""The maximum letters of a line."""
_WORD = 60
"""The maximum letters of a word. A longer word is shortened; a path is shortened at its beginning."""
_CELL = 1000
_ROWS = 40
_ITEMS = 20


def printable(cls: _T) -> _T:
    """Decorate a class: its ``repr`` is one line that names the class, and a notebook shows this line and a table.

    Use it as the innermost decorator. The line is the class's own ``__repr__``, else its
    ``str``, else the fields of the dataclass. The table is the result of ``_shown()``, else the ``figures``, else the fields: a mapping is shown as
    ``name, value`` rows, a sequence of mappings as rows with a header.
    """
    said: Any = cls.__str__
    own: Any = vars(cls).get("__repr__") or (said if said is not object.__str__ else None)
    inherited: Any = cls.__repr__

    def line(self: Any) -> str:
        name = type(self).__name__
        try:
            text = own(self) if own else _fields(self) if dataclasses.is_dataclass(self) else inherited(self)
        except HudiError as error:  # such as the attributes of a table that no longer exists
            text = f"{name} that cannot be read: {error}"
        return _safe(text if text.startswith(name) else f"{name}: {text}", LINE, _WORD)

    made: Any = cls
    made.__repr__ = line
    made._repr_html_ = _html
    return cls


def readable(text: str) -> str:
    """Return text without secrets and without control characters, which are written as escapes."""
    return escaped(masked_text(text))


def escaped(text: str) -> str:
    """Return text with control characters written as escapes."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else f"\\x{ord(letter):02x}" for letter in text)


def aligned(rows: Sequence[Mapping[str, object]], names: Sequence[str]) -> str:
    """Return rows as lines with a header; numbers are aligned to the right."""
    columns = [[name, *(readable(_plain(row[name])) for row in rows)] for name in names]
    right = [all(isinstance(row[name], int | float) for row in rows) for name in names]
    widths = [max(map(len, column)) for column in columns]
    lines = zip(*columns, strict=True)
    return "\n".join(
        "  ".join(
            cell.rjust(width) if is_right else cell.ljust(width)
            for cell, width, is_right in zip(line, widths, right, strict=True)
        ).rstrip()
        for line in lines
    )


def _fields(of: Any) -> str:
    shown = (f"{one.name}={getattr(of, one.name)!r}" for one in dataclasses.fields(of) if one.repr)
    return f"{type(of).__name__}({', '.join(shown)})"


def _safe(text: str, most: int, longest: int) -> str:
    """Return the text without secrets and control characters, shortened to ``most`` letters. The time does not grow with the text."""
    words = [
        word if len(word) <= _CELL else _short_word(masked_text(word, _CELL).replace("/", "|"), _WORD)
        for word in text.split(maxsplit=most)[:most]
    ]
    return _shortened(readable(" ".join(words)), most, longest)


def _shortened(text: str, most: int, longest: int) -> str:
    """Shorten the text to ``most`` letters: omit words at the end, and the beginning of long paths."""
    words = [word if len(word) <= longest else _short_word(word, longest) for word in text.split()[:most]]
    shown = " ".join(words)
    while len(shown) > most:
        words.pop()
        shown = " ".join([*words, "..."])
    return shown


def _short_word(word: str, most: int) -> str:
    _, slash, end = word[-most:].partition("/")
    if slash:
        return f".../{end}"
    # Neither an escape nor a number is cut.
    return re.sub(r"(?<![\d.,\\])[\d.,\\]*(\\x\w*)?$", "", word[: most - 3]) + "..."


def _html(self: Any) -> str:
    try:
        found = self._shown() if hasattr(self, "_shown") else _facts(self)
    except HudiError:
        found = {}  # the line has it already
    return f"<p>{_escaped(repr(self))}</p>{_table(found)}"


def _facts(of: Any) -> Mapping[str, object]:
    figures = getattr(of, "figures", None)
    if figures is not None:
        return dict(figures)
    if not dataclasses.is_dataclass(of):
        return {}
    return {
        one.name: getattr(of, one.name) for one in dataclasses.fields(of) if one.repr and not one.name.startswith("_")
    }


def _table(found: Mapping[str, object] | Sequence[Mapping[str, object]]) -> str:
    if isinstance(found, Mapping):
        rows = [
            f"<tr><th>{_escaped(readable(str(name)))}</th><td>{_cell(_kept(name, value))}</td></tr>"
            for name, value in found.items()
        ]
    else:
        names = list(found[0]) if found else []
        head = "".join(f"<th>{_escaped(readable(name))}</th>" for name in names)
        rows = [f"<tr>{head}</tr>"] if found else []
        rows += [f"<tr>{''.join(f'<td>{_cell(row[name])}</td>' for name in names)}</tr>" for row in found[:_ROWS]]
        if len(found) > _ROWS:
            rows.append(f'<tr><td colspan="{len(names)}">and {len(found) - _ROWS:,} more</td></tr>')
    return f"<table>{''.join(rows)}</table>" if rows else ""


def _cell(value: object) -> str:
    if isinstance(value, list | tuple) and value and all(isinstance(one, Mapping) for one in value):
        return _table(value)
    return _escaped(_safe(_plain(value), _CELL, _CELL))


def _kept(name: object, value: object) -> object:
    """Return the value of a name; masked if the name belongs to a secret."""
    return "***" if isinstance(name, str) and is_secret(name) else value


def _plain(value: object) -> str:
    """Return a value as text: numbers with commas, and only the first items of a collection."""
    if value is None:
        return ""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f"{value:,}"
    if isinstance(value, Mapping):
        return _listed(
            (f"{_plain(key)}: {_plain(_kept(key, one))}" for key, one in islice(value.items(), _ITEMS)), len(value)
        )
    if isinstance(value, list | tuple | set | frozenset):
        return _listed((_plain(one) for one in islice(value, _ITEMS)), len(value))
    return str(value)


def _listed(texts: Iterable[str], count: int) -> str:
    return ", ".join(texts) + (f" and {count - _ITEMS:,} more" if count > _ITEMS else "")


def _escaped(text: str) -> str:
    from html import escape  # noqa: PLC0415  (opening a table shows nothing)

    return escape(text)
