"""Recovery of tables whose columns were altered: columns that names cannot tell apart are asked for, and never read by name in silence."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner
from support.disk import contents
from support.tables import FAST, make

import pyhudi_core as hudi
from pyhudi_core.cli import main
from pyhudi_core.errors import InvalidOptionError

pytestmark = pytest.mark.row("E8")

SCHEMA = pa.schema([("id", pa.int64()), ("a", pa.int32()), ("s", pa.struct([("x", pa.int32())]))])
ANSWERS: dict[str, Any] = {"record_key": "id", "ordering": ()}
Change = Callable[[hudi.HudiTable], object]


def _drop_and_add(table: hudi.HudiTable) -> None:
    table.alter(drop=["a"], add={"b": pa.int32()})
    table.alter(add={"a": pa.int32()})


CHANGES: dict[str, tuple[Change, str]] = {
    "renamed": (lambda table: table.alter(rename={"a": "z"}), "lacks a and has in addition z"),
    "nested": (lambda table: table.alter(rename={"s.x": "y"}), "lacks s.x and has in addition s.y"),
    "dropped": (lambda table: table.alter(drop=["a"]), "lacks a"),
    "dropped and added": (_drop_and_add, "another order: b, a|another order: s, s.x, b, a"),
    "a text": (lambda table: table.alter(retype={"a": pa.string()}), r"other types of a \(int32, now string\)"),
}


def _rows(table: hudi.HudiTable) -> list[dict[str, Any]]:
    return list(table.scan(meta=False).to_arrow().sort_by("id").to_pylist())


def _filled(location: str, kind: str, **more: Any) -> hudi.HudiTable:
    table = make(location, SCHEMA, table_type=kind, **more)
    table.upsert(pa.Table.from_pylist([{"id": 1, "a": 1, "s": {"x": 1}}, {"id": 2, "a": 2, "s": {"x": 2}}], SCHEMA))
    return table


def _touch(table: hudi.HudiTable, key: int = 1) -> None:
    """Write one row again as it is."""
    table.upsert(table.scan(meta=False, where=f"id = {key}").to_arrow())


def _lose(table: hudi.HudiTable) -> None:
    shutil.rmtree(f"{table.location}/.hoodie")


def _plan(table: hudi.HudiTable, **answers: Any) -> hudi.RecoveryPlan:
    return hudi.plan_recovery(table.location, **{**ANSWERS, **answers}, storage_options=FAST)


def _recover(table: hudi.HudiTable, **answers: Any) -> hudi.HudiTable:
    return hudi.recover(table.location, **{**ANSWERS, **answers}, storage_options=FAST, accept_unknown=True)


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_that_logs_show_is_asked_for_and_nothing_is_written(location: str, change: str) -> None:
    table = _filled(location, "mor")
    alter, what = CHANGES[change]
    alter(table)
    _touch(table)
    _lose(table)
    before = contents(location)
    with pytest.raises(InvalidOptionError, match=what):
        _recover(table)
    assert contents(location) == before
    assert [text for text in _plan(table).questions if "by_name" in text]


def test_with_the_answer_columns_are_found_by_name(location: str) -> None:
    table = _filled(location, "mor")
    table.alter(drop=["a"])
    _touch(table)
    before = _rows(table)
    _lose(table)
    assert (
        CliRunner().invoke(main, ["recover", location, "--plan", "--record-key", "id", "--no-ordering"]).exit_code == 1
    )
    assert _rows(_recover(table, by_name=True)) == before


def test_a_column_that_one_older_file_lacks_is_asked_for(location: str) -> None:
    table = _filled(location, "mor")
    table.alter(drop=["a"])
    _touch(table)
    table.alter(add={"a": pa.int32()}, order=["id", "a", "s"])
    _touch(table)
    _lose(table)
    assert any("lacks a" in text for text in _plan(table).questions)


def test_other_file_groups_of_a_copy_on_write_table_are_compared(location: str) -> None:
    table = make(location, pa.schema([*SCHEMA, ("day", pa.string())]), table_type="cow")
    table.upsert(pa.Table.from_pylist([{"id": 1, "a": 1, "day": "x"}, {"id": 2, "a": 2, "day": "y"}], table.schema))
    table.alter(rename={"a": "z"})
    _touch(table)
    reread = _rows(table)
    assert reread[1]["z"] == 2
    _lose(table)
    assert any("lacks a" in text for text in _plan(table, table_type="cow").questions)


def test_a_table_that_was_rewritten_after_the_change_is_recovered(location: str) -> None:
    table = _filled(location, "cow")
    table.alter(rename={"a": "z"})
    _touch(table)
    before = _rows(table)
    _lose(table)
    plan = _plan(table, table_type="cow")
    assert plan
    assert any("older versions of files" in text and "lacks a" in text for text in plan.unknown)
    assert _rows(_recover(table, table_type="cow")) == before


def test_a_change_without_a_write_after_it_is_reported(location: str) -> None:
    table = _filled(location, "cow")
    table.alter(rename={"a": "z"})
    _lose(table)
    plan = _plan(table, table_type="cow")
    assert any("after which nothing was written" in text for text in plan.unknown)
    with pytest.raises(InvalidOptionError, match="after which nothing was written"):
        hudi.recover(location, **ANSWERS, table_type="cow", storage_options=FAST)


def test_added_and_widened_columns_are_not_asked_for(location: str) -> None:
    table = _filled(location, "mor")
    wider = pa.schema(
        [
            ("id", pa.int64()),
            ("a", pa.int64()),
            ("s", pa.struct([("x", pa.int64()), ("y", pa.string())])),
            ("n", pa.string()),
        ]
    )
    table.upsert(pa.Table.from_pylist([{"id": 1, "a": 2**40, "s": {"x": 5, "y": "t"}, "n": "u"}], wider))
    before = _rows(table)
    _lose(table)
    plan = _plan(table)
    assert plan, plan.questions
    assert _rows(_recover(table)) == before


def test_a_partial_update_does_not_decide_the_columns(location: str) -> None:
    schema = pa.schema([("id", pa.int64()), ("ts", pa.int64()), ("a", pa.int32()), ("b", pa.int32())])
    table = make(location, schema, table_type="mor", ordering="ts")
    table.upsert(pa.Table.from_pylist([{"id": key, "ts": 1, "a": key, "b": key} for key in (1, 2)], schema))
    table.upsert(pa.Table.from_pylist([{"id": 1, "ts": 2, "a": 9}], schema.remove(3)), partial=True)
    before = _rows(table)
    _lose(table)
    found = _recover(table, ordering="ts")
    assert _rows(found) == before == [{"id": 1, "ts": 2, "a": 9, "b": 1}, {"id": 2, "ts": 1, "a": 2, "b": 2}]
    found.alter(rename={"a": "z"})
    found.upsert(pa.Table.from_pylist([{"id": 2, "ts": 2, "z": 8}], found.schema.remove(3)), partial=True)
    _lose(found)
    assert any("has values of z, and" in text for text in _plan(found, ordering="ts").questions)
