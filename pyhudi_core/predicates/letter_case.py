"""Upper and lower case as in Java and Spark (Unicode, "Special Casing"): one letter may become several; a sigma at the
end of a word differs.

Arrow maps each letter to one letter, so this module registers two functions with Arrow. ASCII text uses Arrow's own functions, which are faster.

Invariant: after importing this module, a process can evaluate expressions with these functions, also those made in another process.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

_NAMES = {"lower": "pyhudi_lower", "upper": "pyhudi_upper"}
_LETTERS: dict[str, tuple[Callable[[Any], Any], Callable[[str], str]]] = {
    "lower": (pc.utf8_lower, str.lower),
    "upper": (pc.utf8_upper, str.upper),
}


def in_case(function: str, text: pc.Expression) -> pc.Expression:
    """Return the expression for the lower or upper case of a text."""
    return pc.Expression._call(_NAMES[function], [text])


def cased(function: str, text: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Return the texts in ``lower`` or ``upper`` case."""
    return pc.call_function(_NAMES[function], [text])


def lowered(text: pa.Array) -> pa.Array:
    """Return the texts in lower case."""
    return pc.call_function(_NAMES["lower"], [text])


def _function(name: str) -> Callable[[Any, Any], Any]:
    simple, exact = _LETTERS[name]

    def run(_context: Any, text: Any) -> Any:
        if isinstance(text, pa.Scalar):
            return pa.scalar(None if text.as_py() is None else exact(text.as_py()), pa.string())
        plain = pc.fill_null(pc.string_is_ascii(text), True)
        if pc.all(plain, min_count=0).as_py():
            return simple(text)
        others = text.filter(pc.invert(plain)).to_pylist()
        return pc.replace_with_mask(simple(text), pc.invert(plain), pa.array(map(exact, others), pa.string()))

    return run


def _register(name: str) -> None:
    if _NAMES[name] not in pc.list_functions():
        documentation = {"summary": f"{name} case as in Java", "description": "Full case mapping of Unicode."}
        pc.register_scalar_function(_function(name), _NAMES[name], documentation, {"text": pa.string()}, pa.string())


for _name in _NAMES:
    _register(_name)
