"""No path out of metadata leaves the table."""

from __future__ import annotations

import posixpath
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.samples import examples

from pyhudi_core.errors import UnsafePathError
from pyhudi_core.model.safe_path import safe_relative_path

PIECES = st.lists(
    st.sampled_from(["..", ".", "/", "\\", "a", "file:", "s3://b", "C:", "\0", "%2e", "%2f", "..x", ""]), max_size=8
)


@pytest.mark.parametrize(
    "path",
    [
        "/abs",
        "..",
        "a/../b",
        "a/./b",
        "a//b",
        "a/",
        "file:/x",
        "s3://b/k",
        "C:\\x",
        "\\x",
        "a\\..\\b",
        "a\0b",
        "\ud83d",
        "%2e%2e/x",
        "a/%2E./x",
        "a/.%2e",
        "%2e%2e%2fx",
        "a%2f..%2f%2e%2e/x",
        "a/%2e%2e%5cx",
        "%2e/x",
    ],
)
def test_a_path_that_could_leave_the_table_is_refused(path: str) -> None:
    with pytest.raises(UnsafePathError) as error:
        safe_relative_path(path)
    assert error.value.hint


@pytest.mark.parametrize(
    "path",
    [
        "",
        "a",
        "day=2026-01-01/f.parquet",
        "..a/b..",
        "..%2Fx/f",
        "a%2e/x",
        "%252e%252e/x",
        "%2e%2ea/x",
        "100%",
        "a b/\u00e9",
        "k=file:x/y",
    ],
)
def test_an_ordinary_path_comes_back_as_it_is(path: str) -> None:
    assert safe_relative_path(path) == path


@settings(max_examples=examples(500))
@given(st.one_of(st.text(), PIECES.map("".join)))
def test_what_is_accepted_stays_below_the_base(path: str) -> None:
    try:
        safe = safe_relative_path(path)
    except UnsafePathError:
        return
    for read in (safe, re.sub("%2e", ".", safe, flags=re.IGNORECASE)):
        resolved = posixpath.normpath(posixpath.join("/base", read))
        assert resolved == "/base" or resolved.startswith("/base/")
