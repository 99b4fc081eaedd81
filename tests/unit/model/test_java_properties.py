"""Properties text, against Java's rules and against files that Hudi wrote."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.samples import examples

from pyhudi_core.errors import CorruptPropertiesError, HudiError, LimitExceededError
from pyhudi_core.model.java_properties import SIZE_LIMIT, parse, render

GOLDEN = sorted((Path(__file__).parents[2] / "golden" / "properties").glob("*.properties"))
ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"]))


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_a_file_of_hudi_reads_and_writes_back_byte_for_byte(path: Path) -> None:
    data = path.read_bytes()
    lines = data.splitlines()
    comment = b"\n".join(line[1:] for line in lines if line.startswith(b"#")).decode()
    assert render(parse(data, path=path.name), comment).splitlines() == lines


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"a=1", {"a": "1"}),
        (b"a = 1\r\nb:2\rc 3\n", {"a": "1", "b": "2", "c": "3"}),
        (b"# note\n! note\n\n  \t\n\ta=1", {"a": "1"}),
        (b"a=1\\\n   2\\\\\nb=3", {"a": "12\\", "b": "3"}),
        (b"a=\\\r\n  x", {"a": "x"}),
        (b"k\\=\\:\\ k=v\\:w", {"k=: k": "v:w"}),
        (b"a=\\u00e9\\u4e2D\\ud83d\\ude00", {"a": "\xe9\u4e2d\U0001f600"}),
        (b"a=\xe9", {"a": "\xe9"}),
        (b"a=\\t\\n\\r\\f\\q", {"a": "\t\n\r\fq"}),
        (b"a", {"a": ""}),
        (b"a=1\na=2", {"a": "2"}),
        (b"a==b=c", {"a": "=b=c"}),
        (b"a=x \nb=\\ y", {"a": "x ", "b": " y"}),
        (b"", {}),
        (b"a=1\\", {"a": "1"}),
    ],
)
def test_text_reads_as_java_reads_it(data: bytes, expected: dict[str, str]) -> None:
    assert parse(data, path="p") == expected


@pytest.mark.parametrize("data", [b"a=\\u12", b"a=\\uZZZZ", b"a=\\ud83d", b"a\\u=1", b"a=\0"])
def test_an_escape_that_java_refuses_is_a_typed_error(data: bytes) -> None:
    with pytest.raises(CorruptPropertiesError) as error:
        parse(data, path=".hoodie/hoodie.properties")
    assert error.value.path == ".hoodie/hoodie.properties"


def test_a_file_over_the_limit_is_not_read() -> None:
    with pytest.raises(LimitExceededError):
        parse(b"#" * (SIZE_LIMIT + 1), path="p")


@settings(max_examples=examples(500), deadline=None)
@given(st.dictionaries(ANY_TEXT.filter(lambda key: "\0" not in key), ANY_TEXT), ANY_TEXT)
def test_every_mapping_survives_writing_and_reading(properties: dict[str, str], comment: str) -> None:
    data = render(properties, comment)
    assert data.isascii()
    assert parse(data, path="p") == properties


@settings(max_examples=examples(500), deadline=None)
@given(st.data())
def test_a_damaged_file_gives_a_typed_error_or_a_mapping(data: st.DataObject) -> None:
    golden = bytearray(data.draw(st.sampled_from(GOLDEN)).read_bytes())
    kind = data.draw(st.sampled_from(["flip", "truncate", "splice"]))
    place = data.draw(st.integers(0, len(golden) - 1))
    if kind == "flip":
        golden[place] ^= 1 << data.draw(st.integers(0, 7))
    elif kind == "truncate":
        del golden[place:]
    else:
        golden[place:place] = data.draw(st.binary(max_size=20))
    try:
        properties = parse(bytes(golden), path="p")
    except HudiError:
        return
    assert all(isinstance(text, str) for item in properties.items() for text in item)
