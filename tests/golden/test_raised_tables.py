"""Tables that Hudi 1.2.0 raised from version 6: their logs and archived files keep names of version 6, and no row of them is lost.

``raised/<table>`` has the table, the times of its commits, and what Hudi reads from it. Hudi hides nine rows below a pending compaction; those are
compared with what 0.15.0 read before the upgrade.
"""

from __future__ import annotations

import json
import shutil
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.disk import contents

import pyhudi as hudi
from pyhudi_core.errors import CorruptTimelineError
from pyhudi_core.formats.avro.container import decode_record

RAISED = Path(__file__).parent / "raised"
EVENT, AVRO, ARCHIVED = "mor_event_raised_6_to_8", "mor_avro_raised_6_to_9", "cow_archived_raised_6_to_9"
NEWER_THERE = {"k00000", "k00024", "k00054"}
"""Keys of the table of 0.15.0 whose newest row is decided by event time since the upgrade."""


def raised(name: str, place: Path, **options: str) -> hudi.HudiTable:
    with zipfile.ZipFile(RAISED / name / "table.zip") as archive:
        archive.extractall(place)
    return hudi.open_table(str(place), options=options)


def rows(found: pa.Table) -> list[str]:
    names = [name for name in found.column_names if not name.startswith("_hoodie")]
    return sorted(map(str, found.select(names).to_pylist()))


def completed(name: str) -> list[tuple[str, str]]:
    """Completion time and requested time of each commit."""
    found = json.loads((RAISED / name / "expected.json").read_text())
    return [(completion, requested) for requested, completion, _ in found["instants"]]


def queries(name: str) -> list[tuple[str, str]]:
    """The queries of a past state: the completion time, and the file with the rows."""
    found = json.loads((RAISED / name / "expected.json").read_text())
    times = {requested: completion for completion, requested in completed(name)}
    asked = [(query["options"].get("as.of.instant"), query["rows"]) for query in found["queries"]]
    return [(times[time], answer) for time, answer in asked if time in times]


@pytest.mark.parametrize("name", [EVENT, AVRO])
def test_past_states_have_the_rows_of_logs_with_older_names(name: str, tmp_path: Path) -> None:
    table = raised(name, tmp_path)
    for time, answer in queries(name):
        assert rows(table.scan(as_of=time).to_arrow()) == rows(pq.read_table(RAISED / name / answer))


def test_the_newest_state_has_the_rows_below_a_pending_compaction(tmp_path: Path) -> None:
    found = {row["id"]: row for row in raised(AVRO, tmp_path).scan(meta=False).to_arrow().to_pylist()}
    before = pq.read_table(RAISED / AVRO / "rows_of_0.15.parquet").select(list(found["k00000"]))
    expected = {row["id"]: row for row in before.to_pylist()}
    assert found.keys() == expected.keys()
    assert {key for key, row in found.items() if row != expected[key]} == NEWER_THERE


@pytest.mark.parametrize("name", [EVENT])
def test_writes_and_services_keep_every_row(name: str, tmp_path: Path) -> None:
    table = raised(name, tmp_path)
    time = queries(name)[0][0]
    newest, past = rows(table.scan().to_arrow()), rows(table.scan(as_of=time).to_arrow())
    assert not table.sweep.plan()
    table.upsert(table.scan(meta=False).limit(5).to_arrow())
    table.compaction.run()
    assert (rows(table.scan().to_arrow()), rows(table.scan(as_of=time).to_arrow())) == (newest, past)
    table.clustering.run()
    assert rows(table.scan().to_arrow()) == newest
    assert table.check().ok


def test_archived_commits_are_found_whatever_the_names_of_their_files_say(tmp_path: Path) -> None:
    table = raised(ARCHIVED, tmp_path)
    times = sorted(table.history().column("completion_time").to_pylist())
    assert (len(times), len(list(table.archived_commits()))) == (15, 9)
    first, *_, last = times[:9]
    with pytest.raises(hudi.errors.SnapshotExpiredError):
        table.incremental(after=first, until=last).count()


@pytest.mark.parametrize(("name", "count"), [(EVENT, 1), (AVRO, 1), (ARCHIVED, 2)])
def test_the_doctor_knows_such_tables(name: str, count: int, tmp_path: Path) -> None:
    found = [one for one in raised(name, tmp_path).check().findings if one.kind == "names_of_version_6"]
    assert len(found) == count
    assert {str(one.severity) for one in found} == {"info"}


def test_check_names_the_rows_that_an_upgrade_of_hudi_hides_below_a_pending_compaction(tmp_path: Path) -> None:
    """Hudi reads nine rows as they were before the last commit of version 6. They come back when the compaction has run."""
    table = raised(AVRO, tmp_path, **{"pyhudi.metadata.remove_unkept": "true"})  # it is behind since Hudi's upgrade
    before = rows(table.scan(meta=False).to_arrow())
    found = [finding for finding in table.check().findings if finding.kind == "rows_hidden_by_upgrade"]
    assert sum(finding.count for finding in found) == 1
    assert "9 rows" in found[0].what
    assert "k00042" in found[0].what
    assert "compact" in found[0].what_to_do
    table.compaction.execute(found[0].instant)
    assert "rows_hidden_by_upgrade" not in [finding.kind for finding in table.check().findings]
    assert rows(table.scan(meta=False).to_arrow()) == before


@pytest.mark.parametrize("name", [AVRO, ARCHIVED])
def test_check_names_a_commit_that_an_upgrade_of_hudi_left_in_the_old_timeline(name: str, tmp_path: Path) -> None:
    table = raised(name, tmp_path)
    assert "written_by_old_release" not in [finding.kind for finding in table.check().findings]
    left = tmp_path / ".hoodie" / "20261127224359999.commit"
    left.write_text(
        '{"partitionToWriteStats": {"a": [{"path": "a/x.parquet", "numWrites": 7}]}, "operationType": "UPSERT"}'
    )
    [found] = [finding for finding in table.check().findings if finding.kind == "written_by_old_release"]
    assert found.where == f".hoodie/{left.name}"
    assert "7 rows" in found.what
    left.write_text("{")
    [found] = [finding for finding in table.check().findings if finding.kind == "written_by_old_release"]
    assert "cannot be read" in found.what


@pytest.mark.parametrize("service", ["compaction", "clustering", "log_compaction"])
@pytest.mark.parametrize("name", [EVENT, AVRO])
def test_no_service_loses_rows_of_logs_with_older_names(name: str, service: str, tmp_path: Path) -> None:
    """A plan has only the names of logs. Those of version 6 do not say whose blocks count."""
    table = raised(
        name, tmp_path, **{"pyhudi.metadata.remove_unkept": "true", "hoodie.compact.inline.max.delta.commits": "1"}
    )
    before = rows(table.scan(meta=False).to_arrow())
    for _ in range(2):
        getattr(table, service).run()
        assert rows(table.scan(meta=False).to_arrow()) == before
    table.upsert(table.scan(meta=False).to_arrow().slice(0, 20))
    getattr(table, service).run()
    assert rows(table.scan(meta=False).to_arrow()) == before


# --- commits that only the old timeline has


def leave_behind(table: hudi.HudiTable, place: Path, *, pending: bool) -> tuple[str, list[Path]]:
    """Move the newest commit back to the old timeline, as if an old release had written it and Hudi's upgrade had not been able to read it. Its pending
    files may have been moved. Old releases name a log by the base file below it.
    """
    folder = place / ".hoodie" / "timeline"
    [*_, instant] = table.timeline.commits
    time, action = instant.requested_time, str(instant.action)
    completed = folder / f"{time}_{instant.completion_time}.{action}"
    record = decode_record(completed.read_bytes(), "HoodieCommitMetadata", path="")
    old = place / ".hoodie" / f"{time}.{action}"
    old.write_text(json.dumps(record))
    completed.unlink()
    for file in [] if pending else folder.glob(f"{time}.*"):
        file.rename(place / ".hoodie" / file.name)
    for inflight in folder.glob(f"{time}*.inflight"):
        inflight.write_bytes(b"")  # without our mark
    for log in list(place.glob(f"*/.*_{time}.log.*")):
        file_id = log.name.partition("_")[0][1:]
        base = max(file.stem.rpartition("_")[2] for file in log.parent.glob(f"{file_id}_*.parquet"))
        named = log.name.replace(time, base).replace(".log.1_", ".log.7_")
        old.write_text(old.read_text().replace(log.name, named))
        log.rename(log.parent / named)
    shutil.rmtree(place / ".hoodie" / ".aux" / ".pyhudi")  # Hudi has no commit record, which would have its bytes
    return time, [old, *(place / ".hoodie").glob(f"{time}.*")]


def table_of_hudi(place: Path, kind: str, **options: str) -> hudi.HudiTable:
    """A table that says that it was raised from version 6, with two commits that are on its timeline."""
    data = pa.table({"id": [f"k{n}" for n in range(6)], "day": ["a", "b"] * 3, "ts": [1] * 6})
    table = hudi.create_table(str(place), data.schema, "id", "day", "ts", kind, options=options)
    table.insert(data)
    table.upsert(data.slice(0, 2))
    file = place / ".hoodie" / "hoodie.properties"
    file.write_text(file.read_text().replace("hoodie.table.initial.version=8", "hoodie.table.initial.version=6"))
    return hudi.open_table(str(place))


NEW_ROWS = pa.table({"id": ["k1", "n1", "n2"], "day": ["b", "a", "c"], "ts": [5, 5, 5]})


@pytest.mark.parametrize("indexed", ["true", "false"])
@pytest.mark.parametrize("pending", [True, False])
@pytest.mark.parametrize("kind", ["copy_on_write", "merge_on_read"])
def test_a_commit_that_was_left_behind_is_taken_over(kind: str, pending: bool, indexed: str, tmp_path: Path) -> None:
    table = table_of_hudi(tmp_path, kind, **{"hoodie.metadata.enable": indexed})
    before = rows(table.scan(meta=False).to_arrow())
    table.upsert(NEW_ROWS)
    expected = rows(table.scan(meta=False).to_arrow())
    point = table.timeline.commits[-2].completion_time
    time, files = leave_behind(table, tmp_path, pending=pending)
    table = hudi.open_table(str(tmp_path))
    if pending and indexed == "true":
        with pytest.raises(CorruptTimelineError, match="The completed file of a commit is lost"):
            table.scan()
    else:
        assert rows(table.scan(meta=False).to_arrow()) == before
    [found] = [one for one in table.check().findings if one.kind == "written_by_old_release"]
    assert "pyhudi upgrade" in found.what_to_do
    planned = table.upgrade.plan(8)
    assert [one.requested_time for one in planned.taken_over] == [time]
    assert "take 1 commits over" in str(planned)
    done = table.upgrade(8)
    assert (done.taken_over, done.left) == (1, "")
    assert not any(file.exists() for file in files)
    for found in (table, hudi.open_table(str(tmp_path))):
        assert rows(found.scan(meta=False).to_arrow()) == expected
    assert set(table.incremental(after=point).to_arrow()["_hoodie_commit_time"].to_pylist()) == {time}
    assert bool(table.config.metadata_partitions) == (indexed == "true")
    assert [f for f in table.check(keys=True).findings if f.severity == "error"] == []
    assert not table.upgrade(8)
    table.upsert(NEW_ROWS)
    if kind == "merge_on_read":
        table.compaction.run()
    assert rows(table.scan(meta=False).to_arrow()) == expected


WHY_NOT = {
    "its file group was written since": lambda table, place: table.upsert(NEW_ROWS.slice(0, 1)),
    "keys are in other file groups": lambda table, place: table.insert(NEW_ROWS.slice(1, 2)),
    "a file of it is gone": lambda table, place: [file.unlink() for file in place.glob("day=c/*.parquet")],
    "its file cannot be read": lambda table, place: [f.write_text("{") for f in (place / ".hoodie").glob("2*commit")],
}


@pytest.mark.parametrize("why", WHY_NOT)
def test_a_commit_that_was_left_behind_stays_if_it_cannot_be_taken_over_rightly(why: str, tmp_path: Path) -> None:
    table = table_of_hudi(tmp_path, "copy_on_write", **{"hoodie.metadata.enable": "false"})
    table.upsert(NEW_ROWS)
    leave_behind(table, tmp_path, pending=False)
    table = hudi.open_table(str(tmp_path), options={"hoodie.parquet.small.file.limit": "0"})
    WHY_NOT[why](table, tmp_path)
    before, held = rows(table.scan(meta=False).to_arrow()), contents(str(tmp_path))
    planned = table.upgrade.plan(8)
    assert not planned
    assert why in planned.why_not
    done = table.upgrade(8)
    assert not done
    assert why in done.why_not
    assert (rows(table.scan(meta=False).to_arrow()), contents(str(tmp_path))) == (before, held)
    assert [f.kind for f in table.check().findings if f.kind == "written_by_old_release"]
