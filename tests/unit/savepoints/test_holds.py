"""Holds: the files of a state stay until a stated time, whatever is cleaned, and go afterwards."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner
from reliability.real_table import FULL, TableSetup, TableWorld, rows_of, table_world
from reliability.real_table import orders as real_orders
from support.cleanings import filled, keeping, states
from support.disk import contents, data_files
from support.metadata_tables import assert_metadata_is_true, build
from support.tables import make, orders, rows

import pyhudi_core as hudi
from pyhudi_core.cli import main
from pyhudi_core.errors import (
    CommitConflictError,
    CorruptTimelineError,
    ErasureRefusedError,
    InvalidOptionError,
    LimitExceededError,
    SnapshotExpiredError,
    UnsafePathError,
)
from pyhudi_core.savepoints import holds

HOUR = 3600.0
TYPES = ("COPY_ON_WRITE", "MERGE_ON_READ")


def token_of(table: hudi.HudiTable, number: int) -> hudi.SnapshotToken:
    return table.snapshot_token(table.timeline.commits[number])


def records(location: str) -> list[Path]:
    return sorted(Path(location, ".hoodie/.aux/.pyhudi/holds").glob("*"))


@pytest.mark.row("N9", "L1")
@pytest.mark.parametrize("policy", ["KEEP_LATEST_COMMITS", "KEEP_LATEST_FILE_VERSIONS"])
def test_a_held_state_can_be_read_after_a_clean_and_the_states_around_it_are_gone(location: str, policy: str) -> None:
    table = keeping(filled(location, 6), 1, hoodie__clean__policy=policy, hoodie__clean__fileversions__retained=1)
    token = token_of(table, 2)
    hold = table.holds.create(token, seconds=HOUR, comment="the monthly report")
    assert list(table.holds) == [hold] and hold.token == token
    plan = table.cleaning.plan()
    assert "a hold keeps the files of a state, until" in plan.why_not and plan
    assert not {name for names in plan.files.values() for name in names} & {p.rpartition("/")[2] for p in hold.paths}
    assert table.cleaning.run().files
    assert dict(rows(table.scan(as_of=token), "id", "price")) == {1: 2.0, 2: 0.0}
    assert states(table)[:3] == [None, None, 2.0] and states(table)[-1] == 5.0
    assert hold.paths <= set(data_files(location))
    assert table.check().ok, table.check().findings


@pytest.mark.row("N9")
def test_when_a_hold_was_deleted_the_next_clean_deletes_what_it_kept_also_where_nothing_was_written_since(
    location: str,
) -> None:
    table = keeping(filled(location, 6), 1)
    hold = table.holds.create(token_of(table, 1), seconds=HOUR)
    table.cleaning.run()
    for number in range(3):
        table.upsert(orders((9, "z", float(number), number)))  # another partition
    table.cleaning.run()
    assert dict(rows(table.scan(as_of=hold.token), "id", "price"))[1] == 1.0
    assert table.holds.delete(hold) and not table.holds.delete(hold.name)
    table.upsert(orders((9, "z", 9.0, 9)))
    assert table.cleaning.run().files
    with pytest.raises(SnapshotExpiredError):
        table.scan(as_of=hold.token).to_arrow()
    assert [p for p in data_files(location) if p.startswith("day=a/")] == sorted(
        file.path for piece in table.snapshot().view.all_slices(["day=a"]) for file in piece.files
    )


def world_of(kind: str) -> TableWorld:
    world = table_world(TableSetup(options={**FULL, "hoodie.table.type": kind, "hoodie.clean.commits.retained": 1}))
    table = world.create()
    for number in range(5):
        table.upsert(real_orders((1, "a", float(number)), (2, "b", 2.0)))
        if number == 2 and kind == "MERGE_ON_READ":
            table.compaction.run()
    return world


@pytest.mark.row("N9", "L1")
@pytest.mark.parametrize("kind", TYPES)
def test_a_hold_ends_at_its_time_and_its_file_goes_with_the_next_hold(kind: str) -> None:
    world = world_of(kind)
    table = world.table()
    token = token_of(table, 1)
    hold = table.holds.create(token, seconds=HOUR)
    world.table().cleaning.run()
    world.wait(HOUR - 10)
    world.table().upsert(real_orders((1, "a", 9.0)))
    world.table().cleaning.run()
    assert len(world.table().holds) == 1
    assert world.table().scan(["id", "price"], as_of=token).to_arrow().to_pylist()
    world.wait(11)
    assert len(world.table().holds) == 0
    world.table().cleaning.run()
    with pytest.raises(SnapshotExpiredError):
        world.table().scan(as_of=hold.token).to_arrow()
    newer = world.table().holds.create(seconds=HOUR)
    assert [info.path.rpartition("/")[2] for info in world.storage.list(".hoodie/.aux/.pyhudi/holds/")] == [newer.name]
    assert rows_of(world.table()) == ((1, "a", 9.0), (2, "b", 2.0))
    assert world.table().check().ok


@pytest.mark.row("N9", "L6")
def test_a_plan_that_is_older_than_a_hold_refuses_it_and_a_plan_that_any_program_made_deletes_nothing_held(
    location: str,
) -> None:
    table = keeping(filled(location), 1, pyhudi__commit__retries=0)
    token = token_of(table, 0)
    clean = table.cleaning.schedule()
    assert clean is not None
    with pytest.raises(CommitConflictError, match=f"clean.*{clean.requested_time}|{clean.requested_time}"):
        table.holds.create(token, seconds=HOUR)
    assert not records(location), "a refused hold leaves nothing"
    # The plan of a program that does not know holds.
    late = table.holds.create(seconds=HOUR)
    copy = Path(location, ".hoodie/.aux/.pyhudi/holds", late.name)
    named = {**json.loads(copy.read_bytes()), "files": {"day=a": table.cleaning._read(clean).files["day=a"][:1]}}  # type: ignore[union-attr]
    copy.write_text(json.dumps(named))
    done = table.cleaning.execute()
    assert done.kept == 1 and done.files >= 1


@pytest.mark.row("N9")
def test_what_cannot_be_held_is_refused_and_nothing_is_written(location: str) -> None:
    table = keeping(filled(location), 1)
    gone = token_of(table, 0)
    table.cleaning.run()
    before = contents(location)
    for seconds in (0, -1.0, float("inf"), float("nan")):
        with pytest.raises(InvalidOptionError, match="no length of time"):
            table.holds.create(seconds=seconds)
    with pytest.raises(SnapshotExpiredError):
        table.holds.create(gone, seconds=HOUR)
    for wrong in ("", "../x", 3):
        with pytest.raises(InvalidOptionError, match="does not name a hold|cannot take hold=3"):
            table.holds.delete(wrong)  # type: ignore[arg-type]
    assert contents(location) == before


@pytest.mark.row("N9")
def test_a_damaged_hold_stops_cleans_until_it_is_deleted(location: str) -> None:
    table = keeping(filled(location), 1)
    hold = table.holds.create(seconds=HOUR)
    Path(location, ".hoodie/.aux/.pyhudi/holds", hold.name).write_text('{"version": 1')
    before = data_files(location)
    with pytest.raises(CorruptTimelineError, match="A hold of files is damaged"):
        table.cleaning.run()
    assert data_files(location) == before
    assert table.holds.delete(hold.name)
    assert table.cleaning.run().files


JUNK: dict[str, Callable[[Path], object]] = {
    "cut off": lambda file: file.write_text('{"version": 1'),
    "no hold": lambda file: file.write_text("[]"),
    "too large": lambda file: os.truncate(file, (64 << 20) + 1),
}
NO_FILES: dict[str, Callable[[Path], object]] = {
    "pipe": os.mkfifo,
    "link": lambda file: os.symlink("/etc/passwd", file),
}


@pytest.mark.row("N9")
@pytest.mark.parametrize("kind", JUNK)
def test_a_hold_that_cannot_be_read_is_named_and_others_are_listed_made_and_deleted(
    location: str, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    table = keeping(filled(location), 1)
    good, bad = table.holds.create(seconds=HOUR), table.holds.create(seconds=HOUR)
    file = Path(location, ".hoodie/.aux/.pyhudi/holds", bad.name)
    JUNK[kind](file)
    assert list(table.holds) == [good]
    assert bad.name in caplog.text
    newer = table.holds.create(seconds=HOUR)
    assert list(table.holds) == [good, newer]
    assert table.holds.delete(newer)
    assert [found.where for found in table.check().of("hold_unreadable")] == [f".hoodie/.aux/.pyhudi/holds/{bad.name}"]
    with pytest.raises((CorruptTimelineError, LimitExceededError)) as refused:
        table.cleaning.run()
    assert refused.value.table == location and bad.name in str(refused.value) and refused.value.hint
    shown = CliRunner().invoke(main, ["hold", location, "delete", "--name", bad.name])
    assert (shown.exit_code, os.path.lexists(file)) == (0, False)
    assert good.name in shown.stdout
    assert table.cleaning.plan()


@pytest.mark.row("N9")
@pytest.mark.parametrize("kind", NO_FILES)
def test_what_is_no_file_among_the_holds_keeps_the_data_files_and_the_rest_is_swept(location: str, kind: str) -> None:
    table = keeping(filled(location), 1, pyhudi__sweep__min__age__minutes=0)
    folder = Path(location, ".hoodie/.aux/.pyhudi")
    (folder / "staged").mkdir(parents=True, exist_ok=True)
    staged = folder / "staged" / f"{table.timeline.commits[0].requested_time}-x"
    staged.touch()
    (folder / "holds").mkdir()
    NO_FILES[kind](folder / "holds/x")
    before = data_files(location)
    assert table.check().of("hold_unreadable")
    with pytest.raises(UnsafePathError, match="holds/x"):
        table.cleaning.run()
    assert "holds/x" in table.sweep.run().why_not
    assert not staged.exists() and data_files(location) == before


def test_a_hold_of_so_many_files_that_it_could_not_be_read_is_not_made(
    location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = filled(location)
    monkeypatch.setattr(holds, "MOST_BYTES", 100)
    with pytest.raises(LimitExceededError, match=r"A hold of \d files would have"):
        table.holds.create(seconds=HOUR)
    assert not records(location)


@pytest.mark.row("N9", "U9")
def test_an_erasure_names_the_hold_that_keeps_files_with_the_key(location: str) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0)))
    hold = table.holds.create(seconds=HOUR)
    with pytest.raises(ErasureRefusedError, match=f"hold {hold.name}") as refused:
        table.erasure.run(orders((1,)).select(["id", "day"]))
    assert "elete the hold" in str(refused.value)
    assert "savepoint" not in str(refused.value)
    table.holds.delete(hold)
    assert table.erasure.run(orders((1,)).select(["id", "day"]))


@pytest.mark.row("N9", "B9")
@pytest.mark.parametrize("kind", TYPES)
def test_a_metadata_table_lists_held_files(location: str, kind: str) -> None:
    table = filled(location, 3, table_type=kind)
    build(table)
    table = keeping(table, 1, hoodie__compact__inline=True, hoodie__compact__inline__max__delta__commits=2)
    hold = table.holds.create(table.snapshot_token(), seconds=HOUR)
    for number in range(3, 8):
        table.upsert(orders((1, "a", float(number), number)))
    table.cleaning.run()
    assert dict(rows(table.scan(as_of=hold.token), "id", "price"))[1] == 2.0
    assert_metadata_is_true(table)


@pytest.mark.row("N9")
def test_holds_are_listed_made_and_deleted_by_a_command(location: str) -> None:
    table = keeping(filled(location), 1)
    token = token_of(table, 1)
    create = ["hold", location, "create", "--as-of", str(token), "--hours", "2", "--comment", "report", "--json"]
    before = datetime.now(UTC).replace(microsecond=0)
    [made] = json.loads(CliRunner().invoke(main, create).stdout)
    ends = datetime.fromisoformat(made["ends"]) - timedelta(hours=2)
    assert before <= ends <= datetime.now(UTC), "two hours from now"
    assert (made["token"], made["comment"]) == (str(token), "report")
    table.cleaning.run()
    shown = CliRunner().invoke(main, ["hold", location])
    assert (shown.exit_code, "report" in shown.stdout) == (0, True)
    assert dict(rows(table.scan(as_of=str(token)), "id", "price"))[1] == 1.0
    assert CliRunner().invoke(main, ["hold", location, "delete", "--name", made["name"]]).exit_code == 0
    assert CliRunner().invoke(main, ["hold", location, "create"]).exit_code == 2
    assert not records(location)


def test_a_hold_lasts_a_hundred_years_at_most(location: str) -> None:
    table = filled(location, 1)
    longest = 100 * 366 * 24 * HOUR
    table.holds.create(seconds=longest)
    for seconds in (longest + 1, 0, -1):
        with pytest.raises(InvalidOptionError):
            table.holds.create(seconds=seconds)
    assert len(list(table.holds)) == 1
