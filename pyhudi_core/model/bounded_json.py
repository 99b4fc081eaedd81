"""Parse JSON of files that anybody may have written. The memory is in proportion to the bytes of the file.

Python takes some 60 bytes for an empty list or object, whose text has three bytes. So a file may have one list or object for each eight bytes.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pyhudi_core.lazy import lazy

if TYPE_CHECKING:
    import numpy as np
else:
    np = lazy("numpy")

PROTOCOL_BYTES = 1 << 20
"""The maximum size of a file that names a process. Such a file usually has some hundred bytes."""
MOST_BYTES = 64 << 20
_BYTES_EACH, _ALWAYS = 8, 1_000


def parse_json(data: bytes | str, most_bytes: int | None = MOST_BYTES) -> Any:
    """Return the value of JSON.

    Raises `ValueError` for a text that is not JSON, for nesting that is too deep, for more than ``most_bytes`` bytes, and for so many lists and
    objects that they would take many times the size of the text.
    """
    if most_bytes is not None and len(data) > most_bytes:
        raise ValueError(f"it has {len(data):,} bytes, and readers take at most {most_bytes:,}")
    most = len(data) // _BYTES_EACH + _ALWAYS
    if _brackets(data) > most and (count := _brackets_outside_texts(data)) > most:
        raise ValueError(f"it has {count:,} lists and objects in {len(data):,} bytes")
    try:
        return json.loads(data)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def _brackets(data: bytes | str) -> int:
    return data.count("[") + data.count("{") if isinstance(data, str) else data.count(b"[") + data.count(b"{")


def _brackets_outside_texts(data: bytes | str) -> int:
    """Count the lists and objects of JSON. A text may have any letters, such as the extra metadata of a commit, and its brackets do not count."""
    raw = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
    letters = np.frombuffer(raw.replace(b"\\\\", b"  ").replace(b'\\"', b"  "), np.uint8)
    in_text = np.bitwise_xor.accumulate(letters == ord('"'))
    return int(np.count_nonzero(((letters == ord("[")) | (letters == ord("{"))) & ~in_text))
