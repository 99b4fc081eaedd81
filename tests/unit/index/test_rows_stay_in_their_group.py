"""Where a row goes is what the index said at the state that was read."""

from __future__ import annotations

import pyarrow as pa
import pytest
from support.tables import make, orders, reopen

import pyhudi_core as hudi


def _groups(table: hudi.HudiTable) -> dict[int, str]:
    found = table.scan(columns=["id", "_hoodie_file_name"]).to_arrow().to_pylist()
    assert len({row["id"] for row in found}) == len(found), "a key is there once"
    return {row["id"]: row["_hoodie_file_name"].partition("_")[0] for row in found}


@pytest.mark.row("K2")
def test_every_known_key_stays_in_its_file_group_and_only_new_ones_go_elsewhere(location: str) -> None:
    table = make(location)
    for number in range(4):
        table.bulk_insert(orders(*((10 * number + n, "a", 1.0) for n in range(5))))
    before = _groups(table)
    assert len(set(before.values())) == 4
    batch = orders(*((key, "a", 2.0) for key in (3, 11, 22, 33, 34)), (99, "a", 2.0), (98, "b", 2.0))
    commit = table.upsert(batch)
    assert (commit.stats.rows_updated, commit.stats.rows_inserted) == (5, 2)
    after = _groups(table)
    assert {key: group for key, group in after.items() if key in before} == before
    assert after[98] not in before.values()


@pytest.mark.row("K2")
def test_a_key_that_another_commit_moved_meanwhile_is_not_written_to_its_old_group(location: str) -> None:
    table = make(location)
    table.insert(orders((1, "a", 1.0)))
    [old] = _groups(table).values()
    with table.begin("upsert") as write:
        write.write(orders((1, "a", 2.0)))
        reopen(table).insert_overwrite(orders((1, "a", 3.0)))
        [moved] = _groups(table).values()
        assert moved != old
        assert not write.would_commit()
        with pytest.raises(hudi.errors.CommitConflictError):
            write.commit()
    assert table.scan(columns=["id", "price"]).to_arrow() == pa.table({"id": [1], "price": [3.0]}).cast(
        table.scan(columns=["id", "price"]).to_arrow().schema
    )
    table.upsert(orders((1, "a", 4.0)))
    assert _groups(table) == {1: moved}
