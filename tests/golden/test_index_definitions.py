"""The definitions of a table's indexes (JSON): what Hudi wrote is what is read, and from where the table's properties say."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from support.golden import unpack
from support.tables import make, orders, reopen

import pyhudi_core as hudi
from pyhudi_core.errors import InvalidOptionError, UnsafePathError
from pyhudi_core.metadata_table.index_definitions import IndexDefinition, read_definitions
from pyhudi_core.storage import LocalStorage

DEFAULT = ".hoodie/.index_defs/index.json"
ELSEWHERE = ".hoodie/.other/folder/indexes.json"
WHERE = "lower(city) = 'rome'"


def _expression(name: str, function: str, column: str, **options: str) -> IndexDefinition:
    return IndexDefinition(f"expr_index_idx_{name}", "column_stats", function, column, {"expr": function, **options})


OF_EXPRESSIONS = (
    IndexDefinition("column_stats", "column_stats", "column_stats", "_hoodie_commit_time", {}),
    _expression("i_year", "year", "at"),
    _expression("i_month", "month", "at"),
    _expression("i_day", "day", "at"),
    _expression("i_hour", "hour", "at"),
    _expression("i_lower", "lower", "city"),
    _expression("i_unix", "from_unixtime", "unix", format="yyyy-MM-dd"),
    _expression("i_dyear", "year", "day"),
)
OF_INDEXED = (
    OF_EXPRESSIONS[0],
    IndexDefinition("secondary_index_idx_label", "secondary_index", "identity", "label", {}),
    _expression("bucket", "from_unixtime", "ts", format="yyyy-MM-dd"),
)
OF_RECORD_INDEX = IndexDefinition("record_index", "record_index", "identity", "", {"isPartitioned": "false"})
"""Releases after 1.0 list it, without a function and without columns."""
DEFINED = {
    "hudi-1.0.2/cow_expressions": OF_EXPRESSIONS,
    "hudi-1.0.2/mor_indexed": OF_INDEXED,
    "hudi-1.2.0/cow_indexed": tuple(replace(each, version="V1") for each in (OF_RECORD_INDEX, *OF_INDEXED)),
    "hudi-1.2.0/cow_plain": (replace(OF_EXPRESSIONS[0], version="V1"),),
}
"""Releases after 1.0 say the version of an index's form, too."""


@pytest.mark.row("I9")
@pytest.mark.parametrize("name", DEFINED)
def test_what_hudi_defined_is_read_name_by_name(name: str, tmp_path: Path) -> None:
    location = unpack(name, tmp_path / "table")
    assert read_definitions(LocalStorage(location), DEFAULT) == DEFINED[name]


@pytest.mark.row("I9")
def test_a_look_up_goes_by_the_column_that_the_definition_names(tmp_path: Path) -> None:
    location = unpack("hudi-1.0.2/cow_indexed", tmp_path / "table")
    with pytest.raises(InvalidOptionError, match="is on column 'label', not on 'qty'"):
        hudi.open_table(location).lookup(pa.table({"qty": [1]}), index="idx_label")
    definitions = Path(location, DEFAULT)
    definitions.write_text(definitions.read_text().replace('[ "label" ]', '[ "qty" ]'))
    with pytest.raises(InvalidOptionError, match="is on column 'qty', not on 'label'"):
        hudi.open_table(location).lookup(pa.table({"label": ["x"]}), index="idx_label")


@pytest.mark.row("P11")
@pytest.mark.parametrize("absolute", [False, True], ids=["relative", "absolute"])
def test_definitions_are_where_the_property_says(absolute: bool, tmp_path: Path) -> None:
    location = unpack("hudi-1.0.2/cow_expressions", tmp_path / "table")
    moved = Path(location, ELSEWHERE)
    moved.parent.mkdir(parents=True)
    Path(location, DEFAULT).rename(moved)
    everything = hudi.open_table(location).scan(columns=["id"], where=WHERE)
    assert len(everything.slices()) == 6, "where the property points there are none, so no file can be left out"
    _point(location, str(moved) if absolute else ELSEWHERE)
    pruned = hudi.open_table(location).scan(columns=["id"], where=WHERE)
    assert len(pruned.slices()) == 1
    assert sorted(pruned.to_arrow()["id"].to_pylist()) == sorted(everything.to_arrow()["id"].to_pylist()) != []


@pytest.mark.row("P11")
def test_definitions_outside_the_table_are_not_read(tmp_path: Path) -> None:
    location = unpack("hudi-1.0.2/cow_expressions", tmp_path / "table")
    Path(location, DEFAULT).rename(tmp_path / "outside.json")
    for path in (str(tmp_path / "outside.json"), "../outside.json"):
        _point(location, path)
        with pytest.raises(UnsafePathError, match=r"hoodie\.table\.index\.defs\.path"):
            hudi.open_table(location)


@pytest.mark.row("P11", "I9")
def test_definitions_are_written_where_the_property_says(tmp_path: Path) -> None:
    """The doctor once took the decision of such an index for an attack."""
    location = str(tmp_path / "table")
    options = {"hoodie.metadata.enable": True, "hoodie.metadata.record.index.enable": True}
    table = make(location, options=options)
    table.upsert(orders((1, "a", 1.0, 1)))
    moved = Path(location, ELSEWHERE)
    moved.parent.mkdir(parents=True)
    Path(location, DEFAULT).rename(moved)
    _point(location, ELSEWHERE)
    table = reopen(table)
    table.indexes.create("idx", "ts")
    assert table.check().findings == ()
    assert sorted(json.loads(moved.read_text())["indexDefinitions"]) == ["column_stats", "secondary_index_idx"]
    assert not Path(location, DEFAULT).exists()
    assert table.lookup(pa.table({"ts": [1]}), index="idx").to_arrow().num_rows == 1
    table.indexes.drop("idx")
    assert table.check().findings == ()
    assert sorted(json.loads(moved.read_text())["indexDefinitions"]) == ["column_stats"]


def _point(location: str, path: str) -> None:
    """Let the table's properties say where the definitions are."""
    properties = Path(location, ".hoodie/hoodie.properties")
    lines = [line for line in properties.read_text().splitlines() if "index.defs.path" not in line]
    properties.write_text("\n".join([*lines, f"hoodie.table.index.defs.path={path}"]) + "\n")
