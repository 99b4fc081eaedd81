"""JSON of values of a table.

JSON has no NaN, no infinity and no bytes: the first two become texts, as in Spark, and bytes become hexadecimal digits.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any


def json_text(
    value: object, indent: int | None = None, *, plain: Callable[[Any], str] = str, ascii_only: bool = True
) -> str:
    """Return JSON that every parser accepts. ``plain``: converts values of other types to text."""

    def text_of(other: Any) -> str:
        return other.hex() if isinstance(other, bytes) else plain(other)

    def dumped(given: object) -> str:
        return json.dumps(given, indent=indent, default=text_of, ensure_ascii=ascii_only, allow_nan=False)

    try:
        return dumped(value)
    except ValueError:
        return dumped(_finite(value))


def _finite(value: object) -> object:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {name: _finite(part) for name, part in value.items()}
    return list(map(_finite, value)) if isinstance(value, list | tuple) else value
