"""A secondary index and an index on an expression may have one name: a drop by it changes nothing, and one by the full name drops that index."""

from __future__ import annotations

import pytest
from support.metadata_tables import assert_metadata_is_true
from unit.services.test_indexes import command, made

import pyhudi_core as hudi
from pyhudi_core.errors import InvalidOptionError


@pytest.fixture(scope="module")
def of_one_name() -> hudi.HudiTable:
    """A table with a secondary index `by_day` and an index `by_day` on an expression. No test drops one of them."""
    table = made()
    table.indexes.create("by_day", ["day"])
    table.indexes.create("by_day", ["day"], using="column_stats", options={"expr": "lower"})
    return table


BOTH = {"secondary_index_by_day", "expr_index_by_day"}


@pytest.mark.row("I14")
def test_a_name_that_means_two_indexes_drops_neither_and_says_what_to_give(of_one_name: hudi.HudiTable) -> None:
    table = of_one_name
    for ask in (
        lambda: table.indexes.drop("by_day"),
        lambda: table.indexes.drop("by_day", if_exists=True),
        lambda: table.indexes.plan_drop("by_day"),
        lambda: table.sql("DROP INDEX by_day ON trips"),
        lambda: table.sql("DROP INDEX IF EXISTS by_day ON trips"),
        lambda: table.indexes.plan_sql("DROP INDEX by_day ON trips"),
    ):
        with pytest.raises(InvalidOptionError, match="2 indexes: secondary_index_by_day, expr_index_by_day"):
            ask()
    assert {*hudi.open_table(table.location).config.metadata_partitions} >= BOTH


@pytest.mark.row("I14")
@pytest.mark.parametrize("name", sorted(BOTH))
def test_a_full_name_means_one_index(of_one_name: hudi.HudiTable, name: str) -> None:
    assert [one.name for one in of_one_name.indexes.plan_drop(name)] == [name]
    planned = of_one_name.indexes.plan_sql(f"DROP INDEX {name} ON trips")
    assert [one.name for one in planned] == [name]  # type: ignore[union-attr]


@pytest.mark.row("I14")
def test_one_of_two_indexes_with_a_name_is_dropped_by_its_full_name(location: str) -> None:
    table = made(location)
    table.indexes.create("by_day", ["day"])
    table.indexes.create("by_day", ["day"], using="column_stats", options={"expr": "lower"})
    drop = lambda *words: command("index", location, "drop", *words)  # noqa: E731
    for refused in (drop("by_day"), drop("by_day", "--plan"), command("sql", location, "DROP INDEX by_day ON trips")):
        assert refused.exit_code == 2
        assert "secondary_index_by_day, expr_index_by_day" in refused.output.replace("\n", " ")
    assert command("sql", location, "DROP INDEX expr_index_by_day ON trips").output == "removed expr_index_by_day\n"
    assert drop("by_day", "--plan").output == "Drop: secondary_index_by_day\n", "one is left, so its name says enough"
    assert drop("secondary_index_by_day").output == "removed secondary_index_by_day\n"
    assert not {*hudi.open_table(location).config.metadata_partitions} & BOTH
    assert_metadata_is_true(hudi.open_table(location))


@pytest.mark.row("I14")
def test_a_full_name_is_that_index_though_another_one_was_named_like_it() -> None:
    table = made()
    table.indexes.create("by_day", ["day"])
    table.indexes.create("secondary_index_by_day", ["ts"])
    assert [one.name for one in table.indexes.plan_drop("secondary_index_by_day")] == ["secondary_index_by_day"]
    assert table.indexes.drop("secondary_index_by_day").partitions == ("secondary_index_by_day",)
    assert "secondary_index_secondary_index_by_day" in [one.name for one in table.indexes]
