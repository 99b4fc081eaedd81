"""The list of files in the metadata table of version 6 says what the folders say, and whatever is wrong with it sends a reader to the folders."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from support.golden import OTHER_VERSIONS, by_key, queries, unpack

import pyhudi_core as hudi
from pyhudi_core.snapshot.snapshot import MetadataListing
from pyhudi_core.write.states import load

WITHOUT = "hudi-0.15.0/cow_archived"
TABLES = sorted(
    {q.table for q in queries(OTHER_VERSIONS) if q.release in ("hudi-0.15.0", "hudi-1.0.2-version6")} - {WITHOUT}
)
FOLDER = Path(".hoodie") / "metadata"


def listing_of(table: hudi.HudiTable) -> MetadataListing | None:
    """The listing of the newest state, if it is that of the metadata table."""
    snapshot = load(table._opened.context())
    found = getattr(snapshot.view.listing, "listing", None)
    return found if snapshot.metadata is not None and isinstance(found, MetadataListing) else None


def files_of(place: Path) -> list[Path]:
    """The files of the metadata table that a list of files needs."""
    wanted = [*(place / FOLDER / ".hoodie").iterdir(), *(place / FOLDER / "files").iterdir()]
    return sorted(file.relative_to(place) for file in wanted if file.is_file() and not file.name.endswith(".crc"))


@pytest.mark.row("Q2")
@pytest.mark.parametrize("name", TABLES)
def test_the_list_of_files_of_version_6_is_that_of_the_folders(name: str, tmp_path: Path) -> None:
    found = listing_of(hudi.open_table(unpack(name, tmp_path, OTHER_VERSIONS)))
    assert found is not None
    assert found.partitions() == found.instead.partitions()
    for partition in found.partitions():
        stored = {info.path: info.size for info in found.instead.files(partition)}
        listed = {info.path: info.size for info in found.files(partition)}
        assert listed == {path: size for path, size in stored.items() if ".hoodie_partition_metadata" not in path}


def same(place: Path, expected: pa.Table) -> bool:
    rows = hudi.open_table(str(place)).scan().to_arrow()
    return by_key(rows, expected) == by_key(expected, expected)


HARM: dict[str, Callable[[Path], object]] = {
    "lost": Path.unlink,
    "empty": lambda file: file.write_bytes(b""),
    "cut off": lambda file: file.write_bytes(file.read_bytes()[: file.stat().st_size // 2]),
    "of other bytes": lambda file: file.write_bytes(bytes(255 - byte for byte in file.read_bytes())),
}


@pytest.mark.one_in(4)
@pytest.mark.parametrize("harm", HARM)
@pytest.mark.parametrize("name", ["cow_plain", "mor_avro", "mor_rolled_back", "cow_hive_services"])
def test_no_row_is_lost_if_a_file_of_the_metadata_table_of_version_6_is(name: str, harm: str, tmp_path: Path) -> None:
    place = Path(unpack(f"hudi-0.15.0/{name}", tmp_path, OTHER_VERSIONS))
    expected = hudi.open_table(str(place)).scan().to_arrow()
    logging.disable(logging.WARNING)
    try:
        for path in files_of(place):
            kept = (place / path).read_bytes()
            HARM[harm](place / path)
            assert same(place, expected), path
            (place / path).write_bytes(kept)
    finally:
        logging.disable(logging.NOTSET)


def test_a_metadata_table_of_version_6_that_is_behind_is_not_used(tmp_path: Path) -> None:
    """A writer without a metadata table leaves one behind until the next writer deletes it."""
    place = Path(unpack("hudi-0.15.0/mor_event_payload", tmp_path, OTHER_VERSIONS))
    expected = hudi.open_table(str(place)).scan().to_arrow()
    newest = max((place / FOLDER / ".hoodie").glob("*.deltacommit"))
    newest.unlink()
    assert listing_of(hudi.open_table(str(place))) is None
    assert same(place, expected)


def test_a_pending_compaction_of_a_metadata_table_of_version_6_hides_nothing(tmp_path: Path) -> None:
    """Logs after it have its time in their names, and no base file below them counts yet."""
    place = Path(unpack("hudi-0.15.0/mor_avro", tmp_path, OTHER_VERSIONS))
    expected = hudi.open_table(str(place)).scan().to_arrow()
    [compaction] = (place / FOLDER / ".hoodie").glob("*001.commit")
    time = compaction.name.partition(".")[0]
    assert list((place / FOLDER / "files").glob(f".*_{time}.log.*"))
    compaction.unlink()
    found = listing_of(hudi.open_table(str(place)))
    assert found is not None
    for partition in found.partitions():
        stored = {info.path for info in found.instead.files(partition) if ".hoodie_partition" not in info.path}
        assert {info.path for info in found.files(partition)} == stored
    assert same(place, expected)


def test_a_pending_write_adds_nothing_to_the_list_of_version_6(tmp_path: Path) -> None:
    """The metadata table commits before its data table."""
    place = Path(unpack("hudi-0.15.0/cow_plain", tmp_path, OTHER_VERSIONS))
    newest = max((place / ".hoodie").glob("*.commit"))
    newest.unlink()
    time = newest.name.partition(".")[0]
    found = listing_of(hudi.open_table(str(place)))
    assert found is not None
    assert not [info.path for info in found.files("") if time in info.path]


def test_a_metadata_table_of_version_5_is_not_read(tmp_path: Path) -> None:
    place = Path(unpack("hudi-0.15.0/cow_plain", tmp_path, OTHER_VERSIONS))
    file = place / ".hoodie" / "hoodie.properties"
    file.write_text(file.read_text().replace("hoodie.table.version=6", "hoodie.table.version=5"))
    assert listing_of(hudi.open_table(str(place))) is None
