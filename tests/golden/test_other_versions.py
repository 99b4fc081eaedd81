"""Tables of version 6, and tables of version 9 with partial updates and delete markers, are read as the release reads them that wrote them.

``other_versions/<release>/<table>`` has the table and what that release (0.15.0, 1.0.2 or 1.2.0) reads from it. Unpacking a table gives its files new
times of modification, as every copy does: nothing depends on them.
"""

from __future__ import annotations

import json
import pickle
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from support.disk import contents
from support.golden import OTHER_VERSIONS, Query, by_key, queries, unpack, without_late_rows
from support.golden import assert_changes as assert_changes_of

import pyhudi_core as hudi
from pyhudi_core.errors import (
    CorruptTimelineError,
    InvalidOptionError,
    TableVersionError,
    UnsupportedTableError,
)
from pyhudi_core.formats.log.blocks import BlockType, Header, encode_block
from pyhudi_core.formats.log.contents import write_records
from pyhudi_core.formats.log.reader import LogReader
from pyhudi_core.model.instant import time_after
from pyhudi_core.model.merge_mode import OLDER_LAW

OLDER = {"hudi-0.15.0", "hudi-1.0.2-version6"}
QUERIES = queries(OTHER_VERSIONS)
PATH_AS_VALUE = "hudi-0.15.0/cow_timestamp_key"
"""Release 0.15 returns the text of the folder as the value of the partition column, not the value in the files."""
ARCHIVED = "hudi-0.15.0/cow_archived"
_PARTIAL = ("partial", "non_defaults_migrated", "mor_pg")


def is_unfilled(query: Query) -> bool:
    """Hudi merges the versions of the range alone, so what an earlier version would fill in is missing in its rows."""
    return query.kind == "incremental" and any(word in query.table for word in _PARTIAL)


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    root = tmp_path_factory.mktemp("other_versions")
    return {name: unpack(name, root / name, OTHER_VERSIONS) for name in sorted({query.table for query in QUERIES})}


def copy_of(name: str, place: Path) -> Path:
    return Path(unpack(name, place, OTHER_VERSIONS))


AS_HUDI = [query for query in QUERIES if query.kind != "cdc" and not is_unfilled(query)]


@pytest.mark.row("Q2")
@pytest.mark.one_in(3)
@pytest.mark.parametrize("query", AS_HUDI, ids=lambda query: query.name)
def test_a_table_is_read_as_its_own_release_reads_it(unpacked: dict[str, str], query: Query) -> None:
    table = hudi.open_table(unpacked[query.table])
    rows, expected = query.ask(table).to_arrow(), query.expected
    if query.table == PATH_AS_VALUE:
        rows, expected = rows.drop_columns(["ts"]), expected.drop_columns(["ts"])
    if query.table == ARCHIVED and query.label == "incremental_from_start":
        # Release 0.15 leaves out what only archived commits wrote, without a word.
        assert (rows.num_rows, expected.num_rows) == (25, 17)
        rows = rows.filter(pc.is_in(rows.column("_hoodie_record_key"), expected.column("_hoodie_record_key")))
    if query.release not in OLDER and query.label == "incremental_from_mid":
        expected = without_late_rows(expected, table.scan().to_arrow())
    assert by_key(rows, expected) == by_key(expected, expected)


@pytest.mark.parametrize("query", list(filter(is_unfilled, QUERIES)), ids=lambda query: query.name)
def test_an_incremental_read_of_partial_updates_has_the_values_from_before_the_range(
    unpacked: dict[str, str], query: Query
) -> None:
    table = hudi.open_table(unpacked[query.table])
    rows, expected = query.ask(table).to_arrow(), query.expected
    if query.label == "incremental_from_mid":
        snapshot = table.scan().to_arrow()
        expected = without_late_rows(expected, snapshot)
        keys = expected.column("_hoodie_record_key")
        newest = snapshot.filter(pc.is_in(snapshot.column("_hoodie_record_key"), keys))
        assert by_key(rows, expected) == by_key(newest, expected)
    for ours, theirs in zip(by_key(rows, expected), by_key(expected, expected), strict=True):
        said = {name: value for name, value in theirs.items() if value not in (None, "__debezium_unavailable_value")}
        if query.table == "hudi-0.15.0/mor_partial_payload":
            said = {name: value for name, value in said.items() if name.startswith("_hoodie") or name == "id"}
        assert said.items() <= ours.items()


@pytest.mark.parametrize("query", [one for one in QUERIES if one.kind == "cdc"], ids=lambda query: query.name)
def test_changes_are_those_that_hudi_tells(unpacked: dict[str, str], query: Query) -> None:
    assert_changes_of(query, hudi.open_table(unpacked[query.table]).changes().to_arrow())


def test_tasks_read_a_table_of_version_6_in_another_process(unpacked: dict[str, str]) -> None:
    scan = hudi.open_table(unpacked["hudi-0.15.0/mor_avro"]).scan()
    tasks = [pickle.loads(pickle.dumps(task)) for task in scan.tasks()]
    rows = pa.Table.from_batches([batch for task in tasks for batch in task.batches()])
    expected = scan.to_arrow()
    assert by_key(rows, expected) == by_key(expected, expected)


# --- what is asked about the timeline of version 6


def test_active_and_archived_commits_of_version_6_are_in_the_history(unpacked: dict[str, str]) -> None:
    table = hudi.open_table(unpacked[ARCHIVED])
    told = json.loads((OTHER_VERSIONS / ARCHIVED / "expected.json").read_text())["instants"]
    active = sorted(instant.requested_time for instant in table.timeline.commits)
    assert active == sorted(begin for begin, _, action in told if action == "commit")
    history = table.history()
    assert history.num_rows == 15
    assert len(active) < 15
    assert history.column("completion_time") == history.column("instant"), "version 6 stores no completion times"
    archived = list(table.archived_commits())
    assert len(archived) == 15 - len(active)
    assert all(commit.stats for commit in archived)


def test_changes_that_were_archived_are_refused(unpacked: dict[str, str]) -> None:
    with pytest.raises(hudi.errors.SnapshotExpiredError):
        hudi.open_table(unpacked[ARCHIVED]).changes()


def test_a_condition_and_a_count_find_the_same_rows(unpacked: dict[str, str]) -> None:
    table = hudi.open_table(unpacked["hudi-0.15.0/mor_indexed"])
    rows = table.scan(meta=False).to_arrow()
    assert table.scan().count() == rows.num_rows
    wanted = rows.filter(pc.field("region") == "eu").filter(pc.field("qty") > 300)
    found = table.scan(where="region = 'eu' AND qty > 300", meta=False).to_arrow()
    assert sorted(found.column("id").to_pylist()) == sorted(wanted.column("id").to_pylist())
    key = rows.column("id")[0].as_py()
    assert table.scan(where=f"id = '{key}'", meta=False).count() == 1


def test_a_metadata_table_of_version_6_without_a_byte_changes_nothing(tmp_path: Path) -> None:
    place = copy_of("hudi-0.15.0/mor_indexed", tmp_path)
    before = hudi.open_table(str(place)).scan().to_arrow()
    for file in (place / ".hoodie" / "metadata").rglob("*"):
        if file.is_file():
            file.write_bytes(b"")
    assert by_key(hudi.open_table(str(place)).scan().to_arrow(), before) == by_key(before, before)


# --- archived commits of merge-on-read tables


def archive(place: Path, times: list[str], name: str = ".commits_.archive.9_1-0-1") -> None:
    """Move the instants of these times to the archive, as release 0.15 does: one record for each file, in its own schema."""
    with zipfile.ZipFile(OTHER_VERSIONS / ARCHIVED / "table.zip") as example:
        data = example.read(".hoodie/archived/.commits_.archive.1_1-0-1")
    [first, *_] = LogReader(pa.BufferReader(data), "archive").blocks()
    schema = first.headers[Header.SCHEMA]
    records = []
    for time in times:
        for file in sorted((place / ".hoodie").glob(f"{time}.*")):
            action = file.name.split(".")[1]
            if file.suffix == f".{action}" and action in ("commit", "deltacommit"):
                content = json.loads(file.read_bytes())
                records.append({"hoodieCommitMetadata": content, "actionState": "COMPLETED"})
            else:
                records.append({"actionState": "INFLIGHT" if "inflight" in file.name else "REQUESTED"})
            records[-1] |= {"commitTime": time, "actionType": action, "version": 1}
            file.unlink()
    block = encode_block(BlockType.AVRO_DATA, {Header.SCHEMA: schema}, write_records(schema, records))
    (place / ".hoodie" / "archived").mkdir(exist_ok=True)
    (place / ".hoodie" / "archived" / name).write_bytes(block)


@pytest.mark.parametrize(
    "name", ["hudi-0.15.0/mor_avro", "hudi-0.15.0/mor_event_payload", "hudi-0.15.0/mor_rolled_back"]
)
def test_logs_of_archived_commits_are_read_as_before(name: str, tmp_path: Path) -> None:
    place = copy_of(name, tmp_path)
    table = hudi.open_table(str(place))
    times = [i.requested_time for i in table.timeline.commits]
    newest, middle = table.scan().to_arrow(), table.scan(as_of=times[2]).to_arrow()
    for count in dict.fromkeys((1, 2, len(times) - 1)):
        archive(place, times[:count], f".commits_.archive.{count}_1-0-1")
        table = hudi.open_table(str(place))
        assert table.history().num_rows == len(times)
        found = table.scan().to_arrow()
        assert by_key(found, newest) == by_key(newest, newest), count
        before = table.scan(as_of=times[2]).to_arrow()
        assert by_key(before, middle) == by_key(middle, middle), count


def test_logs_of_archived_commits_on_an_active_base_file_are_read(tmp_path: Path) -> None:
    """A savepoint keeps its commit active, and later ones can be archived (hoodie.archive.beyond.savepoint)."""
    place = copy_of("hudi-0.15.0/mor_event_payload", tmp_path)
    table = hudi.open_table(str(place))
    times = [i.requested_time for i in table.timeline.commits]
    newest = table.scan().to_arrow()
    for state in ("savepoint.inflight", "savepoint"):
        (place / ".hoodie" / f"{times[0]}.{state}").touch()
    archive(place, times[1:3])
    found = hudi.open_table(str(place)).scan().to_arrow()
    assert by_key(found, newest) == by_key(newest, newest)


# --- pending and rolled-back writes

LAST = {"hudi-0.15.0/cow_plain": "commit", "hudi-0.15.0/mor_event_payload": "deltacommit"}


def made_pending(place: Path, action: str) -> str:
    """Take the completed file of the newest write away; returns its requested time."""
    newest = max((place / ".hoodie").glob(f"*.{action}"))
    newest.unlink()
    return newest.name.partition(".")[0]


@pytest.mark.parametrize("name", LAST)
def test_a_pending_write_is_never_read(name: str, tmp_path: Path) -> None:
    place = copy_of(name, tmp_path)
    table = hudi.open_table(str(place))
    before = table.timeline.commits[-2]
    expected = table.scan(as_of=before).to_arrow()
    time = made_pending(place, LAST[name])
    found = hudi.open_table(str(place)).scan().to_arrow()
    assert by_key(found, expected) == by_key(expected, expected)
    assert time not in found.column("_hoodie_commit_time").to_pylist()


def put_pending_write_before(place: Path, instant: str, action: str) -> str:
    """Begin a write that another process has not ended, just before an instant; returns its requested time."""
    time = str(int(instant) - 1)
    inflight = f"{time}.inflight" if action == "commit" else f"{time}.{action}.inflight"
    for name in (f"{time}.{action}.requested", inflight):
        (place / ".hoodie" / name).touch()
    return time


@pytest.mark.parametrize("name", LAST)
def test_a_reader_of_changes_never_passes_a_pending_write(name: str, tmp_path: Path) -> None:
    """It will appear at its requested time, before commits that are there already."""
    place = copy_of(name, tmp_path)
    first, second, *_, last = [i.requested_time for i in hudi.open_table(str(place)).timeline.commits]
    everything = hudi.open_table(str(place)).scan().to_arrow()
    hollow = put_pending_write_before(place, second, LAST[name])
    table = hudi.open_table(str(place))
    found = table.scan().to_arrow()
    assert by_key(found, everything) == by_key(everything, everything), "a snapshot has newer commits"
    assert table.timeline.unsettled == hollow
    assert [i.requested_time for i in table.timeline.settled_commits] == [first]
    assert set(table.incremental(None).to_arrow().column("_hoodie_commit_time").to_pylist()) == {first}
    assert table.incremental(after=first).to_arrow().num_rows == 0
    assert set(table.changes().to_arrow().column("ts_ms").to_pylist()) == {first}
    for read in (table.incremental, table.changes):
        with pytest.raises(InvalidOptionError, match=f"behind the write {hollow}, which is pending"):
            read(after=first, until=last)
    for file in (place / ".hoodie").glob(f"{hollow}.*"):
        file.unlink()
    assert hudi.open_table(str(place)).incremental(after=first, until=last).to_arrow().num_rows > 0


def test_a_consumer_waits_for_a_pending_write(tmp_path: Path) -> None:
    place = copy_of("hudi-0.15.0/cow_plain", tmp_path / "source")
    source = hudi.open_table(str(place))
    into = hudi.create_table(str(tmp_path / "into"), source.scan(meta=False).schema, record_key="id")
    first, second, *_ = [i.requested_time for i in source.timeline.commits]
    hollow = put_pending_write_before(place, second, "commit")
    consumer = hudi.Consumer("copy", source, into)

    def consume() -> str:
        for batch in consumer:
            batch.commit(batch.rows().to_arrow())
        return consumer.checkpoint.until if consumer.checkpoint is not None else ""

    assert consume() == first
    for file in (place / ".hoodie").glob(f"{hollow}.*"):
        file.unlink()
    assert consume() == source.timeline.commits[-1].requested_time


def test_logs_below_a_running_compaction_do_not_prove_that_it_has_ended(tmp_path: Path) -> None:
    """Version 6 names them after its plan, which is then their previous commit."""
    place = copy_of("hudi-0.15.0/mor_avro", tmp_path)
    before = hudi.open_table(str(place)).scan().to_arrow()
    [plan] = hudi.open_table(str(place)).timeline.pending
    (place / ".hoodie" / f"{plan.requested_time}.compaction.inflight").touch()
    table = hudi.open_table(str(place))
    assert [str(i.state) for i in table.timeline.pending] == ["inflight"]
    assert by_key(table.scan().to_arrow(), before) == by_key(before, before)


def test_a_commit_whose_file_is_lost_is_missed(tmp_path: Path) -> None:
    place = copy_of("hudi-0.15.0/cow_plain", tmp_path)
    second = hudi.open_table(str(place)).timeline.commits[1].requested_time
    (place / ".hoodie" / f"{second}.commit").unlink()
    with pytest.raises(CorruptTimelineError, match="The completed file of a commit is lost"):
        hudi.open_table(str(place)).scan()


def test_a_pending_clustering_holds_no_reader_up_and_a_pending_overwrite_does(tmp_path: Path) -> None:
    """Both are a pending replacecommit; only the plan in the requested file tells them apart."""
    place = copy_of("hudi-0.15.0/cow_hive_services", tmp_path)
    folder = place / ".hoodie"
    done = sorted(folder.glob("*.replacecommit"))
    kinds = set()
    for file in done:
        kept = file.read_bytes()
        time = file.name.partition(".")[0]
        file.unlink()
        timeline = hudi.open_table(str(place)).timeline
        [pending] = timeline.pending
        assert (pending.requested_time, timeline.unsettled) == (time, None if pending.action == "clustering" else time)
        kinds.add(str(pending.action))
        file.write_bytes(kept)
    assert kinds == {"clustering", "replacecommit"}


def test_blocks_of_a_rolled_back_write_do_not_come_back(tmp_path: Path) -> None:
    """Their command block is not needed for that: readers take only blocks of commits that name the log."""
    place = copy_of("hudi-0.15.0/mor_rolled_back", tmp_path)
    before = hudi.open_table(str(place)).scan().to_arrow()
    commands = [file for file in place.rglob(".*.log.*") if file.stat().st_size == 105]
    assert commands
    for file in commands:
        file.unlink()
    assert by_key(hudi.open_table(str(place)).scan().to_arrow(), before) == by_key(before, before)


# --- what is refused

WRITES = {
    "upsert": lambda table, data: table.upsert(data),
    "delete": lambda table, data: table.delete(where="id = 'k00011'"),
    "begin": lambda table, data: table.begin("insert").write(data),
    "insert_overwrite": lambda table, data: table.insert_overwrite(data),
    "clean": lambda table, data: table.cleaning.run(),
    "clustering": lambda table, data: table.clustering.schedule(),
    "compaction": lambda table, data: table.compaction.run(),
    "log compaction": lambda table, data: table.log_compaction.run(),
    "archival": lambda table, data: table.archival.run(),
    "savepoint": lambda table, data: table.savepoints.create(),
    "restore": lambda table, data: table.restore(table.timeline.commits[1]),
    "rollback": lambda table, data: table.rollback(table.timeline.commits[-1], completed=True),
    "metadata table": lambda table, data: table.metadata_table.rebuild(),
    "index": lambda table, data: table.indexes.create("bloom_filters"),
    "sweep": lambda table, data: table.sweep.run(),
    "hold": lambda table, data: table.holds.create("mine", seconds=60),
    "erase": lambda table, data: table.erasure.run(data.select(["id", "region"]).slice(0, 1)),
}


@pytest.mark.row("Q2")
@pytest.mark.parametrize("verb", WRITES)
def test_a_table_of_version_6_is_not_written(tmp_path: Path, verb: str) -> None:
    place = copy_of("hudi-0.15.0/mor_avro", tmp_path)
    table = hudi.open_table(str(place))
    data = table.scan(meta=False).to_arrow()
    before = contents(str(place))
    try:
        done = WRITES[verb](table, data)
    except TableVersionError as error:
        assert "version 6, which this release reads and does not write" in str(error)
        assert "pyhudi upgrade" in (error.hint or "")
    else:
        assert not done, "a service with nothing to do"
    assert contents(str(place)) == before


def test_the_doctor_says_that_it_does_not_examine_version_6(unpacked: dict[str, str]) -> None:
    report = hudi.open_table(unpacked["hudi-0.15.0/mor_avro"]).check()
    assert [(finding.kind, "version 6" in finding.what) for finding in report.findings] == [("not_examined", True)]


def changed(place: Path, **properties: str) -> None:
    file = place / ".hoodie" / "hoodie.properties"
    names = {key.replace("_", "."): value for key, value in properties.items()}
    lines = [line for line in file.read_text().splitlines() if line.partition("=")[0] not in names]
    file.write_text("\n".join([*lines, *(f"{key}={value}" for key, value in names.items())]) + "\n")


@pytest.mark.parametrize(
    ("properties", "error"),
    [
        ({"hoodie_table_version": "2"}, TableVersionError),
        ({"hoodie_table_version": "7"}, TableVersionError),
        ({"hoodie_table_version": "10"}, TableVersionError),
        ({"hoodie_timeline_layout_version": "2"}, UnsupportedTableError),
        ({"hoodie_timeline_layout_version": ""}, UnsupportedTableError),
    ],
    ids=str,
)
def test_another_version_or_a_layout_that_is_not_that_of_the_version_is_refused(
    tmp_path: Path, properties: dict[str, str], error: type[Exception]
) -> None:
    place = copy_of("hudi-0.15.0/cow_plain", tmp_path)
    changed(place, **properties)
    with pytest.raises(error):
        hudi.open_table(str(place))


@pytest.mark.parametrize("version", ["3", "4", "5"])
def test_copy_on_write_tables_of_older_versions_are_read(tmp_path: Path, version: str) -> None:
    place = copy_of("hudi-0.15.0/cow_plain", tmp_path)
    expected = hudi.open_table(str(place)).scan().to_arrow()
    changed(place, hoodie_table_version=version)
    assert by_key(hudi.open_table(str(place)).scan().to_arrow(), expected) == by_key(expected, expected)


@pytest.mark.parametrize("name", ["cow_plain", "cow_hive_services"])
def test_a_table_of_hudi_0_9_with_times_in_seconds_and_without_a_checksum_is_read(tmp_path: Path, name: str) -> None:
    """Before 0.10 times had 14 digits; before version 4 the properties had no checksum, and named no metadata table."""
    place = copy_of(f"hudi-0.15.0/{name}", tmp_path)
    table = hudi.open_table(str(place))
    times = sorted({instant.requested_time for instant in table.timeline})
    commits = [instant.requested_time for instant in table.timeline.commits]
    states = {time: table.scan(as_of=time).to_arrow() for time in commits[-1 if name == "cow_hive_services" else 0 :]}
    short = {time: f"20210203{number:06d}" for number, time in enumerate(times)}
    for file in sorted(path for path in place.rglob("*") if path.is_file() and "metadata/" not in str(path)):
        named = file.name
        for time, seconds in short.items():
            named = named.replace(time, seconds)
            if file.suffix in (".commit", ".replacecommit"):
                file.write_text(file.read_text().replace(time, seconds))
        file.rename(file.with_name(named))
    changed(place, hoodie_table_version="3", hoodie_table_metadata_partitions="")
    file = place / ".hoodie" / "hoodie.properties"
    file.write_text("".join(x for x in file.read_text().splitlines(keepends=True) if "checksum" not in x))
    table = hudi.open_table(str(place))
    assert [i.requested_time for i in table.timeline.commits] == [short[time] for time in commits]
    for time, before in states.items():
        like = before.drop_columns(["_hoodie_file_name"])
        assert by_key(table.scan(as_of=short[time]).to_arrow(), like) == by_key(like, like)
    assert table.incremental(None).to_arrow().num_rows >= 0


def test_an_upgrade_that_did_not_end_is_refused(tmp_path: Path) -> None:
    """It moves the instants one by one before it changes the properties: what is left would be read as a smaller table."""
    place = copy_of("hudi-0.15.0/cow_plain", tmp_path)
    folder = place / ".hoodie" / "timeline"
    folder.mkdir()
    assert hudi.open_table(str(place)).scan().count() > 0, "a downgrade leaves the empty folder"
    first = min((place / ".hoodie").glob("*.commit"))
    time = first.name.partition(".")[0]
    first.rename(folder / f"{time}_{int(time) + 1}.commit")
    with pytest.raises(CorruptTimelineError, match="An upgrade of the table has begun and has not ended"):
        hudi.open_table(str(place)).scan()


def test_a_read_during_an_upgrade_has_the_right_rows_or_is_refused(tmp_path: Path) -> None:
    place = copy_of("hudi-0.15.0/mor_event_payload", tmp_path)
    folder = place / ".hoodie"
    table = hudi.open_table(str(place))
    expected, begun = table.scan().to_arrow(), table.scan()
    (folder / "timeline").mkdir()
    for file in sorted(folder.glob("2*")):
        time, _, ending = file.name.partition(".")
        is_completed = "." not in ending and ending != "inflight"
        file.rename(folder / "timeline" / (f"{time}_{int(time) + 1}.{ending}" if is_completed else file.name))
        with pytest.raises(CorruptTimelineError, match="An upgrade of the table has begun"):
            table.scan()
    rows = begun.to_arrow()
    assert by_key(rows, expected) == by_key(expected, expected)


@pytest.mark.parametrize("payload", ["AWSDmsAvroPayload", "debezium.PostgresDebeziumAvroPayload"])
def test_a_payload_class_whose_merge_in_logs_is_not_known_is_refused_by_name(tmp_path: Path, payload: str) -> None:
    place = copy_of("hudi-0.15.0/mor_avro", tmp_path)
    name = f"org.apache.hudi.common.model.{payload}"
    changed(place, hoodie_compaction_payload_class=name)
    table = hudi.open_table(str(place))
    with pytest.raises(UnsupportedTableError, match=payload) as raised:
        table.scan().to_arrow()
    assert OLDER_LAW in (raised.value.hint or "")
    assert table.scan(mode="read_optimized").count() > 0


# --- the law by which logs merge


def as_later(place: Path | str) -> hudi.HudiTable:
    """The table by the law of Hudi 1.x."""
    return hudi.open_table(str(place), options={OLDER_LAW: "1.x"})


def test_the_option_gives_the_rows_that_later_releases_read(unpacked: dict[str, str]) -> None:
    """Hudi 1.0.2 and 1.2.0 read 52 rows where 0.15 reads 48, and the later one of two rows of a key."""
    place = unpacked["hudi-0.15.0/mor_event_payload"]
    [middle] = {q.options["as.of.instant"] for q in QUERIES if unpacked[q.table] == place and q.kind == "time_travel"}
    counted = [(t.scan().count(), t.scan(as_of=middle).count()) for t in (hudi.open_table(place), as_later(place))]
    assert counted == [(48, 24), (52, 35)]
    place = unpacked["hudi-0.15.0/mor_avro"]
    ours, theirs = (
        sorted(map(str, t.scan(meta=False).to_arrow().to_pylist())) for t in (hudi.open_table(place), as_later(place))
    )
    assert [len(set(ours) - set(theirs)), len(set(theirs) - set(ours))] == [1, 1]
    row = "id = 'k00036'"
    assert [t.scan(where=row).to_arrow()["ts"].to_pylist() for t in (hudi.open_table(place), as_later(place))] == [
        [18],
        [17],
    ]


def test_tasks_in_another_process_merge_by_the_law_of_the_reader(unpacked: dict[str, str]) -> None:
    tasks = pickle.loads(pickle.dumps(as_later(unpacked["hudi-0.15.0/mor_event_payload"]).scan().tasks()))
    assert sum(batch.num_rows for task in tasks for batch in task.batches()) == 52


def test_an_upgrade_keeps_the_rows_of_the_law_that_was_chosen(tmp_path: Path) -> None:
    place = copy_of("hudi-0.15.0/mor_event_payload", tmp_path)
    table = as_later(place)
    before, middle = table.scan().to_arrow(), table.timeline.commits[2].requested_time
    states = table.scan(as_of=middle).count()
    assert states != hudi.open_table(str(place)).scan(as_of=middle).count()
    assert table.upgrade(8)
    for raised in (table, hudi.open_table(str(place))):
        found = raised.scan().to_arrow()
        assert (found.num_rows, raised.scan(as_of=time_after(middle)).count()) == (before.num_rows, states)


def test_the_law_of_a_reader_says_nothing_of_later_versions(tmp_path: Path) -> None:
    table = hudi.create_table(str(tmp_path), pa.schema([("id", pa.int64())]), "id", options={OLDER_LAW: "1.x"})
    table.upsert(pa.table({"id": [1]}))
    assert OLDER_LAW not in (tmp_path / ".hoodie" / "hoodie.properties").read_text()
    with pytest.raises(InvalidOptionError, match=OLDER_LAW):
        hudi.open_table(str(tmp_path), options={OLDER_LAW: "2"})


@pytest.mark.parametrize("damage", [b"{", b"[]", b'{"partitionToWriteStats": {"": [{"path": 7}]}}', b"\xff\xfe"])
def test_a_damaged_commit_of_version_6_is_refused_with_its_file(tmp_path: Path, damage: bytes) -> None:
    place = copy_of("hudi-0.15.0/cow_plain", tmp_path)
    newest = max((place / ".hoodie").glob("*.commit"))
    newest.write_bytes(damage)
    with pytest.raises(CorruptTimelineError) as raised:
        hudi.open_table(str(place)).scan().to_arrow()
    assert raised.value.path == f".hoodie/{newest.name}"


def test_a_damaged_archive_is_refused_where_it_is_needed(tmp_path: Path) -> None:
    place = copy_of(ARCHIVED, tmp_path)
    newest = max((place / ".hoodie" / "archived").iterdir())
    newest.write_bytes(newest.read_bytes()[:1000])
    table = hudi.open_table(str(place))
    assert table.scan().count() == 25
    with pytest.raises((CorruptTimelineError, hudi.errors.SnapshotExpiredError)):
        table.changes()


DELETES = 1
"""The type of a delete block."""


@pytest.mark.parametrize(("version", "form"), [("6", 2), ("5", 2), ("4", 2), ("3", 2), ("3", 1)])
def test_deletes_in_the_serialisation_of_java_are_refused_by_name(tmp_path: Path, version: str, form: int) -> None:
    """Releases before 0.14 wrote delete blocks of content version 1 or 2. Base files can be read."""
    place = copy_of("hudi-0.15.0/mor_event_payload", tmp_path)
    before = hudi.open_table(str(place)).scan(mode="read_optimized").count()
    changed(place, hoodie_table_version=version)
    for file in place.rglob(".*.log.*"):
        data = file.read_bytes()
        at = data.find(b"#HUDI#")
        while at >= 0:
            if int.from_bytes(data[at + 18 : at + 22], "big") == DELETES:
                content = content_of(data, at)
                assert data[content : content + 4] == b"\x00\x00\x00\x03"
                data = data[: content + 3] + bytes([form]) + data[content + 4 :]
            at = data.find(b"#HUDI#", at + 6)
        file.write_bytes(data)
    with pytest.raises(
        UnsupportedTableError, match=f"content version {form}, which only Java's serialisation can read"
    ):
        hudi.open_table(str(place)).scan().to_arrow()
    assert hudi.open_table(str(place)).scan(mode="read_optimized").count() == before


def content_of(data: bytes, at: int) -> int:
    """Return where the content of the block at this position begins: behind magic, length, version, type, headers and its own length."""
    place = at + 22
    count = int.from_bytes(data[place : place + 4], "big")
    place += 4
    for _ in range(count):
        place += 8 + int.from_bytes(data[place + 4 : place + 8], "big")
    return place + 8
