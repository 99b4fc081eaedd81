"""Manifests of the archived timeline: written as Hudi reads them, read with suspicion."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.samples import examples

from pyhudi_core.errors import CorruptTimelineError, LimitExceededError
from pyhudi_core.formats.history_manifest import (
    MAX_MANIFEST_BYTES,
    HistoryFile,
    data_file_name,
    decode_manifest,
    decode_version,
    encode_manifest,
    is_data_file,
    manifest_name,
    manifest_number,
)

FIRST, LAST = "20260101000000000", "20260102000000000"
FILES = (
    HistoryFile(data_file_name(FIRST, LAST, 0), 3384, "20260103000000000"),
    HistoryFile(data_file_name(LAST, LAST, 1), 7),
)
GOOD = encode_manifest(FILES, "nonce")


def body(**changes: object) -> bytes:
    return json.dumps({**json.loads(GOOD), **changes}).encode()


@pytest.mark.row("B7")
def test_what_is_written_is_read_again() -> None:
    assert decode_manifest(GOOD, "m") == FILES
    assert json.loads(GOOD)["files"][0] == {"fileName": FILES[0].name, "fileLen": 3384}, "as Hudi spells it"


def test_a_file_says_what_it_covers() -> None:
    file = FILES[0]
    assert (file.first, file.last, file.layer) == (FIRST, LAST, 0)
    assert file.may_hold(LAST, LAST)
    assert file.may_hold("2", FIRST)
    assert not file.may_hold("20260102000000001", "3")
    assert not file.may_hold("1", "20251231000000000")


def test_a_manifest_of_hudi_is_read() -> None:
    text = '{\n  "files" : [ {\n    "fileName" : "1_2_0.parquet",\n    "fileLen" : 12\n  } ]\n}'
    assert decode_manifest(text.encode(), "m") == (HistoryFile("1_2_0.parquet", 12),)
    assert decode_manifest(b'{"files":[]}', "m") == ()


@pytest.mark.parametrize(
    "name",
    ["../1_2_0.parquet", "/etc/passwd", "a/1_2_0.parquet", "1_2_0.parquet\n", "1_2_10.parquet", "1_2.parquet", "", "1_2_0.PARQUET",
     "\u0661_2_0.parquet", "file:/1_2_0.parquet", "1_2_0.parquet/..", "1" * 5000 + "_2_0.parquet", None, 7],
)  # fmt: skip
def test_names_that_are_not_of_the_history_are_refused(name: object) -> None:
    with pytest.raises(CorruptTimelineError) as caught:
        decode_manifest(body(files=[{"fileName": name, "fileLen": 1}]), ".hoodie/timeline/history/manifest_1")
    assert caught.value.path == ".hoodie/timeline/history/manifest_1"
    assert len(str(caught.value)) < 600


@pytest.mark.parametrize("size", [-1, "1", None, 1.5, True, [], 10**40 * 1.0])
def test_lengths_that_are_no_lengths_are_refused(size: object) -> None:
    with pytest.raises(CorruptTimelineError):
        decode_manifest(body(files=[{"fileName": "1_2_0.parquet", "fileLen": size}]), "m")


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"null", b"[]", b"7", b'"files"', b"{}", b'{"files":{}}', b'{"files":[7]}', b'{"files":null}', b"\xff\xfe", b"\0" * 20,
     b'{"files":[],"files":[]}', b"[" * 100_000, b'{"a":' * 50_000, b'{"files":[{"fileName":"1_2_0.parquet"}]}',
     b'{"files":[{"fileName":"1_2_0.parquet","fileLen":' + b"9" * 6000 + b"}]}", GOOD[: len(GOOD) // 2]],
    ids=range(18),
)  # fmt: skip
def test_what_is_no_manifest_is_refused(data: bytes) -> None:
    with pytest.raises(CorruptTimelineError):
        decode_manifest(data, "m")


def test_a_file_that_is_listed_twice_is_refused() -> None:
    entry = {"fileName": "1_2_0.parquet", "fileLen": 1}
    with pytest.raises(CorruptTimelineError, match="twice"):
        decode_manifest(body(files=[entry, entry]), "m")


def test_a_manifest_beyond_the_limit_is_not_parsed() -> None:
    with pytest.raises(LimitExceededError):
        decode_manifest(b" " * (MAX_MANIFEST_BYTES + 1), "m")


@pytest.mark.parametrize(
    "ours", [None, 7, [], {}, {"completed": 7}, {"completed": {FILES[0].name: 7}}, {"completed": {FILES[0].name: "x"}}]
)
def test_what_we_keep_beside_hudis_fields_is_never_needed(ours: object) -> None:
    assert [(f.name, f.completed) for f in decode_manifest(body(pyhudi=ours), "m")] == [(f.name, None) for f in FILES]


@pytest.mark.parametrize(
    ("data", "number"),
    [(b"14", 14), (b"14\n", 14), (b"0", 0), (b"", None), (b"-1", None), (b"x", None), (b"1.5", None), (b"9" * 18, 10**18 - 1),
     (b"9" * 19, None), (b"1" * 1_000_000, None), ("\u0661".encode(), None), (b"1 2", None)],
)  # fmt: skip
def test_the_pointer_holds_a_number_or_nothing(data: bytes, number: int | None) -> None:
    assert decode_version(data) == number


@pytest.mark.parametrize(
    ("name", "number"),
    [("manifest_1", 1), ("manifest_10", 10), ("manifest_01", None), ("manifest_", None), ("manifest_x", None), ("manifest_-1", None),
     ("manifest_" + "9" * 30, None), ("manifest_1.tmp", None), ("_version_", None)],
)  # fmt: skip
def test_manifests_are_known_by_their_names(name: str, number: int | None) -> None:
    assert manifest_number(name) == number
    assert number is None or manifest_name(number) == name


def test_only_data_files_are_called_like_data_files() -> None:
    assert is_data_file("1_2_0.parquet")
    assert not any(
        map(is_data_file, ("1_2_0.parquet.crc", ".1_2_0.parquet", "manifest_1", "_version_", "1_2_x.parquet"))
    )


mutations = st.tuples(
    st.integers(0, len(GOOD)),
    st.integers(0, 40),
    st.binary(max_size=20) | st.sampled_from([b'"', b"[", b"{", b"}", b"9" * 50]),
)


@settings(derandomize=True, max_examples=examples(500), deadline=None)
@given(mutations)
def test_damaged_manifests_raise_a_typed_error_or_list_files_of_the_history(mutation: tuple[int, int, bytes]) -> None:
    at, cut, put = mutation
    try:
        files = decode_manifest(GOOD[:at] + put + GOOD[at + cut :], "m")
    except (CorruptTimelineError, LimitExceededError):
        return
    assert all(is_data_file(file.name) and file.size >= 0 for file in files)
