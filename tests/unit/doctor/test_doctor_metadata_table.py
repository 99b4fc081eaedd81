"""The doctor on metadata tables: silent about those that Hudi wrote, and no disagreement with commits, listing or rows escapes it."""

from __future__ import annotations

import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from support.doctor import Entry, UnwritableStorage, assert_sound, examine, kinds, rewrite_metadata
from support.golden import FIXTURES, unpack
from support.samples import one_in
from support.tables import create_plain, rows

import pyhudi_core as hudi
from pyhudi_core.doctor import Area, CheckOptions, CheckReport, FindingKind, Limits, check
from pyhudi_core.errors import CorruptionError
from pyhudi_core.model.file_names import BaseFileName, parse_data_file
from pyhudi_core.opened_table.opened_table import OpenedTable
from pyhudi_core.runtime.system import system_runtime
from pyhudi_core.storage.base import Folder, ObjectInfo, Storage
from pyhudi_core.transaction.decision import _Deciding


def _has_metadata_table(folder: Path) -> bool:
    with zipfile.ZipFile(folder / "table.zip") as archive:
        return any(name.startswith(".hoodie/metadata/") for name in archive.namelist())


FOLDERS = [path for path in sorted(FIXTURES.glob("hudi-*/*")) if _has_metadata_table(path)]
TABLES = [f"{path.parent.name}/{path.name}" for path in FOLDERS]
INDEXED = ["hudi-1.0.2/cow_indexed", "hudi-1.2.0/cow_indexed"]
FILES = "filesystemMetadata"
AREA = Area.METADATA_TABLE

pytestmark = pytest.mark.row("R4")


@pytest.fixture(params=INDEXED)
def indexed(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy of a table with every index."""
    return Path(unpack(request.param, tmp_path / "table"))


def _slices(location: Path, partition: str = "ap") -> list[Path]:
    """The base files of the partition's first file group, oldest first."""
    names = [(parse_data_file(path.name), path) for path in Path(location, partition).iterdir()]
    found = sorted((name.file_id, name.requested_time, path) for name, path in names if isinstance(name, BaseFileName))
    return [path for file_id, _, path in found if file_id == found[0][0]]


def _of(report: CheckReport, kind: FindingKind) -> tuple[str, str | None, str | None]:
    """Severity, place and instant of the one finding of a kind."""
    (found,) = report.of(kind)
    assert found.area is AREA
    return found.severity, found.where, found.instant


def _about_metadata(report: CheckReport) -> list[str]:
    return sorted({str(found.kind) for found in report.findings if found.area is AREA and found.severity != "info"})


@pytest.mark.parametrize("name", one_in(3, TABLES, first=1))
def test_hudis_metadata_tables_agree_with_commits_listing_and_rows(name: str, tmp_path: Path) -> None:
    report = examine(unpack(name, tmp_path / "table"))
    begun = ["pending_foreign"] if name.endswith("_expressions") else []  # an index build that Hudi did not finish
    assert kinds(report) == begun
    assert report.counts["files in the metadata table"] >= 3
    assert report.area(AREA).complete
    if name in INDEXED:
        assert report.counts["keys looked up in the record index"] == 108


@pytest.mark.one_in(2, first=1)
def test_a_commit_that_it_does_not_know_is_an_error_once(indexed: Path) -> None:
    newest = max(indexed.glob(".hoodie/metadata/.hoodie/timeline/2*_*.deltacommit"))
    time = newest.name.partition("_")[0]
    newest.unlink()
    report = examine(indexed)
    assert _of(report, FindingKind.METADATA_TABLE_BEHIND) == ("error", ".hoodie/metadata", time)
    assert _about_metadata(report) == ["metadata_table_behind"], "its files are no news"
    assert any("because it is behind" in found.what for found in report.of(FindingKind.NOT_EXAMINED))


@pytest.mark.one_in(2)
def test_a_log_of_it_that_is_gone_is_named(indexed: Path) -> None:
    log = max(indexed.glob(".hoodie/metadata/files/.files-*.log.*"), key=lambda path: path.name.split("_")[1])
    log.unlink()
    report = examine(indexed)
    assert [found.where for found in report.of(FindingKind.METADATA_TABLE_DAMAGED)] == [
        log.relative_to(indexed).as_posix()
    ]
    assert _about_metadata(report) == ["metadata_table_damaged"]


@pytest.mark.one_in(2)
def test_files_that_it_does_not_list_are_errors_if_commits_name_them(indexed: Path) -> None:
    newest = max(path.name.partition("_")[0] for path in indexed.glob(".hoodie/timeline/*_*.commit"))

    def forget(entries: dict[str, Entry]) -> None:
        for entry in entries.values():
            listed = entry["filesystemMetadata"] or {}
            entry["filesystemMetadata"] = {name: info for name, info in listed.items() if newest not in name}

    rewrite_metadata(indexed, "files", forget)
    report = examine(indexed)
    missing = report.of(FindingKind.METADATA_FILE_MISSING)
    assert {(found.severity, found.instant) for found in missing} == {("error", newest)}
    assert all(Path(indexed, found.where or "").exists() for found in missing)
    assert _about_metadata(report) == ["metadata_file_missing"]


@pytest.mark.one_in(2, first=1)
def test_a_file_of_an_older_slice_that_is_gone_is_a_warning_and_a_newest_one_an_error(indexed: Path) -> None:
    slices = _slices(indexed)
    slices[0].unlink()
    severity, where, _ = _of(examine(indexed), FindingKind.METADATA_FILE_GONE)
    assert (severity, where) == ("warning", slices[0].relative_to(indexed).as_posix())
    slices[-1].unlink()
    gone = {found.where: found.severity for found in examine(indexed).of(FindingKind.METADATA_FILE_GONE)}
    assert gone[slices[-1].relative_to(indexed).as_posix()] == "error"


@pytest.mark.one_in(2)
def test_files_that_a_pending_clean_may_have_deleted_are_no_finding(indexed: Path) -> None:
    slices = _slices(indexed)
    slices[0].unlink()
    Path(indexed, ".hoodie/timeline/20261231000000000.clean.requested").touch()
    assert "metadata_file_gone" not in kinds(examine(indexed))


@pytest.mark.one_in(2, first=1)
def test_another_size_is_an_error(indexed: Path) -> None:
    def change(entries: dict[str, Entry]) -> None:
        entries["ap"][FILES][_slices(indexed)[-1].name]["size"] += 1

    rewrite_metadata(indexed, "files", change)
    severity, where, _ = _of(examine(indexed), FindingKind.METADATA_SIZE_DIFFERS)
    assert (severity, where) == ("error", _slices(indexed)[-1].relative_to(indexed).as_posix())


@pytest.mark.one_in(2)
def test_a_rewritten_metadata_table_that_says_the_same_agrees(indexed: Path) -> None:
    """What the other tests tamper with is read as it should be."""
    for partition in ("files", "record_index"):
        rewrite_metadata(indexed, partition, lambda entries: None)
    report = examine(indexed)
    assert kinds(report) == []
    assert report.area(AREA).complete


@pytest.mark.one_in(2, first=1)
def test_a_partition_that_it_does_not_list_is_an_error(indexed: Path) -> None:
    def change(entries: dict[str, Entry]) -> None:
        del entries["__all_partitions__"][FILES]["us"]

    rewrite_metadata(indexed, "files", change)
    report = examine(indexed)
    assert _of(report, FindingKind.METADATA_PARTITION_MISSING) == ("error", "us", None)
    assert _about_metadata(report) == ["metadata_partition_missing"]


@pytest.mark.one_in(2)
def test_a_partition_without_an_entry_is_found_by_its_files(indexed: Path) -> None:
    rewrite_metadata(indexed, "files", lambda entries: entries.pop("us"))
    report = examine(indexed)
    assert {found.where.partition("/")[0] for found in report.of(FindingKind.METADATA_FILE_MISSING) if found.where} == {
        "us"
    }
    assert _about_metadata(report) == ["metadata_file_missing"]


@pytest.mark.one_in(2)
def test_a_file_that_no_commit_names_is_an_error_only_where_it_is_listed(indexed: Path) -> None:
    newest = _slices(indexed)[-1]
    leaked = newest.with_name(newest.name.replace(newest.name.split("_")[1], "7-7-7"))
    shutil.copy(newest, leaked)
    before = examine(indexed)
    assert kinds(before) == ["leaked_file"], "neither commits nor the metadata table have it: they agree"
    wanted = rows(hudi.open_table(str(indexed)), "_hoodie_record_key")

    def change(entries: dict[str, Entry]) -> None:
        entries["ap"][FILES][leaked.name] = {"size": leaked.stat().st_size, "isDeleted": False}

    rewrite_metadata(indexed, "files", change)
    severity, where, _ = _of(examine(indexed), FindingKind.METADATA_FILE_UNNAMED)
    assert (severity, where) == ("error", leaked.relative_to(indexed).as_posix())
    assert rows(hudi.open_table(str(indexed)), "_hoodie_record_key") == wanted, "and no read here shows it"


def _forget(entries: dict[str, Entry]) -> None:
    entries.pop(min(entries))


def _move(entries: dict[str, Entry]) -> None:
    entries[min(entries)]["recordIndexMetadata"]["fileIdLowBits"] += 1


def _other_partition(entries: dict[str, Entry]) -> None:
    found = entries[min(entries)]["recordIndexMetadata"]
    found["partitionName"] = "us" if found["partitionName"] != "us" else "eu"


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("change", "word"), [(_forget, "does not know 1 of"), (_move, "elsewhere"), (_other_partition, "elsewhere")])  # fmt: skip
def test_a_record_index_that_leads_elsewhere_is_an_error(
    indexed: Path, change: Callable[[dict[str, Entry]], None], word: str
) -> None:
    first: list[str] = []

    def changing(entries: dict[str, Entry]) -> None:
        first.append(min(entries))
        change(entries)

    rewrite_metadata(indexed, "record_index", changing)
    report = examine(indexed)
    (found,) = report.of(FindingKind.METADATA_INDEX_DIFFERS)
    assert found.severity == "error"
    assert word in found.what
    assert repr(first[0]) in found.what
    assert kinds(report) == ["metadata_index_differs"]
    assert kinds(examine(indexed, CheckOptions(keys=False))) == [], "nothing is looked up when keys are left out"


@pytest.mark.one_in(2)
def test_a_record_index_that_lost_a_file_group_is_damaged(indexed: Path) -> None:
    for path in Path(indexed, ".hoodie/metadata/record_index").glob("*record-index-0009-0*"):
        path.unlink()
    report = examine(indexed)
    assert kinds(report) == ["metadata_table_damaged"]
    assert "record-index-0009-0" in str(report)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("partition", ["files", "record_index"])
@pytest.mark.parametrize("damage", ["cut", "zeros", "empty", "bits"])
def test_a_damaged_one_is_a_finding_and_hides_nothing_else(tmp_path: Path, partition: str, damage: str) -> None:
    location = Path(unpack("hudi-1.2.0/cow_indexed", tmp_path / "table"))
    for path in Path(location, ".hoodie/metadata", partition).glob("*.hfile"):
        data = path.read_bytes()
        middle = len(data) // 2
        path.write_bytes(
            {
                "cut": data[:middle],
                "zeros": bytes(len(data)),
                "empty": b"",
                "bits": data[:-40] + bytes(255 - byte for byte in data[-40:]),
            }[damage]
        )
    report = examine(location)
    assert kinds(report) == ["metadata_table_damaged"]
    assert not report.area(AREA).complete
    assert (report.of(FindingKind.METADATA_TABLE_DAMAGED)[0].where or "").startswith(f".hoodie/metadata/{partition}/")
    assert report.area(Area.KEYS).state == "ok", "keys are compared by commits and listing"
    if partition == "files":
        with pytest.raises(CorruptionError):
            hudi.open_table(str(location)).scan().to_arrow()


def test_more_than_the_limit_is_not_read_and_not_called_sound(indexed: Path) -> None:
    report = examine(indexed, CheckOptions(limits=Limits(metadata_table_bytes=1000)))
    assert kinds(report) == []
    assert report.area(AREA).state == "not all seen"
    assert "files in the metadata table" not in report.counts


@pytest.mark.one_in(2, first=1)
def test_the_number_of_keys_looked_up_is_bounded(indexed: Path) -> None:
    report = examine(indexed, CheckOptions(limits=Limits(index_keys=9)))
    assert kinds(report) == []
    assert 0 < report.counts["keys looked up in the record index"] <= 9 + 9


@pytest.mark.one_in(2, first=1)
def test_folders_that_were_not_listed_are_not_compared(indexed: Path) -> None:
    report = examine(indexed, CheckOptions(limits=Limits(data_files=-1)))
    assert kinds(report) == []
    assert not report.area(AREA).complete


def test_a_write_here_leaves_nothing_to_disagree(tmp_path: Path) -> None:
    location = unpack("hudi-1.2.0/cow_plain", tmp_path / "table")
    table = hudi.open_table(location, {"fsync": "false"})
    found = table.scan().to_arrow().slice(0, 1)
    table.upsert(found.drop_columns([name for name in found.column_names if name.startswith("_hoodie_")]))
    assert kinds(examine(location)) == []


# --- writers at work


class _Watched(UnwritableStorage):
    """A disk whose lists of names are those of `list_folder`."""

    def list_names(self, folder: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        return Storage.list_names(self, folder)  # type: ignore[misc]


class _Late(_Watched):
    """A disk whose first listings of a folder leave a file out."""

    left_out = ""
    times = 1

    def list_folder(self, folder: str) -> Folder:
        found = super().list_folder(folder)
        kept = tuple(info for info in found.objects if info.path != self.left_out)
        if len(kept) < len(found.objects):
            self.times -= 1
            self.left_out = self.left_out if self.times else ""
        return Folder(kept, found.folders)


class _Busy(_Watched):
    """A disk on which another writer's instant shows at each look at the timeline."""

    looks = 0

    def list_folder(self, folder: str) -> Folder:
        found = super().list_folder(folder)
        if folder != ".hoodie/timeline":
            return found
        self.looks += 1
        name = f"{folder}/20261231{self.looks:09d}.commit.requested"
        return Folder((*found.objects, ObjectInfo(name, 0, 0, "")), found.folders)


def _checked(storage: Any) -> CheckReport:
    return assert_sound(check(OpenedTable(storage, system_runtime(), {})))


@pytest.mark.one_in(2)
def test_a_file_that_the_first_listing_left_out_is_no_disagreement(indexed: Path) -> None:
    storage = _Late(str(indexed), fsync=False)
    storage.left_out = _slices(indexed)[-1].relative_to(indexed).as_posix()
    report = _checked(storage)
    assert storage.left_out == "", "it was left out once"
    assert report.area(AREA).state == "ok"


@pytest.mark.one_in(2)
def test_a_write_that_completes_between_two_looks_is_no_disagreement(indexed: Path) -> None:
    """Its instant was pending when the timeline was examined."""
    storage = _Late(str(indexed), fsync=False)
    storage.left_out = max(indexed.glob(".hoodie/timeline/*_*.commit")).relative_to(indexed).as_posix()
    storage.times = 2
    report = _checked(storage)
    assert storage.left_out == ""
    assert report.counts["pending instants"] == 1
    assert not report.of(FindingKind.PENDING_FOREIGN), "when its heartbeat was looked for, it had ended"
    assert _about_metadata(report) == []
    assert report.area(AREA).state == "ok"


@pytest.mark.one_in(2, first=1)
def test_damage_of_the_data_tables_own_timeline_is_not_called_the_metadata_tables(indexed: Path) -> None:
    newest = max(indexed.glob(".hoodie/timeline/*_*.commit"))
    newest.write_bytes(b"Obj\1")
    report = examine(indexed)
    assert kinds(report) == ["metadata_unreadable"]
    history = Path(indexed, ".hoodie/timeline/history")
    for path in history.iterdir():
        path.unlink()
    Path(history, "_version_").write_text("1")
    Path(history, "manifest_1").write_text("{")
    Path(indexed, ".hoodie/timeline", newest.name.partition("_")[0] + ".commit.requested").unlink()
    Path(indexed, ".hoodie/timeline", newest.name.partition("_")[0] + ".inflight").unlink()
    assert not examine(indexed).of(FindingKind.METADATA_TABLE_DAMAGED)


def test_while_writers_are_at_work_nothing_is_claimed(indexed: Path) -> None:
    rewrite_metadata(indexed, "files", lambda entries: entries.pop("us"))
    report = _checked(_Busy(str(indexed), fsync=False))
    assert _about_metadata(report) == []
    assert report.area(AREA).state == "not all seen"
    assert any("at work" in found.what for found in report.of(FindingKind.NOT_EXAMINED))


def test_the_newest_commit_stays_published_when_hudi_removes_its_metadata_table(tmp_path: Path) -> None:
    """A writer of Hudi with ``hoodie.metadata.enable=false`` removes folder and list; then our commit's part in it exists no more."""
    location = str(tmp_path / "table")
    data = pa.table({"id": [1, 2], "day": ["a", "b"]})
    hudi.create_table(location, data.schema, "id", "day").insert(data)
    shutil.rmtree(tmp_path / "table" / ".hoodie" / "metadata")
    properties = tmp_path / "table" / ".hoodie" / "hoodie.properties"
    listed = "hoodie.table.metadata.partitions="
    lines = properties.read_text().splitlines()
    assert any(line.startswith(listed + "column_stats") for line in lines)
    properties.write_text("\n".join(listed if line.startswith(listed) else line for line in lines) + "\n")
    assert kinds(examine(location)) == []


def test_a_decided_build_of_which_nothing_is_published_is_a_finding(tmp_path: Path) -> None:
    """Its last publication changes hoodie.properties, a file that is always there."""
    location, copied = tmp_path / "table", tmp_path / "as the process would leave it"
    data = pa.table({"id": [1, 2], "day": ["a", "b"]})
    table = create_plain(str(location), data.schema, "id", "day")
    table.insert(data)
    publish = _Deciding._publish

    def copy_first(deciding: _Deciding, *decided: Any) -> bool:
        shutil.copytree(location, copied, dirs_exist_ok=True)
        return publish(deciding, *decided)

    with patch.object(_Deciding, "_publish", copy_first):
        table.metadata_table.create()
    assert kinds(examine(location)) == []
    assert "decided_not_published" in kinds(examine(copied), info=True)  # information: the process may be at work
