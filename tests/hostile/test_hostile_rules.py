"""Rules and numbers in the properties of a table: whoever may write the file says what every writer computes."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from support.doctor import examine
from support.fuzzing import MEGABYTE, measured_memory
from support.tables import FAST, make, orders, rows

import pyhudi_core as hudi
from pyhudi_core.errors import CorruptPropertiesError, SchemaMismatchError, TableVersionError

LONG = "9" * 5000
NOTES = pa.schema([("id", pa.int64()), ("note", pa.string())])


def _table(location: str, *properties: str) -> hudi.HudiTable:
    make(location, NOTES).upsert(_rows(1))
    path = Path(location, ".hoodie/hoodie.properties")
    names = tuple(line.partition("=")[0] + "=" for line in properties)
    kept = [line for line in path.read_text().splitlines() if not line.startswith(names)]
    path.write_text("\n".join([*kept, *properties, ""]))
    return hudi.open_table(location, FAST)


def _rows(*ids: int) -> pa.Table:
    return pa.table([pa.array(ids, pa.int64()), pa.array(["a"] * len(ids))], schema=NOTES)


ENDLESS = [
    "repeat('x', 1500000000)", "repeat(repeat('x', 9000), 9000)", "lpad('x', 1500000000, 'y')", "rpad(repeat('x', 2), 1500000000, 'y')",
    f"replace(repeat('a', 5000), 'a', '{'b' * 4000}')", f"regexp_replace(repeat('a', 5000), 'a', '{'b' * 4000}')",
    f"replace(replace('{'a' * 3000}', 'a', '{'a' * 3000}'), 'a', '{'a' * 3000}')", "concat('x', repeat('y', 1500000000))",
]  # fmt: skip


@pytest.mark.one_in(3)
@pytest.mark.parametrize("expression", ENDLESS)
@pytest.mark.parametrize("rule", ["check.long={} <> 'q'", "default.note={}", "generated.note={}"])
def test_a_rule_that_makes_texts_without_end_is_refused_before_it_is_computed(
    location: str, rule: str, expression: str
) -> None:
    table = _table(location, f"pyhudi.rules.{rule.format(expression)}")
    given = _rows(2) if "check" in rule else _rows(2).select(["id"])
    with measured_memory() as memory, pytest.raises(SchemaMismatchError, match="too long") as caught:
        table.upsert(given)
    assert caught.value.table == location
    assert memory.grown < 100 * MEGABYTE
    assert rows(table, "id") == [(1,)]


@pytest.mark.parametrize("expression", ["lpad('7', 200, '0')", "repeat('=', 80)", f"'{'x' * 9000}'"])
def test_a_rule_may_make_a_text_as_long_as_one_that_is_written_out(location: str, expression: str) -> None:
    table = _table(location, f"pyhudi.rules.default.note={expression}")
    table.upsert(_rows(2).select(["id"]))
    assert [len(text) for _, text in rows(table, "id", "note")][1] in (80, 200, 9000)


@pytest.mark.parametrize(
    "line",
    [f"pyhudi.rules.partitions_expire={text}" for text in (LONG, "1e3", "-1", "x", "\\u00b2", "1000000000")]
    + [f"pyhudi.rules.{rule}={'x' * 10_001}" for rule in ("check.a", "default.note", "generated.note", "comment")],
)
def test_a_rule_that_cannot_be_is_damage_of_the_properties(location: str, line: str) -> None:
    with pytest.raises(CorruptPropertiesError) as caught:
        _table(location, line)
    assert caught.value.table == location
    assert caught.value.path == ".hoodie/hoodie.properties"
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize("rule", [f"check.a=id < {LONG}", f"generated.note={LONG}", f"default.note={LONG}"])
def test_a_number_of_thousands_of_digits_in_a_rule_does_not_fit(location: str, rule: str) -> None:
    table = _table(location, f"pyhudi.rules.{rule}")
    with pytest.raises(SchemaMismatchError, match="5,000 characters"):
        table.upsert(_rows(2) if "check" in rule else _rows(2).select(["id"]))


@pytest.mark.parametrize("key", ["metadata.partitions", "metadata.partitions.inflight", "partition.fields"])
def test_a_property_does_not_make_a_reader_look_for_any_number_of_names(location: str, key: str) -> None:
    with pytest.raises(CorruptPropertiesError, match="60,000 names"):
        _table(location, f"hoodie.table.{key}={','.join(map(str, range(60_000)))}")


def test_a_number_of_thousands_of_digits_is_no_version(location: str) -> None:
    assert rows(_table(location, f"hoodie.table.initial.version={LONG}"), "id") == [(1,)]
    for version in (LONG, "\\u00b2"):
        with pytest.raises(TableVersionError):
            _table(f"{location}{len(version)}", f"hoodie.table.version={version}")
        assert examine(f"{location}{len(version)}").of("other_version")


@pytest.mark.parametrize("key", ["hoodie.table.base.file.format", "pyhudi.table.dropping", "hoodie.timeline.path"])
def test_the_text_of_an_error_has_an_end_and_cannot_be_taken_for_other_lines_of_a_log(location: str, key: str) -> None:
    forged = "\\n2026-01-01 ERROR the bucket s3://other is open\\r\\u001b[2J\\ud800"
    with pytest.raises(hudi.HudiError) as caught:
        _table(location, f"{key}={forged}{'a' * 300_000}").upsert(orders((1, "a", 1.0)))
    shown = str(caught.value)
    assert len(shown) < 20_000
    assert shown.encode()
    assert all(line.isprintable() and not line.startswith("2026") for line in shown.split("\n"))
