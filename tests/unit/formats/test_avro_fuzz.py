"""Damaged timeline files give a typed error or a value, in bounded time."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from support.samples import examples

from pyhudi_core.errors import CorruptAvroError
from pyhudi_core.formats.avro.container import decode_record, sync_marker_of

GOLDEN = Path(__file__).parents[2] / "golden" / "formats"
FILES = {path.stem: path.read_bytes() for path in sorted(GOLDEN.glob("*.avro"))}


@st.composite
def damaged(draw: st.DrawFn) -> tuple[str, bytes]:
    """A file with bits flipped, cut, or with a piece of another one in it."""
    name = draw(st.sampled_from(sorted(FILES)))
    data = bytearray(FILES[name])
    kind = draw(st.sampled_from(["flip", "flip the record", "cut", "splice", "lengths"]))
    if kind.startswith("flip"):
        first = 0 if kind == "flip" else data.rindex(sync_marker_of(bytes(data)), 0, len(data) - 16)
        for _ in range(draw(st.integers(1, 4))):
            data[draw(st.integers(first, len(data) - 1))] ^= 1 << draw(st.integers(0, 7))
    elif kind == "cut":
        del data[draw(st.integers(0, len(data))) :]
    elif kind == "splice":
        other = FILES[draw(st.sampled_from(sorted(FILES)))]
        start = draw(st.integers(0, len(other)))
        at = draw(st.integers(0, len(data)))
        data[at : at + draw(st.integers(0, 300))] = other[start : start + draw(st.integers(0, 300))]
    else:
        at = draw(st.integers(0, len(data) - 1))
        data[at : at + 1] = b"\xff" * draw(st.integers(1, 9)) + b"\x01"
    return name, bytes(data)


@settings(max_examples=examples(500), deadline=2_000)
@given(damaged(), st.booleans())
def test_a_damaged_file_is_a_value_or_a_typed_error(case: tuple[str, bytes], expecting: bool) -> None:
    name, data = case
    record, refused = None, None
    try:
        record = decode_record(data, name if expecting else None, path="file")
    except CorruptAvroError as error:
        refused = error
    assert refused.path == "file" if refused else isinstance(record, dict)


@settings(max_examples=examples(200), deadline=1_000)
@given(st.binary(max_size=300))
def test_any_bytes_after_the_magic_are_a_typed_error(tail: bytes) -> None:
    try:
        decode_record(b"Obj\x01" + tail)
    except CorruptAvroError:
        return
    raise AssertionError("random bytes do not make up a schema")
