"""Erasures of tables whose keys have a text that is not just the value: every form is looked for, and where the form is not known nothing is proved."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner
from support.disk import contents
from support.metadata_tables import build
from support.prefixed_keys import complex_table, say_generator
from support.tables import create_plain, make, orders, reopen, rows

import pyhudi_core as hudi
from pyhudi_core.cli.main import main
from pyhudi_core.errors import UnsupportedTableError
from pyhudi_core.repairs import erasure

FIRST = pa.table({"id": [1]})


@pytest.mark.row("U9")
@pytest.mark.parametrize(
    ("kind", "prefixed", "stored"),
    [
        ("COPY_ON_WRITE", True, "id:1"),
        ("MERGE_ON_READ", True, "id:1"),
        pytest.param("MERGE_ON_READ", False, "1", marks=pytest.mark.slow),
    ],
)
def test_a_key_is_erased_in_each_form_that_releases_of_hudi_write(
    location: str, monkeypatch: pytest.MonkeyPatch, kind: str, stored: str, *, prefixed: bool
) -> None:
    table = complex_table(location, monkeypatch, prefixed=prefixed, table_type=kind)
    build(table)
    table = reopen(table)
    table.upsert(orders((1, "a", 9.0)))
    assert stored in table.scan().to_arrow()["_hoodie_record_key"].to_pylist()
    plan = table.erasure.plan(FIRST)
    assert (plan.keys, plan.rows, bool(plan)) == (1, 1, True)
    assert any("/record_index/" in path for path in plan.holders)
    assert not table.erasure.verify(FIRST)
    report = table.erasure.run(FIRST)
    assert report, report.proof
    assert (report.keys, report.rows) == (1, 1)
    table = reopen(table)
    assert rows(table, "id") == [(2,)]
    assert table.erasure.verify(FIRST)


@pytest.mark.row("U9")
def test_the_digest_of_keys_has_every_form_that_was_looked_for(location: str, monkeypatch: pytest.MonkeyPatch) -> None:
    report = complex_table(location, monkeypatch, prefixed=True).erasure.run(pa.table({"id": [1, 7, 7]}))
    assert report.keys == 2
    assert report.keys_sha256 == hashlib.sha256(b"1\n7\nid:1\nid:7").hexdigest()


@pytest.mark.row("U9")
def test_the_command_does_not_say_that_a_key_with_a_prefix_is_gone(
    location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = complex_table(location, monkeypatch, prefixed=True)
    erase = lambda *words: CliRunner().invoke(main, ["erase", location, "--key", "1", *words]).exit_code  # noqa: E731
    assert erase("--verify") == 1
    assert (erase(), rows(table, "id")) == (0, [(2,)])
    assert erase("--verify") == 0


def of_times(location: str) -> hudi.HudiTable:
    table = create_plain(location, pa.schema([("id", pa.timestamp("us")), ("price", pa.float64())]), "id")
    table.upsert(pa.table({"id": pa.array([1, 2], pa.timestamp("us")), "price": [1.0, 2.0]}))
    return table


@pytest.mark.row("U9")
@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("", "timestamps as keys"),
        ("type=OTHER", "the key generator OTHER"),
        ("class=com.example.Keys", "the key generator OTHER"),
        ("type=GLOBAL_DELETE", "the key generator GLOBAL_DELETE"),
    ],
)
def test_keys_whose_text_is_not_known_are_refused_by_name(location: str, said: str, why: str) -> None:
    table = make(location) if said else of_times(location)
    if said:
        table.upsert(orders((1, "a", 1.0)))
        say_generator(location, said)
    table = hudi.open_table(location)
    before, keys = contents(location), table.scan(columns=["id"]).to_arrow()
    for call in (table.erasure.plan, table.erasure.run, table.erasure.verify):
        with pytest.raises(UnsupportedTableError, match=f"cannot be erased from a table that has {why}"):
            call(keys)
    assert contents(location) == before


@pytest.mark.row("U9")
def test_rows_that_no_file_seems_to_hold_prove_nothing(location: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stored keys have a form that nobody knows here, and no check has refused it."""
    complex_table(location, monkeypatch, prefixed=True)
    say_generator(location, "class=com.example.Keys", then="type=COMPLEX")
    monkeypatch.setattr(erasure, "why_unknown_texts", lambda config, schema: "")
    table = hudi.open_table(location)
    before = contents(location)
    for call in (table.erasure.plan, table.erasure.run, table.erasure.verify):
        with pytest.raises(UnsupportedTableError, match="1 rows of the keys can be read, and no file seems to hold"):
            call(FIRST)
    assert contents(location) == before


@pytest.mark.row("U9")
def test_a_row_that_a_writer_writes_during_the_examination_is_left_and_no_contradiction(
    location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(location)
    table.upsert(orders((2, "a", 2.0)))
    examine = erasure.examine

    def then_written(*args: Any) -> object:
        monkeypatch.setattr(erasure, "examine", examine)
        found = examine(*args)
        hudi.open_table(location).upsert(orders((1, "a", 1.0)))
        return found

    monkeypatch.setattr(erasure, "examine", then_written)
    assert [path.split("/")[0] for path in table.erasure.verify(FIRST).found] == ["day=a"]


@pytest.mark.row("U9")
def test_a_file_that_cannot_be_read_is_named_though_no_index_says_where_keys_are(location: str) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0)))
    [file] = Path(location).glob("day=a/*.parquet")
    file.write_bytes(b"not a Parquet file")
    [unread] = table.erasure.verify(FIRST).unread
    assert file.name in unread


def test_keys_in_nested_columns_are_neither_looked_up_nor_erased(location: str) -> None:
    """Hudi has them: ``address.street``."""
    schema = pa.schema([("id", pa.string()), ("a", pa.struct([("b", pa.string())]))])
    made = make(location, schema)
    made.upsert(pa.Table.from_pylist([{"id": "x", "a": {"b": "x"}}], schema))
    properties = Path(location, ".hoodie/hoodie.properties")
    properties.write_text(properties.read_text().replace("recordkey.fields=id", "recordkey.fields=a.b"))
    table = hudi.open_table(location)
    for act in (table.lookup, table.erasure.plan, table.erasure.run):
        with pytest.raises(UnsupportedTableError, match=r"nested column 'a\.b'"):
            act(pa.table({"a.b": ["x"]}))
    assert rows(table, "id") == [("x",)]
