"""What the guides of deltalake and PyIceberg show about update, merge, overwrite and delete, with data of our own: by verbs and by SQL, equal tables."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import pyhudi as hudi

ROWS = pa.table(
    {
        "town": ["Ulm", "Bonn", "Jena", "Zell"],
        "people": pa.array([126, 331, 111, None], pa.int64()),
        "gone": [False, False, False, None],
    }
)
UNKNOWN = ("Zell", None, None)
KINDS: dict[str, dict[str, Any]] = {
    f"{kind} {'with' if key else 'without'} keys": {"table_type": kind, "record_key": key}
    for kind in ("cow", "mor")
    for key in ("town", ())
}
NEW = pa.table(
    {"town": ["Bonn", "Jena", "Hof"], "people": pa.array([336, 110, 47], pa.int64()), "gone": [False, True, False]}
)
Verb = Callable[[hudi.HudiTable], hudi.Commit]

EXAMPLES: dict[str, tuple[Verb, str, list[tuple[object, ...]]]] = {
    "update of all rows": (
        lambda t: t.update({"gone": "true"}),
        "UPDATE t SET gone = true",
        [("Bonn", 331, True), ("Jena", 111, True), ("Ulm", 126, True), ("Zell", None, True)],
    ),
    "update with a condition": (
        lambda t: t.update({"people": "people * 2"}, where="town = 'Ulm'"),
        "UPDATE t SET people = people * 2 WHERE town = 'Ulm'",
        [("Bonn", 331, False), ("Jena", 111, False), ("Ulm", 252, False), UNKNOWN],
    ),
    "update with a Python value": (
        lambda t: t.update({"gone": True}, where="people < 120"),
        "UPDATE t SET gone = true WHERE people < 120",
        [("Bonn", 331, False), ("Jena", 111, True), ("Ulm", 126, False), UNKNOWN],
    ),
    "delete with a condition": (
        lambda t: t.delete(where="people > 300"),
        "DELETE FROM t WHERE people > 300",
        [("Jena", 111, False), ("Ulm", 126, False), UNKNOWN],
    ),
    "upsert": (
        lambda t: t.upsert(NEW),
        "MERGE INTO t USING s ON t.town = s.town WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
        [("Bonn", 336, False), ("Hof", 47, False), ("Jena", 110, True), ("Ulm", 126, False), UNKNOWN],
    ),
    "merge that updates": (
        lambda t: t.merge(NEW, "target.town = source.town").when_matched_update({"people": "source.people"}).run(),
        "MERGE INTO t USING s ON t.town = s.town WHEN MATCHED THEN UPDATE SET people = s.people",
        [("Bonn", 336, False), ("Jena", 110, False), ("Ulm", 126, False), UNKNOWN],
    ),
    "merge that inserts what is not there": (
        lambda t: t.merge(NEW, "town").when_not_matched_insert_all().run(),
        "MERGE INTO t USING s ON t.town = s.town WHEN NOT MATCHED THEN INSERT *",
        [("Bonn", 331, False), ("Hof", 47, False), ("Jena", 111, False), ("Ulm", 126, False), UNKNOWN],
    ),
    "merge that deletes by a flag of the source": (
        lambda t: t.merge(NEW, "town").when_matched_delete("source.gone").run(),
        "MERGE INTO t USING s ON t.town = s.town WHEN MATCHED AND s.gone THEN DELETE",
        [("Bonn", 331, False), ("Ulm", 126, False), UNKNOWN],
    ),
    "merge that deletes what the source lacks": (
        lambda t: t.merge(NEW, "town").when_not_matched_by_source_delete().run(),
        "MERGE INTO t USING s ON t.town = s.town WHEN NOT MATCHED BY SOURCE THEN DELETE",
        [("Bonn", 331, False), ("Jena", 111, False)],
    ),
    "merge that updates what the source lacks": (
        lambda t: t.merge(NEW, "town").when_not_matched_by_source_update({"people": "0"}).run(),
        "MERGE INTO t USING s ON t.town = s.town WHEN NOT MATCHED BY SOURCE THEN UPDATE SET people = 0",
        [("Bonn", 331, False), ("Jena", 111, False), ("Ulm", 0, False), ("Zell", 0, None)],
    ),
    "append": (
        lambda t: t.append(NEW.slice(2)),
        "INSERT INTO t SELECT * FROM s WHERE town = 'Hof'",
        [("Bonn", 331, False), ("Hof", 47, False), ("Jena", 111, False), ("Ulm", 126, False), UNKNOWN],
    ),
    "overwrite": (
        lambda t: t.insert_overwrite_table(NEW),
        "INSERT OVERWRITE t SELECT * FROM s",
        [("Bonn", 336, False), ("Hof", 47, False), ("Jena", 110, True)],
    ),
    "overwrite of the rows of a filter": (
        lambda t: t.replace(NEW.slice(0, 1), where="people > 300"),
        "INSERT INTO t REPLACE WHERE people > 300 SELECT * FROM s WHERE town = 'Bonn'",
        [("Bonn", 336, False), ("Jena", 111, False), ("Ulm", 126, False), UNKNOWN],
    ),
}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.parametrize("kind", KINDS)
def test_an_example_of_another_library_gives_its_table_by_a_verb_and_by_sql(name: str, kind: str) -> None:
    verb, text, wanted = EXAMPLES[name]
    steps: dict[str, Verb] = {"verb": verb, "sql": lambda t: hudi.sql(text, {"t": t, "s": NEW})}
    if name == "upsert" and not KINDS[kind]["record_key"]:
        del steps["verb"]  # its rows have no keys, by which an upsert finds rows
    for how, step in steps.items():
        table = hudi.create_table(
            f"memory://examples/{name}_{kind}_{how}".replace(" ", "_"),
            ROWS.schema,
            **KINDS[kind],
            options={"hoodie.metadata.enable": "false"},
        )
        table.insert(ROWS)
        assert step(table)
        assert sorted(tuple(row.values()) for row in table.to_arrow().to_pylist()) == wanted, how
