"""CSV files as Arrow batches. The first line has the names of the columns.

A value is null if its field is empty and has no quotes, or if it is one of the words that the caller names. Everything else is a value: ``NA`` is a
text. Columns with a given type are read as that type. For other columns the first values decide (`_Guess`):

- whole numbers that 64 bits hold are int64, true and false are bool, and dates, times of day and timestamps have these types;
- other numbers are double, unless there is a whole number of more than 15 digits, which double may not hold;
- everything else is text: numbers that begin with a needless zero or a plus sign ('007', '+49'), whole numbers that 64 bits do not hold, and
  quoted empty fields.

A later value of another type is an error, which names the value: no column becomes text because of one odd value.

Invariants
- memory is bounded by a block of the file;
- a file that is not a CSV file raises `DataError`, also if only its quotes are wrong (`csv_rows`).
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from pyhudi_core.errors import DataError
from pyhudi_core.formats.csv_rows import whole_rows

DECIDING_ROWS = 100_000
"""The number of rows of a file that decide the types of its columns."""
_PIECE_ROWS = 10_000
_BLOCK_BYTES = 8 << 20
_SHOWN = 40
_DELIMITERS = {";": "';'", "\t": "tab", "|": "'|'"}
"""Other characters between fields, each with its spelling in a shell."""
_WHOLE = r"^-?(0|[1-9][0-9]*)$"
_NUMBER = r"^-?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?$"
_NO_NUMBER = r"^(?i)[+-]?(nan|inf|infinity)$"
_MAY_ROUND = r"^-?[0-9]{16,}$"
_TIME_OF_DAY = r"^[0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?$"
_ROW_OF_BLOCK = re.compile(r"Row #[0-9]+: ")
_COMMA = pa.null()
"""In `_Guess.others`: numbers with decimal commas."""
_NO_VALUE = ("NA", "N/A", "#N/A", "n/a", "na", "NaN", "nan", "null", "NULL", "Null", "None", "\\N", "-", "--", "?", ".")  # fmt: skip
"""Words that stand for a missing value in files."""
_HINT = (
    "A CSV file is UTF-8 text with a line of names, and values of the table's types; a time with a zone is written as 2026-01-31T12:00:00Z. Nulls are"
    " empty fields; other words for them are given with --null, another separator with --delimiter, and the type of a column with --type."
)
_NOT_UTF8 = (
    "The file is not UTF-8 text. Convert it first, for example: iconv -f WINDOWS-1252 -t UTF-8 {} > converted.csv"
)
_HINTS = {
    "utf8": _NOT_UTF8,
    "utf-8": _NOT_UTF8,
    "empty csv": "The file has no bytes, or a quote in its first line is not closed. Write it again, with a line of names, or omit it.",
    "columns, got": "Each line needs as many fields as the line of names. A value that contains the separator has double quotes around it, and a"
    " double quote in it is written twice; --delimiter names another separator.",
}
"""Hints for the user, by words of Arrow's error in small letters."""


@dataclass(frozen=True, slots=True)
class CsvStyle:
    """The form of a CSV file: the character between fields, and the words for null (if they have no quotes)."""

    delimiter: str = ","
    nulls: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CsvFile:
    """A CSV file. ``opened`` opens it for one reading; ``path`` is for errors."""

    opened: Callable[[], pa.NativeFile]
    path: str
    style: CsvStyle

    def names(self) -> list[str]:
        """Return the names in the first line. Raises `DataError`."""
        with self._reading(), self.opened() as source:
            names = next(self._tables(source, {})).column_names
        other = next((sign for sign in _DELIMITERS if len(names) == 1 and sign in names[0]), None)
        if other is not None:
            raise DataError(
                f"The first line is one name, {names[0][:_SHOWN]!r}",
                path=self.path,
                hint=f"Give the character between the fields: --delimiter {_DELIMITERS[other]}.",
            )
        return names

    def guessed(self, given: Mapping[str, pa.DataType], note: Callable[[str], object] = lambda _: None) -> pa.Schema:
        """Return the columns, with the ``given`` types; the values decide the types of other columns. A column without values has the type null.

        ``note`` is called with a sentence for each column that is text only because of words for missing values, or of decimal commas.

        Raises `DataError`, also for a value that does not have the type of the values before it.
        """
        names = self.names()
        guesses = {place: _Guess() for place, name in enumerate(names) if name not in given}
        rows = 0
        for batch in self.batches({name: given.get(name, pa.string()) for name in names}) if guesses else ():
            for start in range(0, len(batch), _PIECE_ROWS):
                piece = batch.slice(start, _PIECE_ROWS)
                for place, guess in guesses.items():
                    odd = guess.odd(piece.column(place), decides=rows < DECIDING_ROWS)
                    if odd is not None:
                        raise self._odd(names[place], guess.type(), rows + odd + 1, piece.column(place)[odd].as_py())
                rows += len(piece)
        for place, guess in guesses.items():
            guess.tell(names[place], note)
        return pa.schema([pa.field(n, guesses[i].type() if i in guesses else given[n]) for i, n in enumerate(names)])

    def _odd(self, name: str, kind: pa.DataType, row: int, value: str) -> DataError:
        return DataError(
            f"Column {name} has values of {kind} in the rows before, and {value[:_SHOWN]!r} in row {row:,}",
            path=self.path,
            hint=f"Give the type of the column, for example --type {name}={'double' if _number(pa.array([value])) else 'string'}, or the word"
            " for a null with --null.",
        )

    def batches(self, types: Mapping[str, pa.DataType]) -> Iterator[pa.RecordBatch]:
        """Yield the rows, whose columns have these types. Raises `DataError`."""
        with self._reading():
            source = self.opened()
        with source:
            for table in self._tables(source, types):
                yield from table.to_batches()

    def _tables(self, source: pa.NativeFile, types: Mapping[str, pa.DataType]) -> Iterator[pa.Table]:
        """Yield the rows of one block after the other; the first block may have no row."""
        names: list[str] | None = None
        convert = csv.ConvertOptions(
            column_types=types,
            null_values=["", *self.style.nulls],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        )
        parse = csv.ParseOptions(delimiter=self.style.delimiter, newlines_in_values=True)
        with self._reading():
            for block in whole_rows(source, self.style.delimiter, self.path, _BLOCK_BYTES):
                if names is not None and not block.strip(b"\r\n"):
                    continue
                read = csv.ReadOptions(use_threads=False, column_names=names, block_size=len(block) + 1)
                table = csv.read_csv(pa.BufferReader(block), read, parse, convert)
                names = table.column_names
                yield table
            if names is None:
                raise pa.ArrowInvalid("Empty CSV file")

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except (pa.ArrowException, UnicodeDecodeError) as error:
            what = _ROW_OF_BLOCK.sub("", str(error).splitlines()[0])
            hint = next((hint for words, hint in _HINTS.items() if words in what.lower()), _HINT)
            raise DataError(f"The file cannot be read: {what}", path=self.path, hint=hint.format(self.path)) from error


@dataclass(slots=True)
class _Guess:
    """The possible types of a column, given all values so far, the best type first."""

    kinds: list[pa.DataType] = field(default_factory=lambda: list(_FITS))
    seen: bool = False
    words: set[str] = field(default_factory=set)
    others: list[pa.DataType] | None = None
    """The types of the values without the ``words`` that mean no value; None while the column is not text."""
    example: str = ""

    def odd(self, values: pa.Array, *, decides: bool) -> int | None:
        """Examine more values, which decide the type (``decides``) or are only checked; return the position of a value that does not fit."""
        texts = values.drop_null()
        if not len(texts):
            return None
        if decides or not self.seen:
            self.seen = True
            before, self.kinds = self.kinds, [kind for kind in self.kinds if _FITS[kind](texts)]
            if not self.kinds:
                self._look_at_others(texts, before)
            return None
        fits = _FITS[self.kinds[0]] if self.kinds else None
        if fits is None or fits(texts):
            return None
        return bisect_left(range(1, len(values)), True, key=lambda end: not fits(values.slice(0, end).drop_null()))

    def _look_at_others(self, texts: pa.Array, before: list[pa.DataType]) -> None:
        if self.others is None:
            self.others = [*before, _COMMA]
        if not self.others:
            return
        words = pc.is_in(texts, pa.array(_NO_VALUE))
        self.words.update(pc.unique(texts.filter(words)).to_pylist())
        rest = texts.filter(pc.invert(words))
        if len(rest):
            self.others = [kind for kind in self.others if (_FITS.get(kind) or _decimal_comma)(rest)]
            self.example = rest[0].as_py()

    def tell(self, name: str, note: Callable[[str], object]) -> None:
        """Note why a column is text although its values look like another type."""
        if self.kinds or not self.others or not self.example:
            return
        words = sorted(self.words)
        if self.others[0] == _COMMA:
            note(
                f"Column {name} is text: {self.example!r} has a decimal comma, and numbers of CSV files have a decimal point."
            )
        elif words:
            options = " ".join(f"--null '{word}'" for word in words)
            note(
                f"Column {name} is text because of {' and '.join(map(repr, words))}; its other values are {self.others[0]}."
                f" If this means no value, import the file into a new table with {options}."
            )

    def type(self) -> pa.DataType:
        """Return the type of the column; null if it has no value."""
        if not self.seen:
            return pa.null()
        return self.kinds[0] if self.kinds else pa.string()


def _match(texts: pa.Array, pattern: str) -> bool:
    return bool(pc.all(pc.match_substring_regex(texts, pattern)).as_py())


def _casts(texts: pa.Array, kind: pa.DataType) -> bool:
    try:
        pc.cast(texts, kind)
    except pa.ArrowInvalid:
        return False
    return True


def _whole(texts: pa.Array) -> bool:
    trimmed = pc.utf8_trim_whitespace(texts)
    return _match(trimmed, _WHOLE) and _casts(trimmed, pa.int64())


def _number(texts: pa.Array) -> bool:
    trimmed = pc.utf8_trim_whitespace(texts)
    plain = pc.match_substring_regex(trimmed, _NUMBER)
    if not pc.all(pc.or_(plain, pc.match_substring_regex(trimmed, _NO_NUMBER))).as_py():
        return False
    numbers = trimmed.filter(plain)
    too_large = pc.any(pc.is_inf(pc.cast(numbers, pa.float64()))).as_py()
    return not (too_large or pc.any(pc.match_substring_regex(numbers, _MAY_ROUND)).as_py())


def _decimal_comma(texts: pa.Array) -> bool:
    return _match(texts, r"^[+-]?[0-9]{1,3}([. ]?[0-9]{3})*(,[0-9]+)?$") and not _match(texts, "^[^,]*$")


def _time_of_day(texts: pa.Array) -> bool:
    return _match(texts, _TIME_OF_DAY) and _casts(
        pc.binary_join_element_wise("1970-01-01T", texts, ""), pa.timestamp("us")
    )


_FITS: dict[pa.DataType, Callable[[pa.Array], bool]] = {
    pa.int64(): _whole,
    pa.bool_(): lambda texts: _match(texts, "^(true|True|TRUE|false|False|FALSE)$"),
    pa.date32(): lambda texts: _match(texts, r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$") and _casts(texts, pa.date32()),
    pa.time64("us"): _time_of_day,
    pa.timestamp("us"): lambda texts: _casts(texts, pa.timestamp("us")),
    pa.timestamp("us", "UTC"): lambda texts: _casts(texts, pa.timestamp("us", "UTC")),
    pa.float64(): _number,
}
"""The types that can be guessed, each with a function that says whether all given texts are values of the type."""
