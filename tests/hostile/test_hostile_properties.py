"""hoodie.properties in every bad state: a clear typed error, the table unchanged and never upgraded, and a finding of the doctor
(promise P9: a file of 100 MB is not held)."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest
from support.disk import contents
from support.doctor import examine, kinds
from support.tables import make, orders, rows

import pyhudi_core as hudi
from pyhudi_core.errors import CorruptPropertiesError, HudiError, LimitExceededError, TableError, TableVersionError
from pyhudi_core.opening import check_table

PATH = ".hoodie/hoodie.properties"


def _table(location: str) -> Path:
    make(location).upsert(orders((1, "a", 1.0)))
    return Path(location, PATH)


def _whole(location: str) -> bool:
    """Whether the table opens and has its row."""
    return rows(hudi.open_table(location), "id", "price") == [(1, 1.0)]


def test_a_file_that_was_cut_off_anywhere_is_refused_or_still_says_what_the_table_is(location: str) -> None:
    """A writer of properties died in the middle, and there is no backup: no cut gives other rows."""
    path = _table(location)
    data = path.read_bytes()
    refused = 0
    for length in range(0, len(data), 7):
        path.write_bytes(data[:length])
        before = contents(location)
        try:
            assert _whole(location), f"other rows after a cut at {length}"
        except HudiError as error:
            refused += 1
            assert isinstance(error, TableError | CorruptPropertiesError), repr(error)
            assert error.hint
        assert contents(location) == before
    assert refused > 10


def test_the_doctor_has_a_word_for_every_cut(location: str) -> None:
    path = _table(location)
    data = path.read_bytes()
    for length in range(0, len(data), 61):
        path.write_bytes(data[:length])
        report = examine(location)
        try:
            hudi.open_table(location)
        except HudiError:
            assert not report.ok, f"a table that does not open is called sound after a cut at {length}"


def test_a_cut_file_with_a_whole_backup_is_read_from_the_backup(location: str) -> None:
    path = _table(location)
    data = path.read_bytes()
    path.with_name("hoodie.properties.backup").write_bytes(data)
    for length in (0, 10, len(data) // 2):
        path.write_bytes(data[:length])
        assert _whole(location)
        assert kinds(examine(location)) in (["properties_from_backup"], [])
    path.unlink()
    assert _whole(location)
    hudi.open_table(location, {"fsync": "false"}).upsert(orders((1, "a", 1.0)))
    assert _whole(location)


@pytest.mark.parametrize("ending", ["\r\n", "\r", "\n\n\n", "\n# a comment\n", "\n\t "])
def test_line_endings_of_other_systems_are_read(location: str, ending: str) -> None:
    path = _table(location)
    path.write_bytes(ending.join(path.read_text().splitlines()).encode())
    assert _whole(location)
    assert kinds(examine(location)) == []


@pytest.mark.parametrize("checksum", ["0", "-1", "1e9", "", "٣٤٥", "4294967296"])
def test_a_wrong_checksum_is_refused(location: str, checksum: str) -> None:
    path = _table(location)
    lines = [line for line in path.read_text().splitlines() if "checksum" not in line]
    path.write_text("\n".join([*lines, f"hoodie.table.checksum={checksum}"]) + "\n", encoding="utf-8")
    before = contents(location)
    with pytest.raises(CorruptPropertiesError, match="checksum"):
        hudi.open_table(location)
    assert kinds(examine(location)) == ["properties_damaged"]
    assert contents(location) == before


@pytest.mark.parametrize(
    "version", ["90", "10", "eight", "08", "8 9", "8\\u0000", "٨", "1e1", "99999999999999999999999999"]
)
def test_another_version_is_never_upgraded_or_taken_for_8(location: str, version: str) -> None:
    path = _table(location)
    path.write_text(
        path.read_text().replace("hoodie.table.version=8", f"hoodie.table.version={version}"), encoding="utf-8"
    )
    before = contents(location)
    with pytest.raises(TableVersionError) as caught:
        hudi.open_table(location)
    assert caught.value.hint
    assert kinds(examine(location)) == ["other_version"]
    assert contents(location) == before


@pytest.mark.one_in(4)
@pytest.mark.parametrize("filler", [b"\0", b"#", b"a", b"a=b\n"])
def test_100_megabytes_are_refused_and_the_doctor_does_not_even_read_them(location: str, filler: bytes) -> None:
    path = _table(location)
    with path.open("ab") as file:
        for _ in range(100):
            file.write(filler * ((1 << 20) // len(filler)))
    with pytest.raises((LimitExceededError, CorruptPropertiesError)) as caught:
        hudi.open_table(location)
    assert caught.value.hint
    tracemalloc.start()
    report = check_table(location)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert kinds(report) == ["properties_damaged"]
    assert peak < 20 << 20, f"{peak:,} bytes were held for a file of 100 MB"


@pytest.mark.parametrize(
    "lines",
    [["hoodie.table.name"], ["hoodie.table.name=t", "hoodie.table.name="], ["\\"], ["=" * 1000], ["a" * 100_000]],
)
def test_odd_texts_give_a_typed_error(location: str, lines: list[str]) -> None:
    path = _table(location)
    path.write_text("\n".join(lines))
    with pytest.raises((TableError, CorruptPropertiesError)):
        hudi.open_table(location)
    assert not examine(location).ok


def test_a_folder_in_the_place_of_the_file_is_no_table(location: str) -> None:
    path = _table(location)
    path.unlink()
    path.mkdir()
    with pytest.raises(HudiError):
        hudi.open_table(location)
    assert kinds(examine(location)) == ["no_table"]
