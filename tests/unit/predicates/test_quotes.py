"""A text that may be meant as a column is refused, in every part of a condition and at every door: a delete must not read it the other way."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest
from click.testing import CliRunner
from support.tables import in_memory

import pyhudi as hudi
from pyhudi.errors import PredicateError
from pyhudi_core.cli import main
from pyhudi_core.predicates import Predicate

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("day", pa.string()),
        ("kind", pa.string()),
        ("Unit Price", pa.float64()),
        ("place", pa.struct([("city", pa.string())])),
    ]
)

MISREAD = {
    """"day" <> '2026-01-01'""": "Write day for the column, or 'day' for the text",
    """'2026-01-01' < "day" """: "Write day for",
    """"DAY" = 'x'""": "Write day for",
    """kind = "day" """: "Write day for",
    """"day" IN ('a', 'b')""": "Write day for",
    """kind IN ("day", "b")""": "Write day for",
    """"day" NOT IN ('a')""": "Write day for",
    """"day" LIKE '2026%'""": "Write day for",
    """kind LIKE "day" """: "Write day for",
    """startswith(kind, "day")""": "Write day for",
    """"day" BETWEEN 'a' AND 'b'""": "Write day for",
    """"day" IS NOT NULL""": "Write day for",
    """"day" <=> NULL""": "Write day for",
    """lower("day") = 'x'""": "Write day for",
    """coalesce("day", 'x') = 'x'""": "Write day for",
    """substring("day", 1, 4) = '2026'""": "Write day for",
    """CAST("day" AS DATE) = kind""": "Write day for",
    """NOT (id = 1 OR "day" = 'x')""": "Write day for",
    """"Unit Price" > 3""": "Write `Unit Price` for",
    """"place.city" = 'Rome'""": "Write place.city for",
    """"place"."city" = 'Rome'""": "Write place for",
    """"place".city = 'Rome'""": "Write place for",
    """"dya" <> '2026-01-01'""": "Did you mean the column day",
    """"dya" IS NOT NULL""": "Did you mean the column day",
    """length("dya") > 3""": "Did you mean the column day",
    """"xyz" LIKE 'x%'""": "The columns are id, day",
    """id = 1 OR "dya" IN ('x')""": "Did you mean the column day",
    "'day' <> '2026-01-01'": "Write day without quotes",
    "'day' IS NOT NULL": "Write day without quotes",
    "id = 1 AND 'Day' LIKE '2026%'": "Write day without quotes",
}
MEANT = [
    """day = "2026-01-01" """,
    "kind = 'day'",
    """kind IN ('day', "b")""",
    """kind LIKE "da%" """,
    "`day` = 'x'",
    """place."city" = 'Rome'""",
    "`Unit Price` > 3",
    "'all' = 'all' OR kind = 'x'",
    "1 = 1",
    """DATE "2026-01-01" = CAST(day AS DATE)""",
]


@pytest.mark.parametrize("where", MISREAD)
def test_a_text_that_may_be_meant_as_a_column_is_refused_with_both_spellings(where: str) -> None:
    with pytest.raises(PredicateError) as error:
        Predicate.of(where, SCHEMA)
    assert MISREAD[where] in str(error.value.hint)


@pytest.mark.parametrize("where", MEANT)
def test_other_texts_keep_their_meaning(where: str) -> None:
    assert Predicate.of(where, SCHEMA) is not None


@pytest.fixture(scope="module")
def table() -> hudi.HudiTable:
    rows = pa.table({"id": [1, 2, 3], "day": ["2026-01-01", "2026-01-01", "2026-01-02"]})
    made = hudi.create_table(in_memory(), schema=rows.schema, record_key="id", partition_by="day")
    made.upsert(rows)
    return made


NEW = pa.table({"id": [9], "day": ["2026-01-03"]})
DOORS: dict[str, Callable[[hudi.HudiTable, str], object]] = {
    "scan": lambda table, where: table.scan(where=where),
    "delete": lambda table, where: table.delete(where=where),
    "changes": lambda table, where: table.changes(after="0", where=where).to_arrow(),
    "incremental": lambda table, where: table.incremental(after="0", where=where),
    "validator": lambda table, where: table.upsert(NEW, pre_commit=[hudi.satisfies(where)]),
    "scan of a write": lambda table, where: table.begin("delete").scan(where=where),
}


@pytest.mark.parametrize("door", DOORS)
def test_every_door_refuses_it_and_no_row_is_lost(door: str, table: hudi.HudiTable) -> None:
    with pytest.raises(PredicateError, match='"day" can mean the column day'):
        DOORS[door](table, """"day" <> '2026-01-01'""")
    assert table.scan().count() == 3


@pytest.mark.parametrize("command", ["head", "count"])
def test_the_command_line_refuses_it_with_both_spellings(command: str, table: hudi.HudiTable) -> None:
    done = CliRunner().invoke(main, [command, table.location, "--where", """"day" <> 'x'"""])
    assert done.exit_code == 2
    assert "Write day for the column, or 'day' for the text" in " ".join(done.output.split())
