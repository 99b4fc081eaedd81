"""A commit that publishes more than its own completed file is finished by anybody if its process dies, with all that it publishes."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from support.disk import files
from support.homes import context_of
from support.killing import killed_after
from support.tables import make, orders, reopen, rows

from pyhudi_core.transaction.rollback import repair


def _wide(number: int) -> pa.Table:
    """A row with the column that the table has since its alteration, and one that is new."""
    row = orders((number, "a", 1.0))
    return row.append_column("note", pa.array(["n"])).append_column("more", pa.array(["m"]))


def test_the_history_of_columns_is_published_for_a_writer_that_died_after_its_decision(location: str) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0)))
    table.alter(add={"note": pa.string()})
    before = files(f"{location}/.hoodie/.schema")
    killed_after(location, "put_if_absent", "commit_record", _wide(2))
    assert files(f"{location}/.hoodie/.schema") == before, "it is decided, and nothing is published"
    table = reopen(table)
    table.upsert(_wide(3))
    assert rows(table, "id", "note") == [(1, None), (2, "n"), (3, "n")]
    assert len(table.timeline.commits) == 4
    died = table.timeline.commits[2].requested_time
    history = [path for path in Path(location, ".hoodie/.schema").iterdir() if path.name.startswith(died)]
    assert len(history) == 1
    assert b'"more"' in history[0].read_bytes()


def test_a_planned_clustering_that_expired_is_told_among_what_was_rolled_back(location: str) -> None:
    options = {
        "hoodie__parquet__small__file__limit": 0,
        "hoodie__clustering__enable__expirations": "true",
        "hoodie__clustering__expiration__threshold__mins": 0,
    }
    table = reopen(make(location), **options)
    table.insert(orders((1, "a", 1.0)))
    table.insert(orders((2, "a", 2.0)))
    plan = table.clustering.schedule()
    assert plan is not None
    assert repair(context_of(table)) == [plan.requested_time]
    assert not table.timeline.pending.instants
