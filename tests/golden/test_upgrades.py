"""Tables of version 6 are raised to version 8: every query has the rows that it had before, and the tables are written from then on.

The judge is our own reader before the upgrade, which `test_other_versions` compares with the release that wrote the tables.
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner
from support.disk import contents
from support.golden import OTHER_VERSIONS, Query, by_key, queries, unpack

import pyhudi_core as hudi
from pyhudi_core.cli.main import main
from pyhudi_core.errors import (
    CommitAbortedError,
    CorruptTimelineError,
    InvalidOptionError,
    SnapshotExpiredError,
    StorageError,
    UnsupportedTableError,
)
from pyhudi_core.model.instant import time_after
from pyhudi_core.services.versions import raising_six
from pyhudi_core.timeline import properties_file
from pyhudi_core.transaction import markers

SIX = sorted(
    {query.table for query in queries(OTHER_VERSIONS) if query.release in ("hudi-0.15.0", "hudi-1.0.2-version6")}
)
NOT_WRITTEN = {"hudi-0.15.0/cow_timestamp_key": UnsupportedTableError, "hudi-0.15.0/mor_bucket": InvalidOptionError}
"""Version 6 does not say how the times of the partition column are written, nor the number of buckets: a writer has to be told."""
AVRO, PLAIN = "hudi-0.15.0/mor_avro", "hudi-0.15.0/cow_plain"


def opened(place: Path | str) -> hudi.HudiTable:
    return hudi.open_table(str(place), {"fsync": "false"})


def state(table: hudi.HudiTable, as_of: str | None = None) -> pa.Table:
    return table.scan(as_of=as_of).to_arrow().drop_columns(["_hoodie_file_name"])


def answers(table: hudi.HudiTable, asked: list[Query]) -> dict[str, pa.Table]:
    found = {}
    for query in asked:
        try:
            rows = query.ask(table).to_arrow()
        except SnapshotExpiredError:
            continue
        found[query.label] = rows.drop_columns({"_hoodie_file_name"} & {*rows.column_names})
    return found


def after_upgrade(query: Query) -> Query:
    """The query with the completion times of the instants that it names; before the upgrade these were their requested times."""
    times = {
        key: time_after(text) if len(text) == 17 else text for key, text in query.options.items() if "instant" in key
    }
    return replace(query, options={**query.options, **times})


@pytest.mark.row("Q2")
@pytest.mark.one_in(8)
@pytest.mark.parametrize("name", SIX)
def test_no_query_has_another_row_after_an_upgrade(name: str, tmp_path: Path) -> None:
    table = opened(unpack(name, tmp_path, OTHER_VERSIONS))
    asked = [query for query in queries(OTHER_VERSIONS) if query.table == name]
    before = answers(table, asked)
    planned = table.upgrade.plan(8)
    assert planned, planned
    history = table.history().num_rows
    done = table.upgrade(8)
    assert (done.found, done.to, done.file_groups) == (6, 8, planned.file_groups)
    assert not done.left
    after = answers(opened(tmp_path), list(map(after_upgrade, asked)))
    assert {*after} == {*before}
    for label, rows in before.items():
        found = after[label]
        if label == "cdc":
            told, expected = (one.drop_columns(["ts_ms"]).to_pylist() for one in (found, rows))
            assert sorted(map(str, told)) == sorted(map(str, expected))
            continue
        # Base files have everything now, so the query for them alone has it, too.
        like = before["snapshot"] if label == "read_optimized" and done.file_groups else rows
        assert by_key(found, like) == by_key(like, like), label
    assert table.history().num_rows == history + bool(done.file_groups)
    assert table.config.metadata_partitions or name == "hudi-0.15.0/cow_archived", "that one had none"
    assert [f for f in table.check().findings if f.severity == "error"] == []


@pytest.mark.row("Q2")
@pytest.mark.one_in(8)
@pytest.mark.parametrize("name", SIX)
def test_a_raised_table_is_written_and_then_has_no_old_timeline(name: str, tmp_path: Path) -> None:
    table = opened(unpack(name, tmp_path, OTHER_VERSIONS))
    table.upgrade(8)
    before = table.scan(meta=False).to_arrow()
    rows = before.slice(0, 5)
    kept = len(list((tmp_path / ".hoodie").glob("2*")))
    assert kept
    assert "until there is a newer commit" in table.upgrade.plan(8).why_not
    if name in NOT_WRITTEN:
        with pytest.raises(NOT_WRITTEN[name]):
            table.upsert(rows)
        return
    table.upsert(rows)
    if "cow" in name:
        table.delete(where=f"id = '{rows.column('id')[0].as_py()}'")
    else:
        table.compaction.run()
    assert table.scan().count() == len(before) - ("cow" in name)
    assert table.upgrade(8).files == kept
    assert not list((tmp_path / ".hoodie").glob("2*"))
    assert not table.upgrade(8)
    assert [f for f in table.check().findings if f.severity == "error"] == []


def test_a_plan_changes_nothing(tmp_path: Path) -> None:
    place = tmp_path / "lake" / "orders"
    table = opened(unpack(AVRO, place, OTHER_VERSIONS))
    before = contents(str(place))
    planned = table.upgrade.plan(8)
    assert (planned.found, planned.to, planned.file_groups, planned.instants) == (6, 8, 4, 11)
    assert [str(plan.action) for plan in planned.plans] == ["compaction"]
    assert planned.figures["estimated_seconds"] > 0
    shown = CliRunner().invoke(main, ["upgrade", str(tmp_path), "--plan", "--json"])
    assert shown.exit_code == 0, shown.output
    [line] = json.loads(shown.output)
    assert (line["table"], line["version"], line["to"], line["refused"]) == (str(place), 6, 8, False)
    assert contents(str(place)) == before


def test_the_rows_behind_a_pending_compaction_stay(tmp_path: Path) -> None:
    """Hudi's own upgrade hides 9 of them, which are in logs that are named after the plan."""
    table = opened(unpack(AVRO, tmp_path, OTHER_VERSIONS))
    before = state(table)
    assert [str(i.action) for i in table.timeline.pending] == ["compaction"]
    table.upgrade(8)
    assert not list(table.timeline.pending)
    assert by_key(state(table), before) == by_key(before, before)


# --- writes that never ended


def begin(place: Path, action: str = "deltacommit") -> str:
    """Begin a write as Hudi does, without a heartbeat; returns its requested time."""
    time = "20261127230000000"
    inflight = f"{time}.inflight" if action == "commit" else f"{time}.{action}.inflight"
    for name in (f"{time}.{action}.requested", inflight):
        (place / ".hoodie" / name).touch()
    return time


def test_a_write_that_may_be_alive_is_waited_for(tmp_path: Path) -> None:
    table = opened(unpack(PLAIN, tmp_path, OTHER_VERSIONS))
    time = begin(tmp_path, "commit")
    before = contents(str(tmp_path))
    assert "keeps no heartbeat" in table.upgrade.plan(8).why_not
    with pytest.raises(UnsupportedTableError, match=f"the write {time} is pending"):
        table.upgrade(8)
    shown = CliRunner().invoke(main, ["upgrade", str(tmp_path), "--plan"])
    assert shown.exit_code == 1
    (tmp_path / ".hoodie" / ".heartbeat").mkdir()
    (tmp_path / ".hoodie" / ".heartbeat" / time).touch()
    with pytest.raises(UnsupportedTableError, match=f"a writer is alive .{time}"):
        table.upgrade(8, roll_back=True)
    shutil.rmtree(tmp_path / ".hoodie" / ".heartbeat")
    assert contents(str(tmp_path)) == before


def test_a_write_that_begins_after_the_look_is_waited_for_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = opened(unpack(PLAIN, tmp_path, OTHER_VERSIONS))
    before, began, judge = state(table), list[str](), raising_six._why_not

    def judged(found: raising_six.OlderTable, *, roll_back: bool) -> str:
        why = judge(found, roll_back=roll_back)
        began.extend([] if began else [begin(tmp_path, "commit")])
        return why

    monkeypatch.setattr(raising_six, "_why_not", judged)
    with pytest.raises(UnsupportedTableError, match="keeps no heartbeat"):
        table.upgrade(8)
    assert opened(tmp_path).config.version == 6
    assert by_key(state(opened(tmp_path)), before) == by_key(before, before)


def old_heartbeats(place: Path) -> None:
    for path in (place / ".hoodie" / ".heartbeat").iterdir():
        os.utime(path, (1, 1))


def test_what_was_decided_keeps_its_files_when_its_process_is_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = opened(unpack(AVRO, tmp_path, OTHER_VERSIONS))
    before = state(table)

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    def fails(*_: object) -> None:
        raise StorageError("the disk is gone")

    with monkeypatch.context() as patch:
        patch.setattr(properties_file, "apply", interrupted)
        patch.setattr(markers, "remove", fails)
        with pytest.raises(KeyboardInterrupt):
            table.upgrade(8)
    old_heartbeats(tmp_path)
    table = opened(tmp_path)
    table.upgrade(8)
    assert table.config.version == 8
    assert by_key(state(table), before) == by_key(before, before)


def test_an_upgrade_whose_files_another_process_swept_is_not_decided(tmp_path: Path) -> None:
    """It was paused, taken for dead, and its next heartbeat came at the moment in which its heartbeat was removed."""
    table = opened(unpack(AVRO, tmp_path, OTHER_VERSIONS))
    before = state(table)

    def paused() -> bool:
        [mine] = (tmp_path / ".hoodie" / ".heartbeat").iterdir()
        body = mine.read_bytes()
        old_heartbeats(tmp_path)
        assert not raising_six.finish_or_undo(opened(tmp_path)._opened.context())
        mine.write_bytes(body)
        return True

    with pytest.raises(CommitAbortedError, match="was taken for that of a dead process"):
        table.upgrade(8, gate=paused)
    assert opened(tmp_path).config.version == 6
    assert by_key(state(opened(tmp_path)), before) == by_key(before, before)
    assert not list((tmp_path / ".hoodie" / ".heartbeat").iterdir())


@pytest.mark.parametrize(("name", "action"), [(PLAIN, "commit"), (AVRO, "deltacommit"), (PLAIN, "replacecommit")])
def test_a_write_that_never_ended_is_rolled_back(name: str, action: str, tmp_path: Path) -> None:
    table = opened(unpack(name, tmp_path, OTHER_VERSIONS))
    before = state(table)
    time = begin(tmp_path, action)
    done = table.upgrade(8, roll_back=True)
    assert [i.requested_time for i in done.rolled_back] == [time]
    assert not list(table.timeline.pending)
    assert [str(i.action) for i in table.timeline if i.requested_time > time and i.action == "rollback"]
    assert by_key(state(table), before) == by_key(before, before)


def test_a_log_that_a_dead_write_left_is_below_a_new_base_file(tmp_path: Path) -> None:
    """Hudi would read its rows as soon as its instant is older than the timeline."""
    table = opened(unpack(PLAIN, tmp_path, OTHER_VERSIONS))
    changed(tmp_path, "hoodie.table.type", "MERGE_ON_READ")
    before = state(table)
    begin(tmp_path)
    base = max(tmp_path.glob("*.parquet"))
    file_id, _, time = base.stem.split("_")
    (tmp_path / f".{file_id}_{time}.log.1_9-9-9").write_bytes(b"rows that nobody may see")
    assert table.upgrade(8, roll_back=True).file_groups == 1
    assert list(tmp_path.glob(f"{file_id}_*_{table.config.raised_at}.parquet"))
    assert by_key(state(table), before) == by_key(before, before)


@pytest.mark.parametrize("action", ["rollback", "restore"])
def test_what_hudi_has_to_end_first_is_refused_by_name(action: str, tmp_path: Path) -> None:
    table = opened(unpack(PLAIN, tmp_path, OTHER_VERSIONS))
    (tmp_path / ".hoodie" / f"20261127230000000.{action}.requested").touch()
    assert f"the {action} 20261127230000000 is pending" in table.upgrade.plan(8, roll_back=True).why_not


# --- the old timeline, and writers of old releases


def test_the_old_table_comes_back_with_the_old_properties_until_there_is_a_newer_commit(tmp_path: Path) -> None:
    table = opened(unpack(AVRO, tmp_path, OTHER_VERSIONS))
    properties = tmp_path / ".hoodie" / "hoodie.properties"
    before, old = state(table), properties.read_bytes()
    table.upgrade(8)
    shutil.rmtree(tmp_path / ".hoodie" / "timeline")
    properties.write_bytes(old)
    back = opened(tmp_path)
    assert back.config.version == 6
    assert by_key(state(back), before) == by_key(before, before)


def test_a_commit_of_a_release_that_did_not_know_of_the_upgrade_is_told_and_stays(tmp_path: Path) -> None:
    table = opened(unpack(PLAIN, tmp_path, OTHER_VERSIONS))
    table.upgrade(8)
    late = tmp_path / ".hoodie" / "20261127235959000.commit"
    shutil.copy(max((tmp_path / ".hoodie").glob("*.commit")), late)
    [found] = [f for f in table.check().findings if f.kind == "written_by_old_release"]
    assert f".hoodie/{late.name}" in found.place()
    assert found.severity == "error"
    table.upsert(table.scan(meta=False).to_arrow().slice(0, 1))
    table.upgrade(8)
    assert [file.name for file in (tmp_path / ".hoodie").glob("2*")] == [late.name]


# --- what is refused


def changed(place: Path, key: str, value: str) -> None:
    file = place / ".hoodie" / "hoodie.properties"
    lines = [line for line in file.read_text().splitlines() if not line.startswith(f"{key}=")]
    file.write_text("\n".join([*lines, f"{key}={value}"]) + "\n")


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        ("hoodie.table.version", "5", "only version 6 is raised to 8"),
        ("hoodie.table.keygenerator.class", "org.apache.hudi.keygen.CustomKeyGenerator", "does not say how that makes the folders"),
        ("hoodie.bootstrap.base.path", "/rows", "the rows of the table are in another folder"),
    ],
)  # fmt: skip
def test_a_table_that_version_8_cannot_say_is_refused(key: str, value: str, why: str, tmp_path: Path) -> None:
    unpack(PLAIN, tmp_path, OTHER_VERSIONS)
    changed(tmp_path, key, value)
    before = contents(str(tmp_path))
    with pytest.raises(UnsupportedTableError, match=why):
        opened(tmp_path).upgrade(8)
    assert contents(str(tmp_path)) == before


def test_a_damaged_instant_stops_the_upgrade_before_anything_is_written(tmp_path: Path) -> None:
    unpack(PLAIN, tmp_path, OTHER_VERSIONS)
    min((tmp_path / ".hoodie").glob("*.commit")).write_bytes(b"{")
    before = contents(str(tmp_path))
    with pytest.raises(CorruptTimelineError):
        opened(tmp_path).upgrade(8)
    assert contents(str(tmp_path)) == before


@pytest.mark.parametrize("to", [6, 7, 10])
def test_a_version_to_which_nothing_is_raised_is_refused(to: int, tmp_path: Path) -> None:
    table = opened(unpack(PLAIN, tmp_path, OTHER_VERSIONS))
    with pytest.raises(InvalidOptionError, match=f"not raised to version {to}"):
        table.upgrade(to)
