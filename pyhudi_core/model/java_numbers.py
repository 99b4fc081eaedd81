"""Floating-point numbers as Java writes them. Values of widened columns are converted through this text.

`Double.toString` and `Float.toString` of the Java language: the fewest digits that identify the number, in scientific notation from
10^7 on and below 10^-3. (Java before release 19 writes one digit too many for a few numbers; this module gives the shortest text.)
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from pyhudi_core.lazy import lazy

if TYPE_CHECKING:
    import pyarrow.compute as pc
else:
    pc = lazy("pyarrow.compute")

_WORDS = {"nan": "NaN", "-nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def widened(values: pa.Array) -> pa.Array:
    """Convert 32-bit numbers to the 64-bit numbers with the same text."""
    return values.cast(pa.string()).cast(pa.float64())


def lowest_widened(bound: float | None) -> float | None:
    """Return a lower bound of the results of `widened` for a 32-bit number; other numbers are returned unchanged."""
    return _neighbour(bound, -np.inf)


def highest_widened(bound: float | None) -> float | None:
    """Return an upper bound of the results of `widened` for a 32-bit number; other numbers are returned unchanged."""
    return _neighbour(bound, np.inf)


def _neighbour(bound: float | None, towards: float) -> float | None:
    if bound is None or not np.isfinite(bound):
        return bound
    with np.errstate(over="ignore"):
        half = np.float32(bound)
        return float(np.nextafter(half, np.float32(towards))) if float(half) == bound else bound


def as_java_text(values: pa.Array) -> pa.Array:
    """Format numbers as Java does."""
    texts = values.cast(pa.string()).dictionary_encode()
    known = pa.array([_java(text) for text in texts.dictionary.to_pylist()], pa.string())
    return pc.take(known, texts.indices)


def _java(text: str) -> str:
    if text in _WORDS:
        return _WORDS[text]
    negative, digits, exponent = Decimal(text).as_tuple()
    assert isinstance(exponent, int)
    sign, shown = "-" if negative else "", "".join(map(str, digits)).rstrip("0")
    point = len(digits) + exponent
    if not shown:
        return f"{sign}0.0"
    if -3 < point <= 7:
        padded = shown.rjust(len(shown) + max(0, 1 - point), "0").ljust(max(point, 1), "0")
        place = max(point, 1)
        return f"{sign}{padded[:place]}.{padded[place:] or '0'}"
    return f"{sign}{shown[0]}.{shown[1:] or '0'}E{point - 1}"
