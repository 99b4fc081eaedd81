"""Where the order of texts in Java and here is the same.

Java compares UTF-16 code units, everybody else code points or UTF-8 bytes. The two differ only beyond U+D7FF, so bounds that Java may have made
hold here if they have no character of that kind.
"""

from __future__ import annotations

_FIRST_SURROGATE = "\ud800"


def sorts_as_in_java(text: str) -> bool:
    """Whether a text is before and after the same texts in both orders."""
    return max(text, default="") < _FIRST_SURROGATE
