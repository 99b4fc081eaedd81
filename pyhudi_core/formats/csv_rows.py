"""Cut CSV files into blocks of complete rows, and check their quotes.

Arrow repairs wrong quotes without a word. If no quote closes a field, Arrow reads the field to the end of the file. If letters follow the closing
quote, Arrow reads the field to some later quote. In both cases the rows in between become a part of one value.

Arrow's own reader of streams is not used. It reads ahead in a thread. If the reader is dropped while this thread reads a file of Python, such as an
object in a store, the reader waits for the thread and does not release the interpreter's lock: both wait for ever.

Invariants
- the blocks together are the bytes of the file, without a byte-order mark;
- an error is raised before the block in which the quotes are wrong;
- memory is bounded by `LONGEST_ROW` and a block.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Protocol

import numpy as np
import numpy.typing as npt

from pyhudi_core.errors import DataError

LONGEST_ROW = 64 << 20
"""The maximum bytes of a row."""
_MATCHED = 1_000
"""The maximum number of rows that are matched at once: a match holds a little memory for each row."""
_QUOTE, _LINE_ENDS = ord('"'), (ord("\r"), ord("\n"))
_BOM, _UTF16 = b"\xef\xbb\xbf", (b"\xff\xfe", b"\xfe\xff")
_QUOTED = rb'"[^"]*(?:""[^"]*)*'
_HINT = (
    'A value that begins with a double quote ends with one, and a double quote in it is written twice: "a ""b"" c". Correct the line, or write the'
    " file again with a program that quotes values"
)


class _Source(Protocol):
    """A file that `whole_rows` can read."""

    def read(self, size: int, /) -> bytes: ...


def whole_rows(source: _Source, delimiter: str, path: str, block: int) -> Iterator[bytes]:
    """Yield the bytes of a CSV file in blocks of about this size, each with complete rows.

    Raises `DataError` for quotes that do not fit together, a row that is too long, and a text in UTF-16. ``path``: for errors.
    """
    rows, line, rest = _Rows(delimiter), 1, b""
    while found := source.read(block):
        if line == 1 and not rest:
            _refuse_utf16(found, path)
            found = found.removeprefix(_BOM)
        rest += found
        end = rows.end(rest)
        if end:
            yield rest[:end]
        line, rest = line + rest.count(b"\n", 0, end), rest[end:]
        start, why = rows.wrong(rest, ended=False)
        if why or len(rest) > LONGEST_ROW:
            raise _error(rest[start:], line + rest.count(b"\n", 0, start), why or "is too long", path)
    start, why = rows.wrong(rest, ended=True)
    if why:
        raise _error(rest[start:], line + rest.count(b"\n", 0, start), why, path)
    if rest:
        yield rest


class _Rows:
    """Finds the ends of rows and wrong quotes."""

    def __init__(self, delimiter: str) -> None:
        self._ends = f"{delimiter}\r\n".encode()
        sign, ends = re.escape(self._ends[:1]), re.escape(self._ends)
        value = rb'(?:%b"|[^"%b][^%b]*)?' % (_QUOTED, ends, ends)
        self._rows = re.compile(rb"(?:(?:%b%b)*%b[\r\n]){1,%d}" % (value, sign, value, _MATCHED))
        self._fields = re.compile(rb"(?:%b%b)*" % (value, sign))
        self._letters_behind = re.compile(rb'%b"[^"%b]' % (_QUOTED, ends))

    def end(self, text: bytes) -> int:
        """Return the end of the last complete row."""
        letters = np.frombuffer(text, np.uint8)
        quotes = np.flatnonzero(letters == _QUOTE)
        at = 1 + max(text.rfind(b"\n"), text.rfind(b"\r"))
        if np.searchsorted(quotes, at) % 2:
            # Find the last line end that has an even number of quotes before it, in one pass, because each line may have an odd number of quotes.
            is_open = np.logical_xor.accumulate(letters == _QUOTE)
            behind = (np.isin(letters, _LINE_ENDS) & ~is_open)[::-1]
            last = int(behind.argmax())
            at = len(text) - last if behind[last] else 0
        end = at if self._are_pairs(letters, quotes[: np.searchsorted(quotes, at)]) else 0
        while match := self._rows.match(text, end):
            end = match.end()
        return end

    def _are_pairs(self, letters: npt.NDArray[np.uint8], quotes: npt.NDArray[np.intp]) -> bool:
        """Say whether every second quote opens a value, and the next one closes it: most files have no other quotes, and this check is quick."""
        opens, closes = quotes[::2], quotes[1::2]
        ends = np.frombuffer(self._ends, np.uint8)
        twice = closes[:-1] + 1 == opens[1:]
        begins = np.isin(letters[opens - 1], ends)
        begins[:1] |= opens[:1] == 0
        begins[1:] |= twice
        closed = np.isin(letters[closes + 1], ends)
        closed[:-1] |= twice
        return bool(begins.all() and closed.all())

    def wrong(self, text: bytes, *, ended: bool) -> tuple[int, str]:
        """Return the begin of the first value with wrong quotes, and the reason; the reason is empty if all quotes are right. ``text`` is a part of a
        row.

        ``ended``: the file ends with the text.
        """
        if b'"' not in text:
            return 0, ""
        match = self._fields.match(text)
        start = 0 if match is None else match.end()
        if self._letters_behind.match(text, start):
            return start, "has letters behind its closing quote"
        is_open = ended and re.compile(_QUOTED).fullmatch(text, start)
        return start, "has no closing quote" if is_open else ""


def _refuse_utf16(found: bytes, path: str) -> None:
    if found.startswith(_UTF16):
        hint = f"Convert it first, for example: iconv -f UTF-16 -t UTF-8 {path} > converted.csv"
        raise DataError("The file is a text in UTF-16", path=path, hint=hint)


def _error(text: bytes, line: int, why: str, path: str) -> DataError:
    return DataError(f"The value {text[:40].decode(errors='replace')!r} in line {line:,} {why}", path=path, hint=_HINT)
