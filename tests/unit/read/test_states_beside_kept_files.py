"""A savepoint or a hold keeps an older file of a group whose newer files were cleaned: no read takes the older file for the state."""

from __future__ import annotations

import pytest
from support.tables import make, orders, reopen, rows

import pyhudi_core as hudi
from pyhudi_core.errors import SnapshotExpiredError


def with_a_kept_file(location: str, keep: str, kind: str, *, archived: bool) -> tuple[hudi.HudiTable, object]:
    """A table whose row 1 was 1.0 when its files were kept, and 2.0 before its partition was deleted; and the commit before that."""
    table = make(location, ordering="ts", table_type=kind, options={"hoodie.clean.automatic": False})
    table.upsert(orders((1, "a", 1.0, 1)))
    if keep == "hold":
        table.holds.create(seconds=3600)
    else:
        table.savepoints.create()
    table.upsert(orders((1, "a", 2.0, 2)))
    if kind == "merge_on_read":
        table.compaction.run()
    for number in range(6):
        table.upsert(orders((50 + number, f"z{number}", 1.0, 1)))
    before = table.timeline.commits[-1]
    table.delete_partitions(["day=a"])
    for number in range(4):
        table.upsert(orders((80 + number, f"y{number}", 1.0, 1)))
    options = {
        "hoodie__clean__commits__retained": 1,
        "hoodie__keep__min__commits": 6,
        "hoodie__keep__max__commits": 7,
        "hoodie__archive__beyond__savepoint": True,
    }
    table = reopen(table, **options)
    if archived:
        assert table.archival.run().instants
    assert table.cleaning.run().files
    return table, before


@pytest.mark.row("N9", "C9")
@pytest.mark.parametrize("archived", [False, True])
@pytest.mark.parametrize("kind", ["copy_on_write", "merge_on_read"])
@pytest.mark.parametrize("keep", ["savepoint", "hold"])
def test_a_state_whose_newer_files_were_cleaned_is_gone_though_an_older_one_is_kept(
    location: str, keep: str, kind: str, archived: bool
) -> None:
    table, before = with_a_kept_file(location, keep, kind, archived=archived)
    deleted: list[float] = []
    try:
        found = [price for key, price in rows(table.scan(as_of=before), "id", "price") if key == 1]
        assert found == [2.0]
    except SnapshotExpiredError:
        pass
    try:
        changes = table.changes(after=before).to_arrow().to_pylist()
        deleted = [change["before"]["price"] for change in changes if change["op"] == "d"]
        assert deleted == [2.0]
    except SnapshotExpiredError:
        assert not deleted
    if kind == "copy_on_write":
        with pytest.raises(SnapshotExpiredError):
            table.scan(as_of=before).to_arrow()
        with pytest.raises(SnapshotExpiredError):
            table.changes(after=before).to_arrow()
    assert [row for row in rows(table, "id", "price") if row[0] == 1] == []
