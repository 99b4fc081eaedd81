"""Archival beside writers, reservations, savepoints and claims: it goes past nobody who is at work, and nobody stops it for good."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.archival import AUTOMATIC, commits, filled
from support.disk import data_files
from support.homes import context_of
from support.killing import killed_after
from support.tables import orders, reopen, rows

import pyhudi_core as hudi
from pyhudi_core.conflicts.conflict import Touched
from pyhudi_core.conflicts.precedence import claim
from pyhudi_core.formats.avro.container import encode_record
from pyhudi_core.model.instant import Action, time_after
from pyhudi_core.transaction import begin


def kept(table: hudi.HudiTable) -> list[str]:
    """Requested times of the completed commits on the active timeline."""
    return sorted(instant.requested_time for instant in table.timeline.commits)


@pytest.mark.row("B9")
def test_commits_do_not_archive_past_a_living_write_and_go_on_after_it(location: str) -> None:
    table, done = filled(location, 3, AUTOMATIC)
    with table.begin() as write:
        write.write(orders((77, "b", 1.0)))
        during = commits(table, 8)
        assert kept(table) == [done[2].instant, *during], "the last commit before the write and all after it"
        mine = write.commit().instant
    assert kept(table)[-1] == during[-1], "it has the greatest completion time, and an early requested one"
    assert mine in kept(table)
    commits(table, 1, 400)
    assert len(kept(table)) == 2
    assert (77,) in rows(table, "id")


def test_commits_do_not_archive_past_a_time_that_is_reserved_and_not_announced(location: str) -> None:
    table, done = filled(location, 3, AUTOMATIC)
    context = context_of(table)
    reserved = begin.reserve(context, Action.COMMIT)
    during = commits(table, 8)
    assert kept(table) == [done[2].instant, *during]
    reserved.heartbeat.stop(context)
    commits(table, 1, 400)
    assert len(kept(table)) == 2


def test_a_dead_writer_stops_archival_no_longer_than_until_the_next_write(location: str) -> None:
    table, _ = filled(location, 3, AUTOMATIC)
    killed_after(location, "put", "/staged/", orders((78, "b", 1.0)))
    [dead] = table.timeline.pending
    commits(table, 5)
    assert not table.timeline.pending.instants
    assert dead.requested_time < kept(table)[0], "what came after the dead write was archived"
    assert (78,) not in rows(table, "id")


def test_a_savepoint_stops_archival_until_it_is_gone_and_its_hole_stops_no_writer(location: str) -> None:
    table, done = filled(location, 3, AUTOMATIC)
    saved = done[1]
    body = {"savepointedBy": "", "savepointedAt": 0, "comments": "", "partitionMetadata": {}}
    files = [
        Path(location, ".hoodie/timeline", f"{saved.instant}.savepoint.inflight"),
        Path(location, ".hoodie/timeline", f"{saved.instant}_{saved.completion_time}.savepoint"),
    ]
    files[0].write_bytes(b"")
    files[1].write_bytes(encode_record("HoodieSavepointMetadata", body, sync_marker=bytes(16)))
    during = commits(table, 6)
    assert kept(table) == [saved.instant, done[2].instant, *during]
    beyond = reopen(table, **AUTOMATIC, **{"hoodie.archive.beyond.savepoint": True})
    before = rows(beyond)
    assert beyond.archival.run()
    assert kept(beyond) == [saved.instant, *during[-2:]]
    assert rows(hudi.open_table(location)) == before
    for file in files:
        file.unlink()
    commits(table, 3, 400)
    assert len(kept(table)) <= 4
    assert saved.instant not in kept(table)


def test_claims_of_the_living_and_of_the_dead_do_not_stop_archival(location: str) -> None:
    table, _ = filled(location, 3, AUTOMATIC)
    standing = claim(context_of(table), Touched(frozenset(), frozenset({"day=a"})), 1000)
    half = Path(location, ".hoodie/.aux/.pyhudi/claims/half.json")
    half.write_bytes(b'{"process": ')
    commits(table, 6)
    assert len(kept(table)) <= 4
    standing.handle.cancel()


def test_files_that_no_commit_names_are_swept_before_their_instant_is_archived(location: str) -> None:
    table, done = filled(location)
    before = rows(table)
    named = data_files(location)
    real = Path(location, named[0])
    times = [done[1].instant, done[4].instant, done[6].instant]
    leaked = [real.with_name(f"{'1' * 8}-0_0-{n}-0_{time}.parquet") for n, time in enumerate(times)]
    unknown = Path(location, "day=z", f"{'2' * 8}-0_0-0-0_{time_after(done[2].instant)}.parquet")
    unknown.parent.mkdir()
    for path in [*leaked, unknown]:
        path.write_bytes(real.read_bytes())
    assert rows(table) == before
    result = table.archival.run()
    assert len(result.swept) == 3
    assert [path.exists() for path in [*leaked, unknown]] == [False, False, True, False]
    assert set(named) <= set(data_files(location))
    assert rows(hudi.open_table(location)) == before


def test_files_of_writes_that_are_still_running_are_not_swept(location: str) -> None:
    table, _ = filled(location)
    with table.begin() as write:
        write.write(orders((77, "a", 1.0)))
        table.archival.run()
        write.commit()
    assert (77,) in rows(table, "id")


def test_nothing_goes_past_a_write_that_is_running(location: str) -> None:
    table, done = filled(location, 3)
    with table.begin() as write:
        write.write(orders((77, "b", 1.0)))
        for n in range(5):
            table.upsert(orders((100 + n, "z", 1.0)))
        assert [i.requested_time for i in table.archival.run().instants] == [c.instant for c in done[:2]]
        assert "pending" in table.archival.plan().why_not
