"""Texts of which Java's order and this one are the same."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pyhudi_core.model.java_order import sorts_as_in_java


def units(text: str) -> bytes:
    """What Java compares."""
    return text.encode("utf-16-be", "surrogatepass")


@given(st.text(), st.text())
def test_a_text_that_sorts_alike_is_before_and_after_the_same_texts(bound: str, other: str) -> None:
    if sorts_as_in_java(bound):
        assert (other < bound, other > bound) == (units(other) < units(bound), units(other) > units(bound))


def test_texts_beyond_the_surrogates_are_told() -> None:
    assert sorts_as_in_java("") and sorts_as_in_java("zoë 漢")
    assert not sorts_as_in_java("\ue000") and not sorts_as_in_java("😀")
    assert "😀" > "\ue000" and units("😀") < units("\ue000"), "this is why"
