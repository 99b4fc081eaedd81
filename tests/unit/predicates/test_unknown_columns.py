"""A name that no column has: the error says where it stands, what is known there, and that a condition has no names of tables."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import pyhudi as hudi
from pyhudi_core.errors import PredicateError

COLUMNS = pa.schema(
    [
        ("id", pa.int64()),
        ("t", pa.int32()),
        ("v", pa.int64()),
        ("items", pa.list_(pa.struct([("price", pa.float64())]))),
        ("address", pa.struct([("street", pa.struct([("name", pa.string())])), ("zip", pa.string())])),
    ]
)


@pytest.fixture(scope="module")
def table() -> hudi.HudiTable:
    made = hudi.create_table("memory://unknown-columns/t", COLUMNS, "id", options={"hoodie.metadata.enable": "false"})
    made.append(pa.table({"id": [1], "t": [1], "v": [2], "items": [[]], "address": [None]}, COLUMNS))
    return made


DOORS: list[Callable[[hudi.HudiTable, str], Any]] = [
    lambda table, name: table.delete(where=f"{name} > 1"),
    lambda table, name: table.update({"v": "1"}, where=f"{name} > 1"),
    lambda table, name: table.update({"v": name}),
    lambda table, name: table.scan(where=f"{name} IS NULL"),
    lambda table, name: table.replace(table.head(1).select(["id"]), where=f"{name} > 1"),
    lambda table, name: table.alter(add_check={"c": f"{name} > 1"}),
    lambda table, name: hudi.sql(f"DELETE FROM orders WHERE {name} > 1", {"orders": table}),
    lambda table, name: hudi.sql(f"UPDATE orders SET v = {name}", {"orders": table}),
]


@pytest.mark.parametrize("door", DOORS, ids=range(len(DOORS)))
@pytest.mark.parametrize(
    ("name", "says"),
    [
        (
            "t.v",
            "'t.v' at character .*t is a column of type int32, which has no field 'v'.*If t is meant as a table.*write v alone",
        ),
        ("T.x", "'T.x' at character .*t is a column of type int32, which has no field 'x'.*Write t alone"),
        ("items.price", "items is a column of type list.*which has no field 'price'"),
        ("address.zip.x", "address.zip is a column of type string, which has no field 'x'"),
        ("address.zap", "'address.zap' at character .*does not exist.*Did you mean address.zip"),
        ("address.street.no", "'address.street.no' at .*does not exist.*The fields of address.street are name"),
        ("q.v", "'q.v' at character .*does not exist.*The columns are .*If q is meant as a table.*write v alone"),
        ("st.v", "If st is meant as a table.*write v alone"),
        ("q.address.zip", "If q is meant as a table.*write address.zip alone"),
        ("q", "'q' at character .*does not exist.*The columns are"),
    ],
)
def test_a_name_that_no_column_has_is_told_from_a_name_of_a_table(
    table: hudi.HudiTable, door: Callable[[hudi.HudiTable, str], Any], name: str, says: str
) -> None:
    with pytest.raises(hudi.errors.HudiError, match=says) as error:
        door(table, name)
    assert "without columns" not in str(error.value)


def test_a_merge_names_the_side_whose_column_is_missing(table: hudi.HudiTable) -> None:
    merge = table.merge(pa.table({"id": [1], "v": [3]}), "id", "s", "o")
    with pytest.raises(
        PredicateError, match=r"'o.w' at character 1, which does not exist.*The fields of o are id, t, v"
    ):
        merge.when_matched_update({"v": "o.w"}).run()
    with pytest.raises(PredicateError, match=r"'o.t.v' at character 5, but o.t is a column of type int32"):
        merge.when_matched_delete("1 = o.t.v").run()


def test_a_value_that_takes_no_column_says_so() -> None:
    with pytest.raises(hudi.errors.HudiError, match="It is computed without columns"):
        hudi.create_table("memory://unknown-columns/d", COLUMNS, "id", rules=hudi.TableRules(defaults={"v": "id + 1"}))
