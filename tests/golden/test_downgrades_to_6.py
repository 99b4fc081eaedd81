"""Tables of versions 8 and 9 that are lowered to version 6: no row changes, and what version 6 cannot have is refused by name."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from support.disk import contents
from support.golden import FIXTURES, OTHER_VERSIONS, by_key, unpack

import pyhudi_core as hudi
from pyhudi_core.errors import SnapshotExpiredError, TableVersionError, UnsupportedTableError
from pyhudi_core.services.versions import lowering_eight
from pyhudi_core.timeline.layout_one.archived_logs import ArchivedLogs

COPY_ON_WRITE = ["hudi-1.0.2/cow_indexed", "hudi-1.0.2/cow_cdc_data_before_after", "hudi-1.2.0/cow_indexed"]
MERGE_ON_READ = [
    "hudi-1.0.2/mor_avro",
    "hudi-1.0.2/mor_indexed",
    "hudi-1.0.2/mor_payload_partial_update",
    "hudi-1.2.0/mor_v9",
]
RAISED = [
    "hudi-0.15.0/mor_avro",
    "hudi-0.15.0/cow_archived",
    "hudi-0.15.0/mor_rolled_back",
    "hudi-0.15.0/mor_event_payload",
]
ZONE = {"pyhudi.expression.index.timezone": "UTC"}
PLAIN = "hudi-1.0.2/mor_avro"


def root_of(name: str) -> Path:
    return OTHER_VERSIONS if (OTHER_VERSIONS / name).exists() else FIXTURES


def opened(place: Path) -> hudi.HudiTable:
    return hudi.open_table(str(place), {"fsync": "false"}, ZONE)


def state(place: Path) -> pa.Table:
    return opened(place).scan().to_arrow().drop_columns(["_hoodie_file_name"])


def assert_same(found: pa.Table, expected: pa.Table) -> None:
    assert by_key(found, expected) == by_key(expected, expected)


@pytest.mark.parametrize("name", COPY_ON_WRITE)
def test_every_state_of_a_copy_on_write_table_and_every_checkpoint_answers_as_before(name: str, tmp_path: Path) -> None:
    unpack(name, tmp_path, root_of(name))
    times = [str(instant.completion_time) for instant in opened(tmp_path).timeline.commits]

    def answers() -> list[pa.Table]:
        table = opened(tmp_path)
        states = [table.scan(as_of=time).to_arrow() for time in times]
        return [*states, *(table.incremental(after=time).to_arrow() for time in times)]

    before = answers()
    assert opened(tmp_path).downgrade(6)
    assert opened(tmp_path).config.version == 6
    for found, expected in zip(answers(), before, strict=True):
        assert_same(found, expected)


@pytest.mark.parametrize("name", [*MERGE_ON_READ, *RAISED])
def test_no_row_of_a_table_changes_and_it_can_be_raised_again(name: str, tmp_path: Path) -> None:
    unpack(name, tmp_path, root_of(name))
    if opened(tmp_path).config.version == 6:
        opened(tmp_path).upgrade(8)
    before = state(tmp_path)
    assert opened(tmp_path).downgrade.plan(6)
    assert opened(tmp_path).downgrade(6).to == 6
    assert_same(state(tmp_path), before)
    assert not [
        info for info in tmp_path.rglob(".*.log.*") if not info.name.endswith(".cdc") and ".hoodie" not in info.parts
    ]
    assert not [finding for finding in opened(tmp_path).check().findings if finding.severity == "error"]
    opened(tmp_path).upgrade(8)
    assert_same(state(tmp_path), before)
    table = opened(tmp_path)
    table.upsert(table.scan(meta=False).to_arrow().slice(0, 1))
    assert table.scan().count() == before.num_rows


def test_states_of_merge_on_read_tables_before_the_downgrade_expire(tmp_path: Path) -> None:
    table = opened(unpack(PLAIN, tmp_path, FIXTURES))
    first = table.timeline.commits[0].completion_time
    assert "remove 9 logs" in str(table.downgrade.plan(6))
    table.downgrade(6)
    with pytest.raises(SnapshotExpiredError):
        opened(tmp_path).scan(as_of=first).to_arrow()


def test_the_archived_instants_are_in_log_files_once(tmp_path: Path) -> None:
    name = "hudi-0.15.0/cow_archived"
    table = opened(unpack(name, tmp_path, OTHER_VERSIONS))
    archived = ArchivedLogs(table._opened.storage, ".hoodie/archived").all_rows()
    table.upgrade(8)
    for file in (tmp_path / ".hoodie" / "archived").iterdir():
        file.unlink()
    assert opened(tmp_path).downgrade(6).archived == len(archived)
    found = ArchivedLogs(opened(tmp_path)._opened.storage, ".hoodie/archived").all_rows()
    assert {*found} == {*archived}
    assert all(found[key].metadata == archived[key].metadata for key in archived)
    opened(tmp_path).upgrade(8)
    assert opened(tmp_path).downgrade(6).archived == 0


def test_the_old_timeline_goes_and_the_properties_are_those_of_version_6(tmp_path: Path) -> None:
    opened(unpack(PLAIN, tmp_path, FIXTURES)).downgrade(6)
    left = [path for path in (tmp_path / ".hoodie" / "timeline").rglob("*") if path.is_file()]
    assert [(path.name, path.read_bytes()) for path in left] == [("pyhudi.lowered", b"")]
    config = opened(tmp_path).config.raw
    assert config["hoodie.timeline.layout.version"] == "1"
    assert config["hoodie.table.keygenerator.class"].startswith("org.apache.hudi.keygen.")
    assert config["hoodie.compaction.payload.class"]
    later = (
        "hoodie.record.merge.mode",
        "hoodie.table.initial.version",
        "hoodie.timeline.path",
        "hoodie.table.metadata.partitions",
    )
    assert not [key for key in later if config.get(key)]
    assert not (tmp_path / ".hoodie" / "metadata").exists()
    commit = json.loads(max((tmp_path / ".hoodie").glob("*.commit")).read_bytes())
    assert commit["operationType"] == "COMPACT"
    assert "version" not in commit


def test_a_read_that_began_before_ends_with_an_error_or_with_the_rows(tmp_path: Path) -> None:
    table = opened(unpack(PLAIN, tmp_path, FIXTURES))
    context = table._opened.context()
    opened(tmp_path).downgrade(6)
    with pytest.raises(SnapshotExpiredError, match="got version 6 after this began"):
        context.folder.load()
    assert table.scan().count() == 113


def test_a_write_that_began_before_is_refused(tmp_path: Path) -> None:
    table = opened(unpack("hudi-1.0.2/cow_indexed", tmp_path, FIXTURES))
    rows = table.scan(meta=False).to_arrow().slice(0, 1)
    write = table.begin()
    before = state(tmp_path)
    with write:
        write.write(rows)
        with pytest.raises(UnsupportedTableError, match="a writer is alive|is pending"):
            opened(tmp_path).downgrade(6)
    opened(tmp_path).downgrade(6)
    assert_same(state(tmp_path), before)
    with pytest.raises(TableVersionError):
        table.upsert(rows)


def test_a_downgrade_that_died_before_its_end_is_ended_by_the_next_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = opened(unpack(PLAIN, tmp_path, FIXTURES))
    before = state(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(lowering_eight, "end", lambda _: 0)
        table.downgrade(6)
    assert_same(state(tmp_path), before)
    plan = opened(tmp_path).downgrade.plan(6)
    assert plan.files
    assert opened(tmp_path).downgrade(6).files == plan.files
    assert not opened(tmp_path).downgrade(6)
    assert_same(state(tmp_path), before)


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        ("hoodie.table.precombine.field", "ts,label", "2 columns order its rows"),
        ("hoodie.bootstrap.base.path", "/rows", "the rows of the table are in another folder"),
        ("hoodie.table.keygenerator.type", "CUSTOM", "does not say how that makes the folders"),
        ("hoodie.table.multiple.base.file.formats.enable", "true", "base files of several formats"),
        ("hoodie.record.merge.mode", "CUSTOM", "its rows are merged by"),
    ],
)  # fmt: skip
def test_a_table_that_version_6_cannot_say_is_refused(key: str, value: str, why: str, tmp_path: Path) -> None:
    unpack(PLAIN, tmp_path, FIXTURES)
    file = tmp_path / ".hoodie" / "hoodie.properties"
    gone = (key, "hoodie.compaction.payload.class") if value == "CUSTOM" else (key,)
    lines = [line for line in file.read_text().splitlines() if line.partition("=")[0] not in gone]
    file.write_text("\n".join([*lines, f"{key}={value}"]) + "\n")
    before = contents(str(tmp_path))
    assert why in opened(tmp_path).downgrade.plan(6).why_not
    with pytest.raises(UnsupportedTableError, match=why):
        opened(tmp_path).downgrade(6)
    assert contents(str(tmp_path)) == before


def test_a_savepoint_that_keeps_logs_stops_the_downgrade(tmp_path: Path) -> None:
    table = opened(unpack(PLAIN, tmp_path, FIXTURES))
    before = state(tmp_path)
    table.savepoints.create()
    with pytest.raises(UnsupportedTableError, match="which 0.15 would misread"):
        table.downgrade(6)
    assert opened(tmp_path).config.version == 8
    assert_same(state(tmp_path), before)


def without_nulls(value: object) -> object:
    """A commit without what says nothing: nulls, and statistics of columns of logs, which no reader needs."""
    if isinstance(value, dict):
        kept = {key: without_nulls(one) for key, one in value.items() if one is not None and key != "recordsStats"}
        return {key: one for key, one in kept.items() if one not in ({}, [])}
    return [without_nulls(one) for one in value] if isinstance(value, list) else value


@pytest.mark.parametrize("name", ["hudi-0.15.0/cow_archived", "hudi-0.15.0/cow_cdc", "hudi-0.15.0/mor_event_payload"])
def test_a_table_of_hudi_0_15_gets_its_files_back(name: str, tmp_path: Path) -> None:
    """After an upgrade and a downgrade every file of the timeline has its name, and says what Hudi 0.15 had written there."""
    unpack(name, tmp_path, OTHER_VERSIONS)
    folder = tmp_path / ".hoodie"
    before = {path.name: path.read_bytes() for path in folder.glob("2*")}
    opened(tmp_path).upgrade(8)
    opened(tmp_path).downgrade(6)
    for file, body in before.items():
        found = (folder / file).read_bytes()
        if body.startswith(b"{"):
            assert without_nulls(json.loads(found)) == without_nulls(json.loads(body)), file
        else:
            assert found == body, file
