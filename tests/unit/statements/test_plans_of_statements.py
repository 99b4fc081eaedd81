"""The plan of a statement: it says what the statement would do, raises what the statement would raise for its values and rows, and changes nothing."""

from __future__ import annotations

import pyarrow as pa
import pytest
from click.testing import CliRunner

import pyhudi_core as hudi
from pyhudi_core.cli.main import main
from pyhudi_core.errors import HudiError
from pyhudi_core.statements.planning import plan
from pyhudi_core.statements.run import read

ROWS = pa.table({"id": [1, 2], "day": ["a", "b"], "price": [1.0, 2.0], "name": ["x", "y"]})
RULES = hudi.TableRules(checks={"positive": "price > 0"}, not_null=["name"])
OTHERS = pa.table({"id": [1, 3], "day": ["a", "c"], "price": [-1.0, 3.0], "name": ["x", None]})
MERGE = "MERGE INTO t USING s ON t.id = s.id WHEN "
REFUSED = {
    "UPDATE t SET price = -1": "CHECK",
    "UPDATE t SET price = 0 WHERE id = 2": "CHECK",
    "UPDATE t SET name = NULL": "NOT NULL",
    "UPDATE t SET id = 1": "record key",
    "UPDATE t SET nothing = 1": "does not exist",
    "UPDATE t SET price = 'x'": "does not take",
    "INSERT INTO t VALUES (5, 'a', -3, 'x')": "CHECK",
    "INSERT INTO t VALUES (NULL, 'a', 3, 'x')": "no value in the key column",
    "INSERT OVERWRITE t SELECT 1L, 'b', -2.0, 'x'": "CHECK",
    f"{MERGE}MATCHED THEN UPDATE SET price = s.price": "CHECK",
    f"{MERGE}NOT MATCHED THEN INSERT *": "NOT NULL",
    f"{MERGE}MATCHED AND s.price < 0 THEN DELETE WHEN NOT MATCHED BY SOURCE THEN UPDATE SET price = 0": "CHECK",
}
DONE = {
    "UPDATE t SET price = -1 WHERE id > 7": {"rows": 0},
    "UPDATE t SET price = price + 1": {"rows": 2},
    "DELETE FROM t WHERE id = 1": {"rows": 1},
    "INSERT INTO t VALUES (5, 'a', 3, 'x')": {"rows": 1},
    f"{MERGE}MATCHED THEN DELETE": {"rows_updated": 0, "rows_inserted": 0, "rows_deleted": 1},
}


@pytest.fixture(params=["cow", "mor"])
def table(request: pytest.FixtureRequest, location: str) -> hudi.HudiTable:
    made = hudi.create_table(location, ROWS.schema, "id", "day", table_type=request.param, rules=RULES)
    made.append(ROWS)
    return made


@pytest.mark.parametrize("text", REFUSED)
def test_a_plan_raises_what_the_statement_would_raise_for_its_values_and_rows(table: hudi.HudiTable, text: str) -> None:
    tables, instants = {"t": table, "s": OTHERS}, table.timeline.instants
    with pytest.raises(HudiError) as planned:
        plan(*read(text, tables))
    with pytest.raises(type(planned.value)) as refused:
        hudi.sql(text, tables)
    assert str(planned.value) == str(refused.value)
    assert REFUSED[text] in str(refused.value)
    assert table.timeline.instants == instants


@pytest.mark.parametrize("text", DONE)
def test_a_plan_counts_the_rows_that_the_statement_changes(table: hudi.HudiTable, text: str) -> None:
    tables, before = {"t": table, "s": OTHERS}, (table.to_arrow(), table.timeline.instants)
    found = plan(*read(text, tables))
    assert found is not None
    assert found.figures == DONE[text]
    assert (table.to_arrow(), table.timeline.instants) == before
    stats = hudi.sql(text, tables).stats
    assert stats.rows_updated + stats.rows_inserted + stats.rows_deleted == sum(DONE[text].values())


def test_the_plan_of_a_refused_statement_has_its_own_exit_code(tmp_path: object) -> None:
    table = hudi.create_table(f"{tmp_path}/t", ROWS.schema, "id", "day", rules=RULES)
    table.append(ROWS)
    for text, code in (("UPDATE t SET price = -1", 1), ("UPDATE t SET id = 1", 2), ("UPDATE t SET price = 3", 0)):
        done = CliRunner().invoke(main, ["sql", table.location, text, "--plan"])
        assert done.exit_code == code, done.output
        assert ("It would be refused" in done.output) is (code == 1)
