"""A file of the newest state that is gone is damage, and the error says so; a file that a clean deleted is not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.tables import rows

import pyhudi_core as hudi
from pyhudi_core.doctor.kinds import FindingKind
from pyhudi_core.errors import CorruptionError, SnapshotExpiredError

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.string())])


def _made(location: str, kind: str, **options: str) -> hudi.HudiTable:
    table = hudi.create_table(location, schema=SCHEMA, record_key="id", table_type=kind, options=options)
    table.upsert(pa.table({"id": [1, 2], "v": ["a", "b"]}))
    table.upsert(pa.table({"id": [2], "v": ["c"]}))
    return table


def _newest(table: hudi.HudiTable) -> str:
    [piece] = table.scan().slices()
    return str(piece.logs[-1].path if piece.logs else piece.path)


USES: list[Callable[[hudi.HudiTable], Any]] = [
    lambda table: table.scan().to_arrow(),
    lambda table: table.scan(where="id = 2").count(),
    lambda table: table.lookup(pa.table({"id": [1]})).to_arrow(),
    lambda table: table.delete(where="v = 'c'"),
]


@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize("metadata", ["true", "false"])
def test_a_missing_file_of_the_newest_state_is_damage_and_no_clean_is_blamed(
    location: str, kind: str, metadata: str
) -> None:
    table = _made(location, kind, **{"hoodie.metadata.enable": metadata})
    first, last = table.timeline.commits
    path = _newest(table)
    Path(location, path).unlink()
    writes = [lambda table: table.upsert(pa.table({"id": [1], "v": ["z"]}))] if kind == "cow" else []
    for use in [*USES, *writes]:
        with pytest.raises(CorruptionError, match="no clean deleted it") as caught:
            use(hudi.open_table(location))
        assert (caught.value.path, caught.value.instant) == (path, last.requested_time)
        assert "pyhudi check" in (caught.value.hint or "") and "restore" in (caught.value.hint or "")
    report = table.check()
    assert [found.where for found in report.of(FindingKind.FILE_MISSING)] == [path]
    [unseen] = report.of(FindingKind.NOT_EXAMINED)
    assert "limit" not in unseen.what_to_do
    assert not report.area("schema").complete and not report.area("keys").complete
    table.restore(first)
    assert rows(hudi.open_table(location), "id", "v") == [(1, "a"), (2, "b")]


def test_a_file_that_became_old_after_the_read_began_is_not_damage(location: str) -> None:
    table = _made(location, "cow")
    scan, path = table.scan(), _newest(table)
    table.upsert(pa.table({"id": [2], "v": ["d"]}))
    Path(location, path).unlink()
    with pytest.raises(SnapshotExpiredError, match="is missing"):
        scan.to_arrow()
    assert rows(table, "id", "v") == [(1, "a"), (2, "d")]


def test_a_log_below_a_compaction_that_ran_after_the_read_began_is_not_damage(location: str) -> None:
    table = _made(location, "mor")
    scan, path = table.scan(), _newest(table)
    assert table.compaction.run()
    Path(location, path).unlink()
    with pytest.raises(SnapshotExpiredError, match="is missing"):
        scan.to_arrow()
    assert rows(table, "id", "v") == [(1, "a"), (2, "c")]


def test_a_commit_that_a_rollback_undoes_during_a_read_is_no_missing_object(location: str) -> None:
    table = _made(location, "cow")
    folder = hudi.open_table(location)._opened.context().folder
    newest = folder.load().commits[-1]
    table.rollback(newest, completed=True)
    with pytest.raises(SnapshotExpiredError, match="undid it after the timeline was read"):
        folder.read_commit(newest)
