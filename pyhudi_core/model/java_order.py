"""The characters for which Java sorts texts in the same order as Arrow and Python.

Java compares UTF-16 code units; Arrow and Python compare UTF-8 bytes or code points. The two orders differ only beyond U+D7FF. So minimum and maximum
values by Java are valid here if all of their characters are at most U+D7FF.
"""

from __future__ import annotations

_FIRST_SURROGATE = "\ud800"


def sorts_as_in_java(text: str) -> bool:
    """Say whether a text has the same position in both orders."""
    return max(text, default="") < _FIRST_SURROGATE
