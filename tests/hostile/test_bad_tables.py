"""Tables that are not there, are there already, or cannot be used: each says so, and stays as it is."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.disk import contents
from support.homes import context_of
from support.tables import FAST, ORDERS, create_plain, make, orders, reopen, rows

import pyhudi_core as hudi
from pyhudi_core.engine.base import SORT, TASK
from pyhudi_core.errors import (
    ConfigError,
    CorruptionError,
    CorruptPropertiesError,
    HudiError,
    InvalidOptionError,
    ObjectNotFoundError,
    SchemaMismatchError,
    TableExistsError,
    TableNotFoundError,
    TableVersionError,
    UnknownOptionError,
    UnsafePathError,
    UnsupportedTableError,
)
from pyhudi_core.index.base import POSITION, TAGS
from pyhudi_core.write.retrying import Retries


def _edit(location: str, old: str, new: str) -> None:
    path = Path(location, ".hoodie/hoodie.properties")
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


@pytest.mark.row("Q1", "P4")
@pytest.mark.parametrize("version", ["2", "7", "10", "", "eight", "-8", "8.0"])
def test_a_table_of_another_version_is_refused_with_the_way_out(location: str, version: str) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0)))
    _edit(location, "hoodie.table.version=8", f"hoodie.table.version={version}")
    before = contents(location)
    for call in (lambda: hudi.open_table(location), lambda: table.upsert(orders((2, "a", 1.0))), table.scan):
        with pytest.raises(TableVersionError) as caught:
            call()
        assert caught.value.supported == "8, 9"
        assert caught.value.table == location
        assert caught.value.hint
    assert contents(location) == before


@pytest.mark.row("Q1", "P4")
def test_an_upgrade_by_hudi_between_write_and_commit_is_noticed(location: str) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0)))
    with pytest.raises(TableVersionError), table.begin("upsert") as write:  # noqa: PT012
        write.write(orders((1, "a", 2.0)))
        _edit(location, "hoodie.table.version=8", "hoodie.table.version=9")
        write.commit()
    assert len([i for i in Path(location, ".hoodie/timeline").iterdir() if i.name.endswith(".commit")]) == 1


@pytest.mark.row("A5")
def test_a_table_without_its_partition_columns_is_refused(location: str) -> None:
    make(location)
    _edit(location, "drop.partition.columns=false", "drop.partition.columns=true")
    before = contents(location)
    with pytest.raises(UnsupportedTableError, match=r"drop\.partition\.columns") as caught:
        hudi.open_table(location)
    assert caught.value.hint
    assert contents(location) == before


def test_a_table_whose_type_was_edited_goes_on_with_the_new_one(location: str) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0)))
    _edit(location, "COPY_ON_WRITE", "MERGE_ON_READ")
    opened = hudi.open_table(location)
    opened.upsert(orders((1, "a", 5.0), (2, "a", 1.0)))
    assert sorted(opened.scan(["id", "price"]).to_arrow().to_pylist(), key=str) == [
        {"id": 1, "price": 5.0},
        {"id": 2, "price": 1.0},
    ]


def test_a_table_ordered_by_a_column_that_it_does_not_have_is_refused_by_readers_of_its_logs(location: str) -> None:
    table = make(location, table_type="merge_on_read", ordering="ts")
    table.upsert(orders((1, "a", 1.0, 1)))
    table.upsert(orders((1, "a", 2.0, 2)))
    properties = Path(location, ".hoodie/hoodie.properties")
    properties.write_text(re.sub(r"(ordering|precombine)(.fields?)=ts", r"\1\2=gone", properties.read_text()))
    with pytest.raises(UnsupportedTableError, match="'gone'"):
        hudi.open_table(location).scan().to_arrow()


def test_a_word_that_is_no_type_of_a_table_is_refused(location: str) -> None:
    with pytest.raises(InvalidOptionError, match="merge_on_read"):
        make(location, table_type="sideways")


@pytest.mark.row("P8")
@pytest.mark.parametrize("layout", ["1", "3", ""])
def test_another_timeline_layout_is_refused(location: str, layout: str) -> None:
    make(location)
    _edit(location, "timeline.layout.version=2", f"timeline.layout.version={layout}")
    with pytest.raises(UnsupportedTableError, match="layout"):
        hudi.open_table(location)


@pytest.mark.parametrize("key", ["hoodie.timeline.path=timeline", "hoodie.timeline.history.path=history"])
@pytest.mark.parametrize("folder", ["../../elsewhere", "/etc", "a/../../b"])
def test_folders_outside_of_the_table_are_refused(location: str, key: str, folder: str) -> None:
    make(location)
    _edit(location, key, f"{key.partition('=')[0]}={folder}")
    with pytest.raises(UnsafePathError) as caught:
        hudi.open_table(location)
    assert key.partition("=")[0] in str(caught.value)


@pytest.mark.row("A1")
def test_a_folder_that_is_not_a_table_is_not_found(tmp_path: Path) -> None:
    (tmp_path / "file.parquet").write_bytes(b"PAR1")
    before = contents(tmp_path)
    for place in (tmp_path, tmp_path / "absent", tmp_path / "file.parquet"):
        with pytest.raises(HudiError) as caught:
            hudi.open_table(str(place))
        assert isinstance(caught.value, TableNotFoundError), caught.value
        assert caught.value.hint
    assert contents(tmp_path) == before


@pytest.mark.row("A1")
def test_a_second_create_is_refused_and_changes_nothing(location: str) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0)))
    before = contents(location)
    with pytest.raises(TableExistsError, match="already") as caught:
        make(location, name="other")
    assert caught.value.hint == "Open it with open_table, or create_table(..., exist_ok=True)."
    assert contents(location) == before
    assert rows(table, "id") == [(1,)]


def test_of_many_creates_at_once_one_succeeds(location: str) -> None:
    from concurrent.futures import ThreadPoolExecutor

    def attempt(number: int) -> bool:
        try:
            make(location, name=f"t{number}")
        except TableExistsError:
            return False
        return True

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(attempt, range(8))) == 1
    assert hudi.open_table(location).name.startswith("t")


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ({"record_key": "nope"}, "'nope'"), ({"record_key": ["id", "id"]}, "twice"),
        ({"partition_by": "nope"}, "'nope'"), ({"partition_by": ["day", "day"]}, "twice"), ({"ordering": "nope"}, "'nope'"),
        ({"table_type": "column"}, "table_type"), ({"name": "a/b"}, "name"), ({"name": " "}, "name"),
        ({"options": {"hoodie.record.merge.mode": "EVENT_TIME_ORDERING"}}, "ordering"),
        ({"options": {"hoodie.table.version": "7"}}, "hoodie.table.version"),
        ({"options": {"hoodie.table.recordkey.fields": "day"}}, "hoodie.table.recordkey.fields"),
        ({"options": {"hoodie.table.partition.fields": "price"}}, "hoodie.table.partition.fields"),
        ({"options": {"pyhudi.partition.random.prefix": 99}}, "pyhudi.partition.random.prefix"),
        ({"schema": "id long"}, "schema="), ({"schema": None}, "schema="),
    ],
)  # fmt: skip
def test_a_table_that_cannot_be_is_not_made(location: str, arguments: dict[str, Any], word: str) -> None:
    given = {"schema": ORDERS, "record_key": "id", "partition_by": "day", **arguments}
    with pytest.raises(ConfigError) as caught:
        create_plain(location, storage_options=FAST, **given)
    assert word in str(caught.value)
    assert caught.value.hint
    assert not Path(location).exists() or contents(location) == {}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"record_key": "list"}, ["record_key", "'list'"]),
        ({"record_key": ["id", "float"]}, ["record_key", "'float'"]),
        ({"partition_by": "float"}, ["partition_by", "'float'"]),
        ({"partition_by": "moment"}, ["partition_by", "'moment'"]),
        ({"ordering": "list"}, ["ordering", "'list'", "no order"]),
    ],
)
def test_columns_that_make_no_key_no_folder_or_have_no_order_are_refused_at_once(
    location: str, arguments: dict[str, Any], words: list[str]
) -> None:
    schema = pa.schema(
        [("id", pa.int64()), ("list", pa.list_(pa.int64())), ("float", pa.float64()), ("moment", pa.timestamp("us"))]
    )
    with pytest.raises(InvalidOptionError) as caught:
        create_plain(location, schema, **{"record_key": "id", **arguments})
    assert all(word in str(caught.value) for word in words)
    assert not Path(location).exists()


@pytest.mark.parametrize("name", [POSITION, *TAGS.names, TASK, SORT])
def test_names_that_writes_use_for_themselves_are_refused(location: str, name: str) -> None:
    with pytest.raises(SchemaMismatchError, match=name):
        make(location, pa.schema([("id", pa.int64()), (name, pa.int64())]))
    table = make(location)
    before = contents(location)
    with pytest.raises(SchemaMismatchError, match=name):
        table.upsert(orders((1, "a", 1.0)).append_column(name, pa.array([1])))
    assert contents(location) == before


@pytest.mark.parametrize(
    "schema", [pa.schema([]), pa.schema([("id", pa.int64()), ("ID", pa.int64())]), pa.schema([("id", pa.null())])]
)
def test_a_schema_that_no_table_can_have_is_refused(location: str, schema: pa.Schema) -> None:
    with pytest.raises((SchemaMismatchError, InvalidOptionError)):
        make(location, schema)
    assert not Path(location).exists()


@pytest.mark.parametrize(
    ("option", "value", "kind", "word"),
    [
        ("hoodie.parquet.max.file.sise", 1, UnknownOptionError, "hoodie.parquet.max.file.size"),
        ("nonsense", 1, UnknownOptionError, "nonsense"),
        ("hoodie.parquet.max.file.size", "big", InvalidOptionError, "big"),
        ("hoodie.parquet.compression.codec", "lzma", InvalidOptionError, "lzma"),
        ("hoodie.table.name", "other", InvalidOptionError, "contradicts the table"),
        ("hoodie.datasource.write.recordkey.field", "day", InvalidOptionError, "contradicts the table"),
        ("hoodie.datasource.write.partitionpath.field", "", InvalidOptionError, "contradicts the table"),
        ("hoodie.datasource.write.table.type", "MERGE_ON_READ", InvalidOptionError, "contradicts the table"),
        ("hoodie.datasource.write.precombine.field", "ts", InvalidOptionError, "contradicts the table"),
        ("hoodie.index.type", "BUCKETS", InvalidOptionError, "hoodie.index.type"),
    ],
)
def test_options_that_are_unknown_or_contradict_the_table_are_refused(
    location: str, option: str, value: object, kind: type[ConfigError], word: str
) -> None:
    make(location)
    before = contents(location)
    with pytest.raises(kind, match=word) as caught:
        hudi.open_table(location, options={option: value})
    assert option in str(caught.value)
    assert caught.value.hint
    assert contents(location) == before


def test_options_that_agree_with_the_table_are_fine(location: str) -> None:
    table = make(location, options={"hoodie.datasource.write.recordkey.field": "id", "hoodie.table.name": "table"})
    same = reopen(
        table,
        hoodie__datasource__write__partitionpath__field="day",
        hoodie__table__type="cow",
        hoodie__write__table__version=8,
    )
    same.upsert(orders((1, "a", 1.0)))
    assert rows(same, "id") == [(1,)]


@pytest.mark.parametrize("content", [b"", b"\xff\xfe\x00", b"hoodie.table.name", b"a=\\u12"])
def test_damaged_properties_are_an_error_with_the_files_name(location: str, content: bytes) -> None:
    make(location)
    Path(location, ".hoodie/hoodie.properties").write_bytes(content)
    with pytest.raises((CorruptPropertiesError, TableVersionError)) as caught:
        hudi.open_table(location)
    assert "hoodie.properties" in str(caught.value)


def test_a_damaged_base_file_names_itself(location: str) -> None:
    table = make(location)
    commit = table.upsert(orders((1, "a", 1.0)))
    path = Path(location, commit.stats.files[0].path)
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(hudi.errors.CorruptBaseFileError) as caught:
        table.scan().to_arrow()
    assert path.name in str(caught.value)


def test_a_missing_base_file_is_not_silently_less_rows(location: str) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0), (2, "b", 2.0)))
    scan = table.scan()
    assert len(scan.slices()) == 2
    Path(location, scan.slices()[0].base.path).unlink()
    with pytest.raises(CorruptionError, match="is missing"):
        scan.to_arrow()
    with pytest.raises(CorruptionError, match="is missing"):
        table.scan().to_arrow()


def test_an_attempt_that_meets_a_missing_file_says_whether_the_newest_state_needs_it(location: str) -> None:
    table = make(location)
    commit = table.upsert(orders((1, "a", 1.0)))
    path = commit.stats.files[0].path
    context = context_of(table)
    with (
        pytest.raises(CorruptionError, match="is missing, and no clean deleted it") as lost,
        Retries(context).attempt(),
    ):
        raise ObjectNotFoundError("gone", path=path)
    assert (lost.value.path, lost.value.instant) == (path, commit.instant)
    with pytest.raises(ObjectNotFoundError, match="gone"), Retries(context).attempt():
        raise ObjectNotFoundError("gone", path=path.replace(commit.instant, "20200101000000000"))


@pytest.mark.parametrize("location_text", ["ftp://host/x", "", "s3://", "relative\0nul"])
def test_a_location_that_nobody_understands_is_refused(location_text: str) -> None:
    with pytest.raises(HudiError):
        hudi.open_table(location_text)


def test_an_unknown_storage_option_is_refused(location: str) -> None:
    with pytest.raises(UnknownOptionError, match="fsink"):
        hudi.open_table(location, storage_options={"fsink": "true"})
