"""What the doctor says about hoodie.properties, whatever state the file is in."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.doctor import examine, kinds
from support.tables import make, orders

from pyhudi_core.doctor import Area, FindingKind, Severity

PATH = ".hoodie/hoodie.properties"


def _table(location: str) -> Path:
    make(location).upsert(orders((1, "a", 1.0)))
    return Path(location, PATH)


def _edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_a_table_without_properties_is_examined_as_far_as_it_goes(location: str) -> None:
    _table(location).unlink()
    report = examine(location)
    assert kinds(report) == ["no_table"]
    assert report.opened and not report.ok
    assert report.counts["completed instants"] == 1
    assert report.area(Area.KEYS).state == "not all seen"


def test_a_folder_without_a_table_is_said_to_be_none(tmp_path: Path) -> None:
    report = examine(tmp_path)
    assert kinds(report) == ["no_table"]
    assert not report.opened


def test_properties_in_the_backup_alone_are_used_and_reported(location: str) -> None:
    path = _table(location)
    path.rename(path.with_name(path.name + ".backup"))
    report = examine(location)
    assert kinds(report) == ["properties_from_backup"]
    assert report.area(Area.KEYS).complete, "the rest was examined as usual"


def test_a_backup_beside_whole_properties_is_information(location: str) -> None:
    path = _table(location)
    path.with_name(path.name + ".backup").write_bytes(path.read_bytes())
    report = examine(location)
    assert report.ok
    assert len(report.of(FindingKind.PROPERTIES_BACKUP_LEFT)) == 1


def test_a_backup_that_is_damaged_does_no_harm_to_whole_properties(location: str) -> None:
    path = _table(location)
    path.with_name(path.name + ".backup").write_bytes(b"\0")
    assert examine(location).ok


@pytest.mark.parametrize(
    "content", [b"", b"\xff\xfe\x00", b"hoodie.table.name", b"a=\\u12", b"hoodie.table.checksum=1\nhoodie.table.name=t"]
)
def test_damaged_properties_are_an_error(location: str, content: bytes) -> None:
    path = _table(location)
    path.write_bytes(content)
    report = examine(location)
    assert kinds(report) == ["properties_damaged"]
    assert report.findings[0].where == PATH


@pytest.mark.row("P4")
def test_a_newer_version_raises_the_alarm_with_the_two_options_that_stop_hudi(location: str) -> None:
    path = _table(location)
    _edit(path, "hoodie.table.version=8", "hoodie.table.version=10")
    report = examine(location)
    assert kinds(report) == ["other_version"]
    [found] = report.of(FindingKind.OTHER_VERSION)
    assert found.severity is Severity.ERROR
    assert "hoodie.write.auto.upgrade=false" in found.what_to_do
    assert "hoodie.write.table.version=8" in found.what_to_do


@pytest.mark.parametrize("version", ["2", "eight", "-8"])
def test_other_versions_are_an_error_with_their_own_way_out(location: str, version: str) -> None:
    path = _table(location)
    _edit(path, "hoodie.table.version=8", f"hoodie.table.version={version}")
    assert kinds(examine(location)) == ["other_version"]


def test_a_table_that_this_release_does_not_do_is_a_warning(location: str) -> None:
    path = _table(location)
    _edit(path, "drop.partition.columns=false", "drop.partition.columns=true")
    assert kinds(examine(location)) == ["unsupported_table"]


def test_folders_outside_of_the_table_are_not_followed(location: str) -> None:
    path = _table(location)
    _edit(path, "hoodie.timeline.path=timeline", "hoodie.timeline.path=../../elsewhere")
    report = examine(location)
    assert "unsafe_path" in kinds(report)
    assert report.counts["completed instants"] == 1, "the usual folder is examined instead"


def test_properties_that_contradict_each_other_are_a_warning(location: str) -> None:
    path = _table(location)
    _edit(path, "merge.strategy.id=ce9acb64", "merge.strategy.id=00000000")
    assert kinds(examine(location)) == ["properties_inconsistent"]


def test_an_unknown_property_is_named(location: str) -> None:
    path = _table(location)
    path.write_text(path.read_text() + "hoodie.table.recordkey.feilds=id\n")
    report = examine(location)
    assert report.ok
    [found] = report.of(FindingKind.UNKNOWN_PROPERTY)
    assert "hoodie.table.recordkey.feilds" in found.what


def test_every_property_that_a_new_table_has_is_known(location: str) -> None:
    make(location, options={"pyhudi.partition.random.prefix": 2, "hoodie.database.name": "shop"}, ordering="ts")
    assert not examine(location).of(FindingKind.UNKNOWN_PROPERTY)
