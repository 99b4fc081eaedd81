"""Partition folders that are formatted times: Hudi's timestamp-based key generator, and fields ``column:TIMESTAMP`` of its custom one.

Format reference: timeline 6.2 and 6.3; tested with Hudi 1.0.2 (tests/interop/test_key_generators.py). The properties ``hoodie.keygen.timebased.*``
give the content of the column (seconds, milliseconds, microseconds, another unit, or text of a format), and the format of the folder. A slash in the
output format makes nested folders, unless the table encodes its folders.

Invariants
- two releases write the same folder for a time, or the table is refused, with the property that is not supported;
- a null is the folder of 1970-01-01, as in Hudi.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from pyhudi_core.errors import InvalidPartitionValueError, UnsupportedTableError
from pyhudi_core.lazy import lazy

if TYPE_CHECKING:
    import pyarrow.compute as pc
else:
    pc = lazy("pyarrow.compute")

PREFIX = "hoodie.keygen.timebased."
TYPE, UNIT = f"{PREFIX}timestamp.type", f"{PREFIX}timestamp.scalar.time.unit"
INPUT, OUTPUT, ZONE = f"{PREFIX}input.dateformat", f"{PREFIX}output.dateformat", f"{PREFIX}timezone"

_LETTERS = {"yyyy": "%Y", "MM": "%m", "dd": "%d", "HH": "%H", "mm": "%M", "ss": "%S"}
_PART = re.compile(r"([a-zA-Z])\1*|[^a-zA-Z]")
_PUNCTUATION = frozenset("-_/:., ")
_MICROS = {
    "microseconds": 1, "milliseconds": 1_000, "seconds": 1_000_000, "minutes": 60_000_000, "hours": 3_600_000_000,
    "days": 86_400_000_000,
}  # fmt: skip
_UNIT_OF_TYPE = {"UNIX_TIMESTAMP": "seconds", "EPOCHMILLISECONDS": "milliseconds", "EPOCHMICROSECONDS": "microseconds"}
_FIRST, _LAST = -62_135_596_800_000_000, 253_402_300_799_999_999  # the years 1 to 9999, in microseconds since 1970


@dataclass(frozen=True, slots=True)
class TimestampFolders:
    """Converts a column of times to folders.

    Attributes:
        micros: microseconds of one unit of the column; None if it holds text.
        parse: the format of text, in strptime's letters.
        output: the format of folders, in strftime's letters.
        zone: the time zone of text and folders.
    """

    micros: int | None
    parse: str
    output: str
    zone: str

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> TimestampFolders:
        """Read the properties of a table. Raises `UnsupportedTableError` for a property or value that this package does not write."""
        kind = properties.get(TYPE, "").strip().upper()
        zones = {
            properties.get(key, "").strip() for key in (ZONE, f"{PREFIX}output.timezone", f"{PREFIX}input.timezone")
        }
        zone = (zones - {""} or {"UTC"}).pop()
        if len(zones - {""}) > 1 or zone.upper() not in ("UTC", "GMT"):
            raise _unsupported(ZONE, ", ".join(sorted(zones - {""})), "Only UTC is written.")
        output = _letters(OUTPUT, properties.get(OUTPUT, ""))
        if kind == "DATE_STRING":
            return cls(None, _letters(INPUT, properties.get(INPUT, "")), output, "UTC")
        unit = properties.get(UNIT, "seconds").strip().lower() if kind == "SCALAR" else _UNIT_OF_TYPE.get(kind, "")
        if unit not in _MICROS:
            raise _unsupported(
                UNIT if kind == "SCALAR" else TYPE, unit or kind, "Use a number of seconds, or DATE_STRING."
            )
        return cls(_MICROS[unit], "", output, "UTC")

    def folders(self, values: pa.Array, field: str) -> pa.Array:
        """Return the folder of each value of the column, without its name. Raises `InvalidPartitionValueError`."""
        try:
            micros = self._micros(pc.cast(values, pa.string()) if pa.types.is_null(values.type) else values, field)
        except pa.ArrowInvalid as error:
            raise _invalid(field, str(error)) from None
        micros = pc.fill_null(micros, 0)
        if len(micros) and not (pc.min(micros).as_py() >= _FIRST and pc.max(micros).as_py() <= _LAST):
            raise _invalid(field, "it is not in the years 1 to 9999")
        # As in Hudi: microseconds are cut to milliseconds towards 1970, and milliseconds belong to the second in which they are, also before 1970.
        millis = pc.divide(micros, 1_000).cast(pa.timestamp("ms"))
        seconds = pc.floor_temporal(millis, unit="second")
        return pc.strftime(seconds.cast(pa.timestamp("s")).cast(pa.timestamp("s", "UTC")), self.output)

    def _micros(self, values: pa.Array, field: str) -> pa.Array:
        """Return the microseconds since 1970."""
        if self.micros is not None and pa.types.is_integer(values.type):
            return pc.multiply_checked(values.cast(pa.int64()), self.micros)
        if self.micros is None and pa.types.is_string(values.type):
            return pc.strptime(values, self.parse, "us").cast(pa.int64())
        wanted = "text" if self.micros is None else "integers"
        raise InvalidPartitionValueError(
            f"the partition column {field!r} has the type {values.type}, and the table's key generator takes {wanted}",
            hint=f"Convert the column; {TYPE} says what it holds. Nothing was written",
        )


def _letters(key: str, text: str) -> str:
    """Return Java's pattern in strftime's letters. Raises `UnsupportedTableError` for letters whose meaning could differ."""
    parts = [match.group() for match in _PART.finditer(text)]
    known = [_LETTERS.get(part, part if part in _PUNCTUATION else "") for part in parts]
    if not parts or not all(known) or ".." in text:
        raise _unsupported(
            key, text, "yyyy, MM, dd, HH, mm and ss are written, with - _ / : . , or a space between them."
        )
    return "".join(known)


def _unsupported(key: str, value: str, what: str) -> UnsupportedTableError:
    return UnsupportedTableError(
        f"not supported: writing with {key}={value or 'nothing'}",
        hint=f"{what} Other tables with formatted times can be read here; write to them with Apache Hudi",
    )


def _invalid(field: str, why: str) -> InvalidPartitionValueError:
    return InvalidPartitionValueError(
        f"a value of partition column {field!r} is no time that a folder can be made of: {why:.200}",
        hint="Correct it in the data. Nothing was written",
    )
