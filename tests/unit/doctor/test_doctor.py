"""The doctor: read-only, never raises on damage, and its report is a value that prints, renders and goes into JSON."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from support.doctor import WRITES, UnwritableStorage, examine, kinds
from support.golden import FIXTURES, unpack
from support.homes import StandingClock, context_of, home_at, make_at, runtime_with
from support.samples import one_in
from support.tables import make, orders, reopen, rows

import pyhudi_core as hudi
from pyhudi_core.doctor import Area, CheckOptions, FindingKind, Limits, Severity, check
from pyhudi_core.doctor.kinds import USUAL
from pyhudi_core.doctor.read_only import ReadOnlyStorage
from pyhudi_core.errors import StorageError
from pyhudi_core.lock.file_system import FileSystemOptions
from pyhudi_core.model.meta_fields import RECORD_KEY
from pyhudi_core.opening import check_table
from pyhudi_core.storage.base import Storage
from pyhudi_core.storage.local import LocalStorage
from pyhudi_core.storage.memory import MemoryBucket, MemoryStorage

TABLES = sorted(f"{folder.parent.name}/{folder.name}" for folder in FIXTURES.glob("hudi-*/*_*"))


def test_a_healthy_table_is_green_and_everything_was_examined(location: str) -> None:
    table = make(location, ordering="ts")
    table.upsert(orders((1, "a", 1.0, 1), (2, "b", 2.0, 1)))
    table.upsert(orders((1, "a", 3.0, 2)))
    table.delete_partitions(["day=b"])
    report = examine(location)
    assert kinds(report) == []
    assert report.ok and not report.repairable
    assert all(summary.complete for summary in report.areas), str(report)
    assert report.verdict == "nothing wrong was found"
    assert {name: report.counts[name] for name in ("completed instants", "data files", "rows", "keys", "partitions")} == {
        "completed instants": 3, "data files": 3, "rows": 1, "keys": 1, "partitions": 2,
    }  # fmt: skip


def test_an_empty_table_is_green(location: str) -> None:
    make(location)
    assert examine(location).ok


@pytest.mark.row("U13")
@pytest.mark.parametrize("name", one_in(3, TABLES))
def test_tables_that_hudi_wrote_have_no_errors(location: str, name: str) -> None:
    report = examine(unpack(name, location))
    begun = ["pending_foreign"] if name.endswith("_expressions") else []  # an index build that Hudi did not finish
    assert kinds(report) == begun, str(report)
    assert report.area(Area.TIMELINE).complete and report.area(Area.FILES).complete
    assert report.counts["keys"] == hudi.open_table(location).scan(columns=[RECORD_KEY]).to_arrow().num_rows
    assert report.area(Area.SCHEMA).complete and report.area(Area.KEYS).complete
    assert report.area(Area.METADATA_TABLE).worst in (None, Severity.INFO)


def test_a_table_that_two_engines_wrote_stays_green(location: str) -> None:
    table = hudi.open_table(unpack("hudi-1.0.2/cow_plain", location))
    table.upsert(table.scan().to_arrow())
    assert kinds(examine(location)) == []


def test_the_report_prints_in_columns_and_names_what_to_do(location: str) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0)))
    Path(location, ".hoodie/timeline/notes.txt").write_text("x")
    text = str(examine(location))
    assert text.splitlines()[0] == f"Check of {location}: 1 warning"
    lines = [line for line in text.splitlines() if line.startswith("  ")]
    starts = {line[2:17].strip(): line[17:31].strip() for line in lines[: len(Area)]}
    assert starts["timeline"] == "warning"
    assert starts["keys"] == "ok"
    assert "not_an_instant: The name 'notes.txt' is not the name of an instant [.hoodie/timeline/notes.txt]" in text
    assert FindingKind.NOT_AN_INSTANT.usual.what_to_do in text


def test_the_report_renders_as_html_without_markup_of_hostile_names(location: str) -> None:
    make(location)
    Path(location, ".hoodie/timeline").mkdir(exist_ok=True)
    Path(location, ".hoodie/timeline/<script>alert(1)<x>").touch()
    html = examine(location)._repr_html_()
    assert html.count("<table>") == 3, "of the areas and of the findings, in one of the report"
    assert "&lt;script&gt;" in html and "<script>" not in html


@pytest.mark.row("U13")
def test_the_report_is_machine_readable(location: str) -> None:
    make(location)
    Path(location, ".hoodie/timeline").mkdir(exist_ok=True)
    Path(location, ".hoodie/timeline/1_2_3.commit").touch()
    report = examine(location)
    found = json.loads(report.to_json())
    assert found == json.loads(json.dumps(report.to_dict()))
    assert found["schema_version"] == 1
    assert (found["ok"], found["repairable"]) == (False, False)
    [finding] = [item for item in found["findings"] if item["kind"] == "not_an_instant"]
    assert set(finding) == {"kind", "severity", "area", "what", "where", "instant", "what_to_do", "count"}
    assert (finding["severity"], finding["area"]) == ("warning", "timeline")
    assert [area["area"] for area in found["areas"]] == [str(area) for area in Area]


def test_the_report_is_frozen_and_findings_are_found_by_kind(location: str) -> None:
    make(location)
    report = examine(location)
    with pytest.raises(dataclasses.FrozenInstanceError):
        report.location = "elsewhere"  # type: ignore[misc]
    assert report.of(FindingKind.NO_TABLE) == report.of("no_table") == ()
    with pytest.raises(KeyError):
        report.area("nonsense")


def test_every_kind_says_where_it_belongs_how_bad_it_is_and_what_to_do() -> None:
    assert set(USUAL) == set(FindingKind)
    assert all(usual.what_to_do.endswith(".") for usual in USUAL.values())
    page = Path(__file__).parents[3].joinpath("docs/doctor.md").read_text(encoding="utf-8")
    rows = {
        kind: f"| `{kind}` | {usual.area} | {usual.severity} | {usual.what_to_do} |" for kind, usual in USUAL.items()
    }
    missing = [kind for kind, row in rows.items() if row not in page.splitlines()]
    assert missing == [], "docs/doctor.md lists every kind with its advice"


def test_table_check_and_check_table_say_the_same(location: str) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0)))
    steps: list[str] = []
    by_handle = table.check(progress=lambda area, done, total: steps.append(area))
    by_place = check_table(location)
    assert by_handle.counts == by_place.counts
    assert {"properties", "timeline", "files", "keys"} <= set(steps)


def test_keys_can_be_left_out_or_sampled_and_the_report_says_so(location: str) -> None:
    table = make(location)
    table.upsert(orders(*((n, "a", 1.0) for n in range(10))))
    without = table.check(keys=False)
    assert without.ok
    assert not without.area(Area.KEYS).complete
    assert "keys" in without.verdict
    assert table.check(limits=Limits(key_rows=5)).area(Area.KEYS).complete, "a file is compared whole"
    reopen(table, hoodie__parquet__small__file__limit=0).insert(orders((100, "a", 1.0)))
    sampled = table.check(limits=Limits(key_rows=1))
    assert sampled.ok and not sampled.area(Area.KEYS).complete
    assert "1 of 2 files were not compared" in str(sampled)
    assert table.check().area(Area.KEYS).complete


@pytest.mark.row("U13")
def test_a_read_only_storage_refuses_whatever_changes_something(tmp_path: Path) -> None:
    real = LocalStorage(str(tmp_path), fsync=False)
    real.put("a", b"1")
    storage = ReadOnlyStorage(real)
    assert isinstance(storage, Storage)
    assert storage.get("a") == b"1"
    calls = [
        ("put", b""),
        ("put_if_absent", b""),
        ("put_if_match", b"", "t"),
        ("delete",),
        ("delete_if_match", "t"),
        ("open_output",),
    ]
    for verb, *rest in calls:
        with pytest.raises(StorageError, match="changes nothing"):
            getattr(storage, verb)("a", *rest)
    changing = {
        name
        for name in dir(LocalStorage)
        if name.startswith(("put", "delete", "remove", "sweep", "discard")) or name == "open_output"
    }
    assert not {name for name in changing - set(WRITES) if hasattr(storage, name)}, (
        "a new way to write reaches the doctor"
    )


def test_the_doctor_works_on_object_stores_too() -> None:
    clock = StandingClock()
    storage = MemoryStorage("memory://doctor", MemoryBucket(), clock)
    table = make_at(home_at(storage, runtime_with(clock=clock)))
    table.upsert(orders((1, "a", 1.0)))
    report = table.check()
    assert report.ok, report
    storage.put(".hoodie/timeline/bad", b"")
    assert kinds(table.check()) == ["not_an_instant"]


def test_writers_at_work_give_no_alarm(location: str) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0)))
    with table.begin("upsert") as write:
        write.write(orders((1, "a", 2.0), (2, "c", 1.0)))
        report = examine(location)
        assert report.ok, report
        assert {"pending_alive", "file_of_living_write"} <= set(kinds(report, info=True))
        write.commit()
    assert rows(table, "id", "price") == [(1, 2.0), (2, 1.0)]


def test_a_commit_between_two_looks_gives_no_alarm(location: str) -> None:
    """The folder is listed after the timeline was read, and another writer commits in between."""
    table = make(location)
    table.upsert(orders((1, "a", 1.0)))
    other = reopen(table)

    class Busy(LocalStorage):
        commits = 0

        def list_folder(self, folder: str):  # type: ignore[no-untyped-def]
            if folder == "" and self.commits < 1:
                self.commits += 1
                other.upsert(orders((1, "a", 2.0), (2, "n", 1.0)))
            return super().list_folder(folder)

    storage = Busy(location, fsync=False)
    report = check(home_at(storage))
    assert storage.commits == 1
    assert report.ok, report


def test_the_doctor_reports_when_the_storage_does_not_answer(location: str) -> None:
    make(location)

    class Silent(UnwritableStorage):
        def head(self, path: str):  # type: ignore[no-untyped-def]
            raise StorageError("The network is down", path=path)

    report = check(home_at(Silent(location)))
    assert kinds(report) == ["storage_failed"]
    assert not report.opened and not report.ok


def test_severities_are_ordered() -> None:
    assert [s.rank for s in (Severity.INFO, Severity.REPAIRABLE, Severity.WARNING, Severity.ERROR)] == [0, 1, 2, 3]


def test_options_of_the_handle_are_respected(location: str) -> None:
    table = make(location)
    context = context_of(table)
    assert context.options.lock.of(FileSystemOptions).path
    assert examine(location, CheckOptions(keys=False)).ok
