"""Keys of the metadata table: hashes that Hudi makes, escapes that come back, shards that Java's arithmetic gives."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyhudi_core.metadata_table.names import (
    file_groups_of,
    name_hash,
    record_keys_of,
    secondary_key,
    split_secondary_key,
)


@pytest.mark.parametrize(
    ("text", "expected"), [("part=p1", "tssgLg9E7p0="), ("part", "+WGrmgkN3io="), (".", "FXThHwelITM=")]
)
def test_names_are_hashed_as_hudi_does(text: str, expected: str) -> None:
    assert name_hash(text) == expected


@given(st.text("ab$\\", max_size=6), st.text("xy$\\", max_size=6))
def test_a_secondary_key_comes_back_in_its_two_parts(secondary: str, record: str) -> None:
    assert split_secondary_key(secondary_key(secondary, record)) == (secondary, record)


@given(st.text("ab$\\\n", max_size=6), st.text("xy$\\\n", max_size=6))
def test_record_keys_of_many_entries_are_those_of_single_ones(secondary: str, record: str) -> None:
    entries = pa.array([secondary_key(secondary, record), secondary_key(record, secondary)])
    assert record_keys_of(entries).to_pylist() == [record, secondary]


@pytest.mark.parametrize(
    ("key", "hashed"), [("", 0), ("a", 97), ("ab", 3105), ("polygenelubricants", -(2**31)), ("\U0001f600", 1772899)]
)
def test_shards_follow_javas_hash(key: str, hashed: int) -> None:
    for groups in (1, 2, 10, 7):
        expected = abs(hashed) % groups if hashed != -(2**31) else (2**31) % groups
        assert file_groups_of([key, "z", key], groups).tolist() == [expected, 122 % groups, expected]


def file_group_of(key: str, groups: int) -> int:
    """The rule in Java's words: ``Math.abs(Math.abs(hash) % groups)``; the abs of the smallest int is that int itself."""
    value = 0
    for unit in memoryview(key.encode("utf-16-le")).cast("H"):
        value = (31 * value + unit) & 0xFFFFFFFF
    return abs(value - (1 << 32) if value >= 1 << 31 else value) % groups


@given(st.lists(st.text(max_size=8)), st.integers(1, 20))
def test_many_keys_are_placed_like_single_ones(keys: list[str], groups: int) -> None:
    keys = [key for key in keys if not any(0xD800 <= ord(c) < 0xE000 for c in key)]
    expected = [file_group_of(key, groups) for key in keys]
    assert file_groups_of(keys, groups).tolist() == expected
    assert file_groups_of(keys * 40, groups).tolist() == expected * 40  # by columns, as few are not
