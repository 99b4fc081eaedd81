"""What people call who come from other libraries, and that is not there: each name and each argument is answered with what to write."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import dataset
from support.tables import in_memory

import pyhudi as hudi
from pyhudi.errors import ConfigError, InvalidOptionError

SCHEMA = pa.schema([("id", pa.int64()), ("day", pa.string())])
ATTRIBUTES = {
    "to_pyarrow": "table.to_arrow()",
    "toPandas": "table.to_pandas()",
    "num_rows": "table.count()",
    "read": "table.to_arrow()",
    "add": "table.insert(data)",
    "delete_all": "table.truncate()",
    "overwrite": "table.insert_overwrite_table(data)",
    "vacuum": "table.cleaning.run()",
    "optimize": "table.clustering.run()",
    "files": "table.inspect.files()",
    "version": "table.timeline",
    "load_as_version": "table.scan(as_of=time)",
    "upkeep": "hudi.upkeep(table)",
}
NAMES = {
    "holds": "hudi.satisfies(condition)",
    "DeltaTable": "hudi.open_table(location)",
    "load_table": "hudi.open_table(location)",
    "read": "hudi.open_table(location).scan()",
    "write_hudi": "table.upsert(data)",
    "open_tabel": "open_table",
    "Hudi_Table": "HudiTable",
}
CALLS: dict[str, tuple[Callable[[hudi.HudiTable], Any], str]] = {
    "compaction": (lambda t: t.compaction(), "call its .run()"),
    "clustering": (lambda t: t.clustering(spark=None), "call its .run()"),
    "sweep": (lambda t: t.sweep(), "call its .run()"),
    "erasure": (lambda t: t.erasure([1]), r"call its .run\(keys\)"),
    "duplicates": (lambda t: t.duplicates(), "call its .run()"),
    "holds": (lambda t: t.holds(), r"call its .create\(token\)"),
    "savepoints": (lambda t: t.savepoints("x"), r"call its .create\(instant\)"),
    "indexes": (lambda t: t.indexes("x"), r"call its .create\(name\)"),
    "metadata_table": (lambda t: t.metadata_table(), r"call its .create\(\)"),
}
ARGUMENTS: dict[str, tuple[Callable[[hudi.HudiTable], Any], str]] = {
    "limit": (lambda t: t.scan(limit=3), r"scan\(\) got an unexpected keyword argument 'limit': use .*\.limit\(n\)"),
    "filter": (lambda t: t.scan(filter="id = 1"), "use where="),
    "version": (lambda t: t.scan(version=3), "use as_of="),
    "since": (lambda t: t.changes(since="2026-01-01"), "use after="),
    "mode of a write": (lambda t: t.upsert(None, mode="append"), r"table\.insert_overwrite_table"),
    "data": (lambda t: t.insert(df=None), "use data="),
    "keys": (lambda t: t.delete(rows=None), "use keys="),
    "condition": (lambda t: t.delete(filter="id = 1"), "use where="),
    "a misspelt argument": (lambda t: t.scan(colums=["id"]), "use columns="),
    "an argument like none": (lambda t: t.alter(xyz=1), "it takes add, drop, rename"),
    "primary_key": (lambda t: hudi.create_table("memory://w", SCHEMA, primary_key="id"), "use record_key="),
    "partition_columns": (
        lambda t: hudi.create_table("memory://w", SCHEMA, partition_columns="day"),
        "use partition_by=",
    ),
    "mode": (lambda t: hudi.create_table("memory://w", SCHEMA, "id", mode="overwrite"), r'mode="overwrite"'),
    "properties": (lambda t: hudi.create_table("memory://w", SCHEMA, "id", properties={}), "use options="),
    "storage": (lambda t: hudi.open_table("memory://w", storage={}), "use storage_options="),
    "path": (lambda t: hudi.open_table(path="memory://w"), "use location="),
}
BATCH = pa.record_batch({"id": [1], "day": ["a"]}, schema=SCHEMA)
DATA: dict[str, tuple[Any, str]] = {
    "rows": ([{"id": 1, "day": "a"}], r"pyarrow\.Table\.from_pylist\(rows\)"),
    "batches": ([BATCH], r"pyarrow\.Table\.from_batches\(batches\)"),
    "generator": ((batch for batch in [BATCH]), r"pyarrow\.RecordBatchReader\.from_batches\(schema, batches\)"),
    "columns": ({"id": [1]}, r"pyarrow\.table\(columns\)"),
    "array": (np.zeros((1, 2)), r"pandas\.DataFrame\(array, columns=\[...\]\)"),
    "structs": (BATCH.to_struct_array(), r"pyarrow\.RecordBatch\.from_struct_array\(array\)"),
    "dataset": (dataset.dataset(pa.Table.from_batches([BATCH])), r"dataset\.scanner\(\)\.to_reader\(\)"),
    "scanner": (dataset.dataset(pa.Table.from_batches([BATCH])).scanner(), r"scanner\.to_reader\(\)"),
}
READS = {
    "id = 1": r"where='id = 1'",
    "id": r"columns=\['id'\]",
    "id,day": r"columns=\['id', 'day'\]",
    "*": "Omit columns",
}


@pytest.fixture(scope="module")
def table() -> hudi.HudiTable:
    return hudi.create_table(in_memory(), SCHEMA, "id", options={"hoodie.metadata.enable": "false"})


@pytest.mark.parametrize("name", ATTRIBUTES)
def test_a_table_says_what_to_call_for_a_name_that_others_have(name: str, table: hudi.HudiTable) -> None:
    assert not hasattr(table, name)
    with pytest.raises(AttributeError) as caught:
        getattr(table, name)
    assert f"use {ATTRIBUTES[name]}" in str(caught.value)


def test_what_a_table_says_to_call_is_there(table: hudi.HudiTable) -> None:
    scan = table.scan()
    for name, call in type(table)._INSTEAD.items():
        is_operator = name.startswith("__")  # such as `__len__`, a method that refuses
        assert is_operator or not hasattr(type(table), name), f"{name} exists"
        owner, _, rest = call.partition(".")
        first = rest.replace("(", ".").replace(",", ".").split(".")[0].strip()
        if owner in ("table", "hudi"):
            assert hasattr(table if owner == "table" else hudi, first), call
        if rest.startswith("scan()."):
            assert hasattr(scan, rest.removeprefix("scan().").partition("(")[0]), call


@pytest.mark.parametrize("name", NAMES)
def test_the_package_says_what_to_call_for_a_name_that_others_have(name: str) -> None:
    with pytest.raises(AttributeError) as caught:
        getattr(hudi, name)
    assert f"use {NAMES[name]}" in str(caught.value)


def test_a_name_that_is_like_none_gets_the_usual_error() -> None:
    with pytest.raises(AttributeError, match="^module 'pyhudi' has no attribute 'xyz'$"):
        _ = hudi.xyz  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", CALLS)
def test_an_object_of_a_table_that_is_called_says_its_methods(name: str, table: hudi.HudiTable) -> None:
    call, answer = CALLS[name]
    with pytest.raises(TypeError, match=answer):
        call(table)


@pytest.mark.parametrize("name", ARGUMENTS)
def test_an_unknown_argument_is_answered_with_the_right_one(name: str, table: hudi.HudiTable) -> None:
    call, answer = ARGUMENTS[name]
    with pytest.raises(TypeError, match=answer):
        call(table)


FUNCTIONS = [name for name in hudi.__all__ if inspect.isfunction(getattr(hudi, name))]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_public_function_answers_an_unknown_argument_with_its_own(name: str) -> None:
    function = getattr(hudi, name)
    parameters = inspect.signature(function).parameters.values()
    known = [each.name for each in parameters if each.kind is not each.VAR_POSITIONAL]
    with pytest.raises(TypeError, match="it takes|use ") as caught:
        function(xyz=1)
    assert all(each in str(caught.value) for each in known)
    first = next(iter(known), "")
    if len(first) > 3:
        with pytest.raises(TypeError, match=f"use {first}="):
            function(**{f"{first}x": 1})


def test_the_functions_around_a_table_know_the_arguments_of_others(table: hudi.HudiTable) -> None:
    for call, answer in {
        lambda: hudi.bootstrap("s", "l", primary_key="id"): "use record_key=",
        lambda: hudi.recover("l", precombine_field="ts"): "use ordering=",
        lambda: hudi.upkeep(location="l"): "use tables=",
        lambda: hudi.commit_for("r", properties={}): "use options=",
    }.items():
        with pytest.raises(TypeError, match=answer):
            call()


@pytest.mark.parametrize("columns", READS)
def test_text_as_columns_is_answered_with_what_was_meant(columns: str, table: hudi.HudiTable) -> None:
    with pytest.raises(InvalidOptionError, match=READS[columns]):
        table.scan(columns)  # type: ignore[arg-type]


def test_the_class_of_tables_says_how_a_table_is_opened() -> None:
    with pytest.raises(InvalidOptionError, match=r"hudi\.open_table\(location\)"):
        hudi.HudiTable("/lake/orders")  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", DATA)
def test_data_that_is_no_table_is_answered_with_how_to_make_one(kind: str) -> None:
    data, words = DATA[kind]
    with pytest.raises(ConfigError, match=words):
        hudi.create_table(in_memory(), SCHEMA, "id").upsert(data)
