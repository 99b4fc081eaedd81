"""Erased keys are in no base file, log, index or commit any more, a report with digests says so, and who needs older files refuses it by name."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner
from support.disk import contents
from support.metadata_tables import assert_metadata_is_true, build
from support.tables import archive_all_but_the_newest, make, orders, reopen, rows

import pyhudi_core as hudi
from pyhudi_core.cli.main import main
from pyhudi_core.errors import CommitAbortedError, ErasureRefusedError, InvalidOptionError, UnsupportedTableError
from pyhudi_core.formats.log.blocks import BlockType, Header, encode_block
from pyhudi_core.formats.log.contents import DeleteRecord, write_deletes
from pyhudi_core.metadata_table import names
from pyhudi_core.model.properties import TableType

SCHEMA = pa.schema([("id", pa.string()), ("day", pa.string()), ("name", pa.string())])
SECRET = "aaa-person-4711"
"""The lowest key, so that it is the end of key ranges, too."""
OTHER = "zzz-person-1234"


def people(*given: tuple[str, str, str]) -> pa.Table:
    return pa.table([list(column) for column in zip(*given, strict=True)], schema=SCHEMA)


def keys(*texts: str) -> pa.Table:
    return pa.table({"id": pa.array(texts, pa.string())})


def holding(table: hudi.HudiTable, text: str) -> list[str]:
    """The files of the disk whose bytes hold the text as they are: an independent look, where files are not compressed."""
    return [path for path, data in contents(table.location).items() if data is not None and text.encode() in data]


@pytest.fixture(params=["COPY_ON_WRITE", "MERGE_ON_READ"])
def table(request: pytest.FixtureRequest, location: str) -> hudi.HudiTable:
    """Two partitions with older slices, logs and a metadata table, in which the keys are many times."""
    made = make(
        location, SCHEMA, table_type=request.param, options={"hoodie.parquet.compression.codec": "uncompressed"}
    )
    made = reopen(made, hoodie__parquet__compression__codec="uncompressed", hoodie__logfile__data__block__format="avro")
    made.upsert(people((SECRET, "a", "1"), ("bbb", "a", "1"), (OTHER, "b", "1"), ("ccc", "b", "1")))
    build(made)
    made = reopen(made, **{key.replace(".", "__"): value for key, value in made._opened.options.items()})
    for number in "234":
        made.upsert(people((SECRET, "a", number), (OTHER, "b", number)))
    return made


@pytest.mark.one_in(2)
@pytest.mark.row("U9")
def test_no_file_holds_an_erased_key_and_the_report_says_so(table: hudi.HudiTable) -> None:
    there = contents(table.location)
    plan = table.erasure.plan(keys(SECRET))
    assert contents(table.location) == there, "a plan changes nothing"
    assert (plan.figures["keys"], plan.rows) == (1, 1)
    assert plan.figures["holders"] >= 4
    assert not plan.refused_by
    assert holding(table, SECRET), "the look at the bytes finds it before"
    report = table.erasure.run(keys(SECRET))
    assert report, report.proof
    assert holding(table, SECRET) == []
    assert holding(table, OTHER), "and still finds the others"
    table = reopen(table)
    assert rows(table, "id", "name") == [("bbb", "1"), ("ccc", "1"), (OTHER, "4")]
    assert table.check().ok
    assert_metadata_is_true(table)
    assert set(report.gone) <= set(plan.holders)
    assert len(report.instants) >= 2
    assert table.erasure.verify(keys(SECRET))
    left = table.erasure.verify(keys(OTHER))
    assert not left
    assert any(path.startswith("day=b/") for path in left.found)


@pytest.mark.one_in(2, first=1)
@pytest.mark.row("U9")
def test_indexes_that_users_defined_are_made_anew_without_the_keys(table: hudi.HudiTable) -> None:
    table.indexes.create("by_name", ["name"])
    table.indexes.create("lower", ["name"], using="column_stats", options={"expr": "lower"})
    table.upsert(people((SECRET, "a", "5")))
    plan = table.erasure.plan(keys(SECRET))
    assert any("secondary_index_by_name/" in path for path in plan.holders)
    assert not plan.refused_by
    assert table.erasure.run(keys(SECRET))
    assert table.erasure.verify(keys(SECRET))
    assert holding(table, SECRET) == []
    table = reopen(table)
    assert {"secondary_index_by_name", "expr_index_lower"} <= set(table.config.metadata_partitions)
    assert_metadata_is_true(table)
    found = table.lookup(pa.table({"name": ["1"]}), index="by_name").to_arrow()
    assert sorted(found.column("id").to_pylist()) == ["bbb", "ccc"]


@pytest.mark.row("U9")
def test_keys_with_signs_that_secondary_indexes_escape_are_found_there(location: str) -> None:
    escaped = ("key-00001", "a$b", "key$0000001", "back\\slash", "b\\$", "nul\0-and-$-more")
    table = make(location, SCHEMA)
    table.upsert(people(*((key, "a", "in $5\\") for key in escaped), ("other", "a", "1")))
    build(table)
    table.indexes.create("by_name", ["name"])
    for key in escaped:
        assert any("/secondary_index_by_name/" in path for path in table.erasure.verify(keys(key)).found), key
    assert not table.erasure.verify(keys("b", "5", "$", "in $5\\")).found
    assert table.erasure.run(keys(*escaped))
    assert not reopen(table).erasure.verify(keys("other"))


@pytest.mark.row("U9")
def test_a_log_is_found_by_the_keys_of_its_rows_and_of_its_deletes_and_by_no_other(location: str) -> None:
    table = make(location, SCHEMA, table_type="MERGE_ON_READ")
    table.upsert(people((SECRET, "a", "1"), (OTHER, "a", "1")))
    for change in (lambda: table.upsert(people((SECRET, "a", "2"))), lambda: table.delete(people((OTHER, "a", "")))):
        change()
    of_rows, of_deletes = sorted(path for path in contents(location) if ".log." in path)
    damaged = Path(location, of_rows.replace(".log.1_", ".log.9_"))
    damaged.write_bytes(
        encode_block(BlockType.COMMAND, {Header.INSTANT_TIME: "1", Header.COMMAND_BLOCK_TYPE: "0"}, b"")
    )
    for key, log in ((SECRET, of_rows), (OTHER, of_deletes)):
        proof = table.erasure.verify(keys(key))
        assert [path for path in proof.found if ".log." in path] == [log], "a log without entries holds no key"
        assert not proof.unread


@pytest.mark.one_in(2)
@pytest.mark.row("U9")
def test_the_report_has_the_digest_of_every_file_and_no_key(table: hudi.HudiTable) -> None:
    report = table.erasure.run(keys(SECRET, OTHER, "never-there"))
    assert (report.keys, report.rows) == (3, 2)
    found = json.loads(report.to_json())
    assert SECRET not in report.to_json()
    assert (
        found["keys_sha256"] == hashlib.sha256("\n".join(sorted([SECRET, OTHER, "never-there"])).encode()).hexdigest()
    )
    for file in found["proof"]["files"]:
        data = Path(table.location, file["path"]).read_bytes()
        assert (file["bytes"], file["sha256"]) == (len(data), hashlib.sha256(data).hexdigest())
    rest = {name: value for name, value in found.items() if name != "sha256"}
    assert hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest() == found["sha256"]


@pytest.mark.one_in(2, first=1)
@pytest.mark.row("U9")
def test_keys_that_were_deleted_long_ago_are_erased_from_older_slices(table: hudi.HudiTable) -> None:
    table.delete(pa.table({"id": [SECRET], "day": ["a"]}))
    plan = table.erasure.plan(keys(SECRET))
    assert plan.rows == 0
    assert plan
    report = table.erasure.run(keys(SECRET))
    assert report, report.proof
    assert holding(table, SECRET) == []
    again = table.erasure.run(keys(SECRET))
    assert again.proof
    assert again.instants == ()


@pytest.mark.one_in(3)
@pytest.mark.row("U9")
@pytest.mark.parametrize("what", ["savepoint", "readers", "pending", "index"])
def test_who_needs_older_files_refuses_it_by_name(table: hudi.HudiTable, what: str) -> None:
    if what == "savepoint":
        named = f"savepoint {table.savepoints.create(table.timeline.commits[1]).instant}"
    elif what == "readers":
        table, named = reopen(table, pyhudi__clean__keep__seconds=60), "readers of the last 60 seconds"
    elif what == "index":
        table.indexes.create("by_name", ["name"])
        [path] = Path(table.location, ".hoodie/.index_defs").glob("*.json")
        path.write_text(path.read_text().replace('"secondary_index"', '"of_tomorrow"'))
        table, named = reopen(table), "index secondary_index_by_name is of type of_tomorrow"
    else:
        write = reopen(table).begin("upsert")
        write.__enter__()
        write.write(people(("ddd", "d", "1")))
        named = f"pending {'deltacommit' if 'MERGE' in str(table.config.table_type) else 'commit'} {write.instant}"
    before = contents(table.location)
    assert any(named in why for why in table.erasure.plan(keys(SECRET)).refused_by)
    ways = {
        "savepoint": "Delete the savepoint",
        "readers": "Set pyhudi.clean",
        "pending": "Let the",
        "index": "Drop the",
    }
    with pytest.raises(ErasureRefusedError, match=rf"(?s){named}.*{ways[what]}"):
        table.erasure.run(keys(SECRET))
    assert {k: v for k, v in contents(table.location).items() if "heartbeat" not in k} == {
        k: v for k, v in before.items() if "heartbeat" not in k
    }
    if what == "savepoint":
        assert table.erasure.plan(keys("nobody")).refused_by == ()


def test_a_proof_counts_active_and_archived_commits(location: str) -> None:
    table = make(location)
    archive_all_but_the_newest(table, orders((1, "a", 1.0)))
    proof = table.erasure.verify(pa.table({"id": [2]}))
    archived = len(list(table.archived_commits()))
    assert archived > 1
    assert proof.instants == archived + len(table.timeline.completed.commits)
    assert f" and {proof.instants} commits" in str(proof)


@pytest.mark.one_in(2, first=1)
@pytest.mark.row("U9")
def test_what_is_left_is_reported_and_nothing_is_called_proved(table: hudi.HudiTable) -> None:
    # As by a program that put the key into a commit.
    table.upsert(people(("eee", "a", "1")), extra_metadata={"note": f"for {SECRET}"})
    report = table.erasure.run(keys(SECRET))
    assert not report
    assert [place.split()[0] for place in report.proof.found] in (["commit"], ["deltacommit"])
    damaged = next(Path(table.location).glob("day=b/*.parquet"))
    damaged.write_bytes(b"not a Parquet file")
    proof = table.erasure.verify(keys("nobody"))
    assert not proof
    assert damaged.name in proof.unread[0]


@pytest.mark.one_in(2)
@pytest.mark.row("U9")
@pytest.mark.parametrize("whole", [False, True], ids=["partition", "table"])
def test_a_backup_of_the_metadata_table_that_hudi_left_keeps_the_keys_until_somebody_removes_it(
    table: hudi.HudiTable, whole: bool
) -> None:
    # As a restore or an upgrade of Hudi leaves it: a renamed folder of a partition, or of all of it with its own timeline.
    folder = ".metadata_20260101000000000" if whole else ".metadata_record_index_20260101000000000"
    backup = Path(table.location, ".hoodie", folder)
    shutil.copytree(Path(table.location, ".hoodie/metadata", "" if whole else "record_index"), backup)
    report = table.erasure.run(keys(SECRET))
    assert not report
    assert {path.split("/")[1] for path in report.proof.found} == {folder}
    assert {file.path for file in report.proof.files} >= {*report.proof.found}
    [advice] = report.proof.advice
    assert f".hoodie/{folder}" in advice and "by hand" in advice
    assert advice in str(report)
    shutil.rmtree(backup)
    proof = reopen(table).erasure.verify(keys(SECRET))
    assert proof, proof
    assert not proof.advice


def delete_log(*deleted: str) -> bytes:
    """A log of the metadata table that has nothing but deletes."""
    content = write_deletes(DeleteRecord(key, "record_index", 0, "IntWrapper") for key in deleted)
    return encode_block(BlockType.DELETE, {Header.INSTANT_TIME: "20260101000000000"}, content)


@pytest.mark.row("U9")
@pytest.mark.parametrize("kept_in", ["metadata", ".metadata_{}_20260101000000000"])
def test_deletes_in_logs_of_the_metadata_table_are_keys_that_are_kept(location: str, kept_in: str) -> None:
    table = make(location, SCHEMA)
    table.upsert(people(("bbb", "a", "1")))
    build(table)
    own = "record_index", "secondary_index_by_name"
    for name, key in zip(own, ("k1", names.secondary_key("a name", "k$2")), strict=True):
        folder = Path(location, ".hoodie", kept_in.format(name), *([name] if kept_in == "metadata" else []))
        folder.mkdir(exist_ok=True)
        (folder / f".{name.replace('_', '-')}-0000-0_20260101000000000.log.1_0-0-0").write_bytes(delete_log(key))
    table = reopen(table)
    for key, name in zip(("k1", "k$2"), own, strict=True):
        proof = table.erasure.verify(keys(key))
        assert [name in path for path in proof.found] == [True], (key, proof)
    assert not table.erasure.verify(keys("k2", "name")).found
    [advice] = table.erasure.verify(keys("k1", "k$2")).advice[:1]
    if kept_in == "metadata":
        assert "pyhudi metadata LOCATION rebuild" in advice
        assert table.metadata_table.rebuild()
        assert reopen(table).erasure.verify(keys("k1", "k$2"))
    else:
        assert "by hand" in advice


@pytest.mark.row("U9")
def test_a_metadata_table_that_is_not_listed_is_examined_too(location: str) -> None:
    table = make(location, SCHEMA)
    table.upsert(people((SECRET, "a", "1"), ("bbb", "a", "1")))
    build(table)
    folder = Path(location, ".hoodie/metadata")
    shutil.copytree(folder, Path(location, "kept"))
    assert table.metadata_table.drop()
    shutil.move(Path(location, "kept"), folder)
    report = reopen(table).erasure.run(keys(SECRET))
    assert not report
    assert all(path.startswith(".hoodie/metadata/") for path in report.proof.found), report.proof
    [advice] = report.proof.advice
    assert "pyhudi metadata LOCATION rebuild" in advice
    assert reopen(table).metadata_table.rebuild()
    assert reopen(table).erasure.verify(keys(SECRET))


@pytest.mark.row("U9")
def test_a_damaged_log_of_the_metadata_table_proves_nothing(location: str) -> None:
    table = make(location, SCHEMA)
    table.upsert(people(("bbb", "a", "1")))
    build(table)
    log = Path(location, ".hoodie/metadata/record_index/.record-index-0000-0_20260101000000000.log.1_0-0-0")
    log.write_bytes(delete_log("k1")[:-9])
    [unread] = reopen(table).erasure.verify(keys("k1")).unread
    assert log.name in unread


@pytest.mark.one_in(2)
def test_a_gate_that_says_no_erases_nothing(table: hudi.HudiTable) -> None:
    before = contents(table.location)
    with pytest.raises(CommitAbortedError):
        table.erasure.run(keys(SECRET), gate=lambda: False)
    assert contents(table.location) == before


@pytest.mark.one_in(2)
def test_the_gate_is_asked_before_each_step_and_the_last_one_can_be_refused(table: hudi.HudiTable) -> None:
    def pending() -> str:
        return ",".join(str(instant.action) for instant in reopen(table).timeline.pending)

    merges = table.config.table_type is TableType.MERGE_ON_READ
    # First for the whole, then for the writes of dead processes.
    steps = ["", "", *(["deltacommit", "compaction"] if merges else ["commit"]), "clean", ""]
    asked: list[str] = []

    def gate() -> bool:
        asked.append(pending())
        return len(asked) < len(steps)

    with pytest.raises(CommitAbortedError, match="to make the metadata table anew"):
        table.erasure.run(keys(SECRET), gate=gate, extra_metadata={"who": "me"})
    assert asked == steps
    table = reopen(table)
    assert not table.erasure.verify(keys(SECRET))
    assert_metadata_is_true(table)
    written = table.timeline.commits[-2:] if merges else table.timeline.commits[-1:]
    assert [table.commit_metadata(instant).extra["who"] for instant in written] == ["me"] * len(written)
    assert table.erasure.run(keys(SECRET))


def test_tables_and_keys_that_do_not_fit_are_refused(location: str, tmp_path: Path) -> None:
    cdc = make(location, options={"hoodie.table.cdc.enabled": "true"})
    with pytest.raises(UnsupportedTableError, match="change logs"):
        cdc.erasure.plan(pa.table({"id": [1]}))
    plain = make(str(tmp_path / "plain"))
    plain.upsert(orders((1, "a", 1.0)))
    with pytest.raises(InvalidOptionError, match="need rows and the columns id"):
        plain.erasure.plan(pa.table({"day": ["a"]}))


def test_the_command_erases_and_says_by_its_exit_code_what_is_left(location: str) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0), (2, "a", 2.0)))
    table.upsert(orders((1, "a", 1.5)))
    run = CliRunner().invoke
    assert json.loads(run(main, ["erase", location, "--key", "1", "--plan", "--json"]).output)["figures"]["rows"] == 1
    assert run(main, ["erase", location, "--key", "1", "--verify"]).exit_code == 1
    done = run(main, ["erase", location, "--key", "1", "--json"])
    assert (done.exit_code, json.loads(done.output)["complete"]) == (0, True)
    assert run(main, ["erase", location, "--key", "1", "--verify"]).exit_code == 0
    assert rows(table, "id") == [(2,)]
    assert run(main, ["erase", location, "--key", "x"]).exit_code == 2
