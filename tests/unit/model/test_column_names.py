"""Names that a table can have, made of names of spreadsheets."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import pyhudi_core as hudi
from pyhudi_core.errors import ConfigError, SchemaMismatchError
from pyhudi_core.model.column_names import snake_case
from pyhudi_core.model.meta_fields import META_FIELDS
from pyhudi_core.model.schema_types import logical_fields

NAMES = {
    "Order No.": "order_no",
    "Größe (cm)": "groesse_cm",
    "GRÖSSE": "groesse",
    "ÄrzteÜbersicht": "aerzte_uebersicht",
    "MENÜ": "menue",
    "Gro\u0308ße": "groesse",
    "Prénom d'été": "prenom_d_ete",
    "orderId": "order_id",
    "HTTPServer2Name": "http_server2_name",
    "a.b-c/d": "a_b_c_d",
    " id ": "id",
    "_id": "_id",
    "__x": "__x",
    "id_": "id",
    "2026 sales": "_2026_sales",
    "already_fine_1": "already_fine_1",
    "Łódź": "lodz",
    "price €": "price",
    "日本": "",
    "": "",
    "_": "",
} | {name: name for name in META_FIELDS}


@pytest.mark.parametrize(("name", "snake"), NAMES.items())
def test_a_name_becomes_one_that_a_table_can_have(name: str, snake: str) -> None:
    assert snake_case(name) == snake
    assert snake_case(snake) == snake
    if snake:
        assert logical_fields([pa.field(snake, pa.int64())])


def _table(*names: str) -> pa.Table:
    return pa.Table.from_arrays([pa.array([number]) for number in range(len(names))], list(names))


@pytest.mark.parametrize("names", [("a b", "a_b"), ("price €", "price $"), ("Id", "ID"), ("a", "a")])
def test_two_columns_of_one_name_are_refused_and_both_are_named(names: tuple[str, str]) -> None:
    with pytest.raises(SchemaMismatchError, match="would both be named") as caught:
        hudi.rename_columns(_table(*names))
    assert all(repr(name) in str(caught.value) for name in names)
    with pytest.raises(SchemaMismatchError, match=r"s\.Id.*s\.ID"):
        hudi.rename_columns(pa.table({"s": [{"Id": 1, "ID": 2}]}))


def test_a_name_without_a_letter_is_refused() -> None:
    with pytest.raises(SchemaMismatchError, match="'日本' has no letter"):
        hudi.rename_columns(_table("id", "日本"))


NESTED = pa.struct([("Der Name", pa.string()), ("n", pa.int8())])
KINDS = [
    NESTED,
    pa.list_(NESTED),
    pa.large_list(NESTED),
    pa.list_(NESTED, 1),
    pa.list_view(NESTED),
    pa.map_(pa.string(), NESTED),
    pa.map_(pa.string(), pa.list_(NESTED)),
]


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_names_inside_of_columns_change_and_no_value_does(kind: pa.DataType) -> None:
    one: Any = {"Der Name": "x", "n": 1}
    value = one if pa.types.is_struct(kind) else [one]
    if pa.types.is_map(kind):
        value = [("k", one if pa.types.is_struct(kind.item_type) else [one])]
    given = pa.Table.from_arrays([pa.array([None, value], kind)[1:]], ["The Column"])
    found = hudi.rename_columns(given)
    assert found.column_names == ["the_column"]
    assert str(found.schema.field(0).type) == str(kind).replace("Der Name", "der_name")
    assert str(found.to_pylist()) == str(given.to_pylist()).replace("Der Name", "der_name").replace(
        "The Column", "the_column"
    )
    assert hudi.rename_columns(found).schema == found.schema


def test_data_keeps_its_kind() -> None:
    import pandas as pd
    import polars as pl

    table = _table("Order No.", "x")
    names = ["order_no", "x"]
    frame = hudi.rename_columns(table.to_pandas())
    assert isinstance(frame, pd.DataFrame)
    assert list(frame.columns) == names
    indexed = hudi.rename_columns(table.to_pandas().set_index("Order No."))
    assert (indexed.index.names, list(indexed.columns)) == (["order_no"], ["x"])
    with pytest.raises(SchemaMismatchError, match="would both be named"):
        hudi.rename_columns(_table("Order No.", "order_no").to_pandas().set_index("Order No."))
    polars = hudi.rename_columns(pl.DataFrame(table))
    assert isinstance(polars, pl.DataFrame)
    assert polars.columns == names
    reader = hudi.rename_columns(table.to_reader())
    assert isinstance(reader, pa.RecordBatchReader)
    assert reader.read_all() == table.rename_columns(names)
    batch = hudi.rename_columns(table.to_batches()[0])
    assert isinstance(batch, pa.RecordBatch)
    assert batch.schema.names == names
    assert hudi.rename_columns(table.slice(0, 0)).schema.names == names
    with pytest.raises(ConfigError, match="cannot be written"):
        hudi.rename_columns([1])
