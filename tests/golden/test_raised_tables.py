"""Tables that Hudi 1.2.0 raised from version 6: their logs and archived files keep names of version 6, and no row of them is lost.

``raised/<table>`` has the table, the times of its commits, and what Hudi reads from it. Hudi hides nine rows below a pending compaction; those are
compared with what 0.15.0 read before the upgrade.
"""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pyhudi as hudi

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
