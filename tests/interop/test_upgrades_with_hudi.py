"""Tables whose version we changed: raised from 6, Hudi 1.0.2 continues them in version 8, and 1.2.0 in 9; lowered, 1.0.2 and 0.15.0 continue them."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pyarrow as pa
import pytest
from support.golden import FIXTURES, OTHER_VERSIONS, by_key, unpack

import pyhudi_core as hudi
from pyhudi_core.errors import TableVersionError
from pyhudi_core.model.merge_mode import OLDER_LAW

from .judges import META_COLUMNS, JudgeProcess, Judges

TABLES = ("mor_avro", "cow_archived", "cow_plain", "mor_event_payload", "mor_rolled_back")
LOWERED = {"mor_v9": FIXTURES, "cow_indexed": OTHER_VERSIONS}
VERSIONS = {"1.0.2": 8, "1.2.0": 9}


@pytest.fixture(scope="module", params=VERSIONS)
def judge(request: pytest.FixtureRequest, judges: Judges) -> JudgeProcess:
    return judges(request.param)


def assert_same(found: pa.Table, expected: pa.Table) -> None:
    like = expected.drop_columns(["_hoodie_file_name"])
    assert by_key(found, like) == by_key(like, like)


def goes_on_with(judge: JudgeProcess, table: hudi.HudiTable, place: Path) -> None:
    """Hudi reads what we upsert, and upserts what we read, without a change of the version."""
    version, count = table.config.version, table.scan().count()
    rows = table.scan(meta=False).to_arrow().slice(0, 3)
    ts = rows.schema.get_field_index("ts")
    newer = [rows.set_column(ts, "ts", pa.array([10**6 + n] * 3, rows.schema.field("ts").type)) for n in range(3)]
    table.upsert(newer[0])
    assert_same(judge.read(place), table.scan().to_arrow())
    config = table.config
    options = {
        "hoodie.table.name": config.name,
        "hoodie.datasource.write.recordkey.field": ",".join(config.record_key_fields),
        "hoodie.datasource.write.partitionpath.field": ",".join(config.partition_fields),
        "hoodie.write.auto.upgrade": "false",
        "hoodie.write.table.version": str(version),
    }
    judge.write(place, newer[1], "upsert", **options)
    found = hudi.open_table(str(place))
    assert (found.config.version, found.scan().count()) == (version, count)
    assert_same(judge.read(place), found.scan().to_arrow())
    found.upsert(newer[2])
    assert_same(judge.read(place), found.scan().to_arrow())
    newest = found.scan(meta=False).to_arrow().select(rows.column_names).to_pylist()
    assert all(row in newest for row in newer[2].to_pylist())


@pytest.mark.slow
@pytest.mark.row("Q2", "J4")
@pytest.mark.parametrize("name", TABLES)
def test_hudi_reads_and_continues_a_table_that_was_raised_from_version_6(
    name: str, judge: JudgeProcess, tmp_path: Path
) -> None:
    table = hudi.open_table(unpack(f"hudi-0.15.0/{name}", tmp_path, OTHER_VERSIONS))
    before = table.scan().to_arrow()
    table.upgrade(VERSIONS[judge.release])
    assert table.config.version == VERSIONS[judge.release]
    assert_same(judge.read(tmp_path), before)
    goes_on_with(judge, table, tmp_path)


@pytest.mark.slow
@pytest.mark.row("Q2", "J4")
@pytest.mark.parametrize("judge", ["1.0.2"], indirect=True)
@pytest.mark.parametrize("name", LOWERED)
def test_hudi_1_0_reads_and_continues_a_table_that_was_lowered_from_version_9(
    name: str, judge: JudgeProcess, tmp_path: Path
) -> None:
    zone = {"pyhudi.expression.index.timezone": "UTC"}
    table = hudi.open_table(unpack(f"hudi-1.2.0/{name}", tmp_path, LOWERED[name]), options=zone)
    before = table.scan().to_arrow()
    table.downgrade(8)
    assert_same(judge.read(tmp_path), before)
    goes_on_with(judge, table, tmp_path)


TO_6 = {
    "hudi-1.0.2/mor_avro": FIXTURES,
    "hudi-1.0.2/cow_indexed": FIXTURES,
    "hudi-1.0.2/mor_payload_partial_update": FIXTURES,
    "hudi-0.15.0/cow_archived": OTHER_VERSIONS,
    "hudi-0.15.0/mor_avro": OTHER_VERSIONS,
    "hudi-1.2.0/mor_v9": FIXTURES,
}


@pytest.mark.slow
@pytest.mark.row("Q2", "J4")
@pytest.mark.parametrize("judge", ["0.15.0"], indirect=True)
@pytest.mark.parametrize("name", TO_6)
def test_hudi_0_15_reads_and_continues_a_table_that_was_lowered_to_version_6(
    name: str, judge: JudgeProcess, tmp_path: Path
) -> None:
    zone = {"pyhudi.expression.index.timezone": "UTC"}
    table = hudi.open_table(unpack(name, tmp_path, TO_6[name]), options=zone)
    if table.config.version == 6:
        table.upgrade(8)
    before = table.scan().to_arrow()
    table.downgrade(6)
    assert_same(judge.read(tmp_path), before)
    rows = hudi.open_table(str(tmp_path)).scan(meta=False).to_arrow()
    for number in range(3):
        newer = with_ts(rows.slice(number, 3), 10**6 + number)
        hudi_writes(judge, tmp_path, newer)
        found = hudi.open_table(str(tmp_path))
        assert (found.config.version, found.scan().count()) == (6, rows.num_rows)
        assert_same(judge.read(tmp_path), found.scan().to_arrow())
        written = found.scan(meta=False).to_arrow().select(rows.column_names).to_pylist()
        assert all(row in written for row in newer.to_pylist())
    before = found.scan().to_arrow()
    found.upgrade(8)
    assert_same(found.scan().to_arrow(), before)


@pytest.mark.slow
@pytest.mark.row("Q2", "J4")
@pytest.mark.parametrize("name", ["mor_event_payload", "mor_avro", "mor_partial_payload"])
def test_hudi_1_reads_a_table_of_version_6_as_we_do_with_the_option(
    name: str, judge: JudgeProcess, tmp_path: Path
) -> None:
    place = unpack(f"hudi-0.15.0/{name}", tmp_path, OTHER_VERSIONS)
    told = json.loads((OTHER_VERSIONS / f"hudi-0.15.0/{name}/expected.json").read_text())
    for file, changed in told["modified"].items():  # Hudi 1.x takes these times as completion times
        os.utime(tmp_path / file, ns=(changed * 10**6, changed * 10**6))
    table = hudi.open_table(place, options={OLDER_LAW: "1.x"})
    assert_same(judge.read(tmp_path), table.scan().to_arrow())
    for query in told["queries"]:
        if time := query["options"].get("as.of.instant"):
            assert_same(judge.read_as_of(tmp_path, time), table.scan(as_of=time).to_arrow())


@pytest.mark.slow
@pytest.mark.row("Q2", "J4")
def test_a_commit_that_the_upgrade_of_hudi_could_not_read_is_taken_over(judge: JudgeProcess, tmp_path: Path) -> None:
    """Hudi logs that it cannot read a file, and raises the table without it."""
    table = hudi.open_table(unpack("hudi-0.15.0/cow_plain", tmp_path, OTHER_VERSIONS))
    before = table.scan().to_arrow()
    called = f"left_{judge.release.replace('.', '_')}"
    judge.sql(f"CREATE TABLE {called} USING hudi LOCATION '{tmp_path}'")
    newest = max((tmp_path / ".hoodie").glob("*.commit"))
    body = newest.read_bytes()
    newest.write_text("{")
    judge.sql(
        f"CALL upgrade_table(table => '{called}', to_version => '{ {8: 'EIGHT', 9: 'NINE'}[VERSIONS[judge.release]] }')"
    )
    newest.write_bytes(body)
    table = hudi.open_table(str(tmp_path))
    assert table.config.version == VERSIONS[judge.release]
    assert table.scan().count() < before.num_rows
    assert judge.read(tmp_path).num_rows == table.scan().count()
    [told] = [finding for finding in table.check().findings if finding.kind == "written_by_old_release"]
    assert told.instant == newest.name.partition(".")[0]
    assert table.upgrade().taken_over == 1
    assert_same(table.scan().to_arrow(), before)
    assert_same(judge.read(tmp_path), before)
    goes_on_with(judge, table, tmp_path)


OLDER = {3: "THREE", 4: "FOUR", 5: "FIVE"}


@pytest.mark.slow
@pytest.mark.row("Q2", "J4")
@pytest.mark.parametrize("judge", ["0.15.0"], indirect=True)
@pytest.mark.parametrize("name", ["cow_plain", "cow_archived", "mor_avro", "mor_event_payload"])
@pytest.mark.parametrize("version", OLDER)
def test_a_table_that_hudi_0_15_gave_an_older_version_is_read(
    version: int, name: str, judge: JudgeProcess, tmp_path: Path
) -> None:
    """Such a table has all that Hudi changes between 3 and 6; when Hudi writes to it, it has version 6 again, and is raised."""
    table = hudi.open_table(unpack(f"hudi-0.15.0/{name}", tmp_path, OTHER_VERSIONS))
    before = table.scan().to_arrow()
    called = f"{name}_{version}"
    judge.sql(f"CREATE TABLE {called} USING hudi LOCATION '{tmp_path}'")
    judge.sql(f"CALL downgrade_table(table => '{called}', to_version => '{OLDER[version]}')")
    assert table.config.version == version
    assert_same(table.scan().to_arrow(), before)
    assert_same(judge.read(tmp_path), before)
    with pytest.raises(TableVersionError, match=f"version {version}"):
        table.upsert(before)
    assert "raise it to 6 with Hudi 0.15 first" in table.upgrade.plan(8).why_not
    hudi_writes(judge, tmp_path, with_ts(table.scan(meta=False).to_arrow().slice(0, 3), 10**6), upgrades="true")
    assert table.config.version == 6
    before = table.scan().to_arrow()
    assert_same(judge.read(tmp_path), before)
    assert table.upgrade(8)
    assert_same(table.scan().to_arrow(), before)


def with_ts(rows: pa.Table, ts: int) -> pa.Table:
    """The rows with another value to order by."""
    number = rows.schema.get_field_index("ts")
    return rows.set_column(number, "ts", pa.array([ts] * rows.num_rows, rows.schema.field(number).type))


def hudi_writes(judge: JudgeProcess, place: Path, rows: pa.Table, upgrades: str = "false") -> None:
    """An upsert of Hudi, with the options that its users give, in the version that the table has."""
    config = hudi.open_table(str(place)).config
    options = {
        "hoodie.table.name": config.name,
        "hoodie.datasource.write.recordkey.field": ",".join(config.record_key_fields),
        "hoodie.datasource.write.partitionpath.field": ",".join(config.partition_fields),
        "hoodie.datasource.write.precombine.field": ",".join(config.ordering_fields),
        "hoodie.datasource.write.table.type": config.table_type.value,
        "hoodie.write.auto.upgrade": upgrades,
        "hoodie.write.table.version": str(config.version),
    }
    judge.write(place, rows, "upsert", **options)


class Relay:
    """A table that releases hand on, and the rows that it must have: each upsert of three rows wins."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.rows = {row["id"]: row for row in self.table.scan(meta=False).to_arrow().to_pylist()}
        self.ts = 10**6

    @property
    def table(self) -> hudi.HudiTable:
        return hudi.open_table(str(self.place), options={"pyhudi.expression.index.timezone": "UTC"})

    def next_rows(self) -> pa.Table:
        self.ts += 1
        all_rows = self.table.scan(meta=False).to_arrow().sort_by("id")
        newer = with_ts(all_rows.slice(7 * self.ts % (all_rows.num_rows - 3), 3), self.ts)
        self.rows |= {row["id"]: row for row in newer.to_pylist()}
        return newer

    def assert_rows(self, found: pa.Table | None = None) -> None:
        rows = self.table.scan(meta=False).to_arrow() if found is None else found
        names = [name for name in rows.column_names if name not in META_COLUMNS]
        assert {row["id"]: row for row in rows.select(names).to_pylist()} == self.rows
        assert rows.num_rows == len(self.rows)

    def ours(self) -> None:
        self.table.upsert(self.next_rows())
        self.assert_rows()

    def hudi(self, release: str, log: Path) -> None:
        """This release reads the table, writes to it twice and reads it; then we read it."""
        with JudgeProcess(release, log) as judge:
            self.assert_rows(judge.read(self.place))
            for _ in range(2):
                hudi_writes(judge, self.place, self.next_rows())
                self.assert_rows(judge.read(self.place))
        self.assert_rows()


@pytest.mark.slow
@pytest.mark.row("Q2", "J4")
@pytest.mark.parametrize("name", ["hudi-0.15.0/mor_event_payload", "hudi-0.15.0/cow_plain"])
def test_no_row_is_lost_when_a_table_goes_from_release_to_release_and_back_to_0_15(name: str, tmp_path: Path) -> None:
    place, log = tmp_path / "table", tmp_path / "judges.log"
    place.mkdir()
    relay = Relay(Path(unpack(name, place, OTHER_VERSIONS)))
    relay.table.upgrade(8)
    relay.assert_rows()
    relay.ours()
    relay.hudi("1.0.2", log)
    relay.ours()
    relay.table.upgrade(9)
    relay.assert_rows()
    relay.hudi("1.2.0", log)
    relay.ours()
    relay.table.downgrade(6)
    relay.assert_rows()
    relay.hudi("0.15.0", log)
