"""Tables that can be read here and must not be written: the error comes before anything is changed."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.disk import contents
from support.golden import unpack
from support.tables import make, orders, rows

import pyhudi_core as hudi
from pyhudi_core.errors import SchemaMismatchError, TableVersionError, UnsupportedTableError


@pytest.mark.parametrize(
    ("line", "other", "word"),
    [
        ("hoodie.record.merge.mode=COMMIT_TIME_ORDERING", "hoodie.record.merge.mode=CUSTOM", "not known here"),
        ("hoodie.table.keygenerator.type=SIMPLE", "hoodie.table.keygenerator.type=SPARK_SQL_UUID", "key generator"),
    ],
)
@pytest.mark.parametrize("operation", ["upsert", "insert_overwrite", "delete"])
def test_a_table_with_a_feature_that_we_would_break_is_read_and_not_written(
    location: str, line: str, other: str, word: str, operation: str
) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0)))
    path = Path(location, ".hoodie/hoodie.properties")
    assert line in path.read_text()
    path.write_text(path.read_text().replace(line, other))
    before = contents(location)
    opened = hudi.open_table(location)
    with pytest.raises(UnsupportedTableError, match=word) as caught:
        getattr(opened, operation)(orders((1, "a", 2.0)))
    assert caught.value.table == location
    assert caught.value.hint
    assert contents(location) == before
    assert rows(opened, "id", "price") == [(1, 1.0)]


@pytest.mark.parametrize(
    ("line", "other"),
    [
        ("output.dateformat=yyyy/MM/dd", "output.dateformat=YYYY/ww"),
        ("output.dateformat=yyyy/MM/dd", "output.dateformat=../../MM"),
        ("timebased.timezone=UTC", "timebased.timezone=Europe/Berlin"),
        ("scalar.time.unit=days", "scalar.time.unit=fortnights"),
        ("timestamp.type=SCALAR", "timestamp.type=MIXED"),
        ("recordkey.fields=id", "recordkey.fields=id,region"),
    ],
)
def test_folders_of_formatted_times_whose_meaning_could_differ_are_not_written(
    location: str, line: str, other: str
) -> None:
    """Tables with a timestamp-based key generator; the plain ones are written (test_timestamp_keys)."""
    hudi.open_table(unpack("hudi-1.0.2/cow_timestamp_key", location))
    path = Path(location, ".hoodie/hoodie.properties")
    assert line in path.read_text()
    path.write_text(path.read_text().replace(line, other))
    table = hudi.open_table(location)
    data = table.scan(columns=table.schema.names).to_arrow()
    before = contents(location)
    with pytest.raises(UnsupportedTableError, match="not supported"):
        table.upsert(data)
    assert contents(location) == before


@pytest.mark.row("P4", "Q2", "U18")
@pytest.mark.parametrize(
    ("version", "advice"), [("2", "Raise it to version 6 with Hudi 0.15"), ("10", "Versions 3 to 6, 8 and 9 are read")]
)
def test_tables_of_other_versions_are_refused_with_what_to_do(location: str, version: str, advice: str) -> None:
    make(location)
    path = Path(location, ".hoodie/hoodie.properties")
    path.write_text(path.read_text().replace("hoodie.table.version=8", f"hoodie.table.version={version}"))
    before = contents(location)
    with pytest.raises(TableVersionError, match=f"version {version}") as caught:
        hudi.open_table(location)
    assert advice in (caught.value.hint or "")
    assert contents(location) == before


@pytest.mark.row("E2")
@pytest.mark.row("E3")
@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("hoodie.table.base.file.format=ORC", "ORC"),
        ("hoodie.table.base.file.format=HFILE", "HFILE"),
        ("hoodie.table.multiple.base.file.formats.enable=true", "several base file formats"),
    ],
)
def test_a_table_with_other_base_files_is_read_and_not_written(location: str, line: str, word: str) -> None:
    make(location).upsert(orders((1, "a", 1.0)))
    path = Path(location, ".hoodie/hoodie.properties")
    kept = [old for old in path.read_text().splitlines() if old.partition("=")[0] != line.partition("=")[0]]
    path.write_text("\n".join([*kept, line]) + "\n")
    before = contents(location)
    opened = hudi.open_table(location)
    with pytest.raises(UnsupportedTableError, match=word):
        opened.upsert(orders((1, "a", 2.0)))
    assert contents(location) == before
    assert rows(opened, "id", "price") == [(1, 1.0)], "each file is read as its name says"


def test_rows_of_a_table_whose_keys_hudi_made_itself_are_changed_by_these_keys_only(location: str) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0), (2, "a", 1.0)))
    path = Path(location, ".hoodie/hoodie.properties")
    path.write_text(path.read_text().replace("hoodie.table.recordkey.fields=id\n", ""))
    opened = hudi.open_table(location)
    before = contents(location)
    for call in (lambda: opened.upsert(orders((1, "a", 2.0))), lambda: opened.delete(orders((1, "a", 2.0)))):
        with pytest.raises(SchemaMismatchError, match="_hoodie_record_key"):
            call()
    assert contents(location) == before
    assert opened.delete(where="id = 1").stats.rows_deleted == 1
    assert rows(opened, "id") == [(2,)]
