"""Repeated record keys are found by their hashes."""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.samples import examples

from pyhudi_core.errors import InvalidRecordKeyError
from pyhudi_core.formats import key_hash
from pyhudi_core.formats.key_hash import are_distinct, ascend, repetitions


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(st.lists(st.sampled_from(["", "a", "b", "ab", "é", "日", "k1", "k2", "k10"]))))
def test_repetitions_are_the_keys_that_came_before(chunks: list[list[str]]) -> None:
    keys = pa.chunked_array([pa.array(chunk, pa.string()) for chunk in chunks], pa.string())
    assert repetitions(keys) == len(keys) - len(set(keys.to_pylist()))


def test_keys_with_one_hash_are_no_repetitions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_hash, "hash_keys", lambda keys: np.arange(len(keys), dtype=np.uint32) // 2)
    assert repetitions(pa.chunked_array([["d", "c", "b", "a"]])) == 0
    assert repetitions(pa.chunked_array([["b", "b"], ["a", "a", "b"]])) == 2


def test_ascending_keys_are_not_hashed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_hash, "hash_keys", None)
    assert repetitions(pa.chunked_array([["a", "b"], [], ["c", "é"], ["日"]])) == 0


def test_keys_ascend_only_if_none_is_equal_and_none_is_null() -> None:
    assert [ascend(pa.array(keys, pa.string())) for keys in ([], ["a"], ["a", "b"])] == [True] * 3
    assert [ascend(pa.array(keys)) for keys in (["b", "a"], ["a", "a"], ["a", None], [None, "a"])] == [False] * 4


def test_a_null_key_is_refused() -> None:
    with pytest.raises(InvalidRecordKeyError):
        repetitions(pa.chunked_array([["a", None]]))


def test_a_chunk_may_begin_with_the_last_key_of_the_one_before_it() -> None:
    assert repetitions(pa.chunked_array([["a", "c"], ["c", "d"]])) == 1
    assert repetitions(pa.chunked_array([["a", "c"], ["b", "c", "d"]])) == 1
    assert repetitions(pa.chunked_array([["a"], ["b"], ["b"]])) == 1


@settings(max_examples=examples(100), deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 40), max_size=8), max_size=5),
    st.sampled_from([pa.int8(), pa.int64(), pa.uint64(), pa.string()]),
    st.booleans(),
)
def test_keys_that_are_said_to_be_distinct_are(parts: list[list[int]], kind: pa.DataType, ordered: bool) -> None:
    values = (
        sorted(value for part in parts for value in part) if ordered else [value for part in parts for value in part]
    )
    cuts = [0, *itertools.accumulate(map(len, parts))]
    column = pa.chunked_array([pa.array(values[a:b], pa.int64()).cast(kind) for a, b in itertools.pairwise(cuts)], kind)
    said, distinct = are_distinct(column), len(set(values)) == len(values)
    assert said <= distinct
    if pa.types.is_integer(kind):
        assert said == distinct, "of numbers it is always known"


def test_nothing_is_said_of_keys_with_nulls_and_of_other_types() -> None:
    assert not are_distinct(pa.chunked_array([[1, None]]))
    assert not are_distinct(pa.chunked_array([[1.5, 2.5]]))
