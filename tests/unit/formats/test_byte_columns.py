"""The order of texts by their bytes is that of Arrow's sort, whatever the texts have in common."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from pyhudi_core.formats.byte_columns import order_of_texts

ROWS = 4_000
_CHANCE = np.random.default_rng(7)


def _some(letters: str, longest: int) -> list[str]:
    return ["".join(_CHANCE.choice(list(letters), _CHANCE.integers(0, longest))) for _ in range(ROWS)]


TEXTS: dict[str, Callable[[], list[str]]] = {
    "numbers": lambda: _CHANCE.permutation(ROWS * 10)[:ROWS].astype(str).tolist(),
    "random": lambda: [_CHANCE.bytes(16).hex() for _ in range(ROWS)],
    "one beginning": lambda: [f"order-{number:012d}" for number in _CHANCE.permutation(ROWS)],
    "few beginnings": lambda: [f"store-{number % 17:02d}|{number:012d}" for number in _CHANCE.permutation(ROWS)],
    "few repetitions": lambda: [f"{max(number, 9):09d}" for number in _CHANCE.permutation(ROWS)],
    "zeros and other alphabets": lambda: _some("a\0é漢\U0001f600", 4),
    "beginnings of each other": lambda: ["pre" + text for text in _some("ab\0", 12)],
    "long": lambda: ["a" * 50 + text for text in _some("ab", 30)],
    "equal": lambda: ["x"] * ROWS,
    "empty": lambda: [""] * ROWS,
    "few": lambda: ["b", "a", ""],
    "none": list,
}


@pytest.mark.parametrize("case", TEXTS)
@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()], ids=str)
def test_texts_are_ordered_by_their_bytes(case: str, kind: pa.DataType) -> None:
    texts = pa.array(TEXTS[case](), kind)
    for part in (texts, texts.slice(len(texts) // 3)):
        assert order_of_texts(part).to_pylist() == pc.sort_indices(part).to_pylist()
