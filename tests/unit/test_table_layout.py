"""What a table looks like on disk: folders, partitions, data files, footers, meta columns."""

from __future__ import annotations

import re
from datetime import date
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.disk import data_files, files
from support.tables import make, orders, reopen, rows

import pyhudi_core as hudi
from pyhudi_core.errors import InvalidPartitionValueError
from pyhudi_core.formats.base_file import read_footer
from pyhudi_core.model.java_properties import parse

META = [
    "_hoodie_commit_time",
    "_hoodie_commit_seqno",
    "_hoodie_record_key",
    "_hoodie_partition_path",
    "_hoodie_file_name",
]


@pytest.mark.row("A1", "B1")
def test_a_new_table_is_its_properties_and_a_write_adds_the_timeline(location: str) -> None:
    table = make(location)
    assert files(location) == [".hoodie/hoodie.properties"]
    table.upsert(orders((1, "a", 1.0)))
    assert {path.rpartition("/")[0] for path in files(location)} == {
        ".hoodie", ".hoodie/.aux/.pyhudi", ".hoodie/timeline", "day=a",
    }  # fmt: skip
    assert not files(f"{location}/.hoodie", "lock")


@pytest.mark.row("A1")
def test_the_hoodie_folder_is_never_a_partition(location: str) -> None:
    table = make(location, options={"hoodie.datasource.write.hive_style_partitioning": "false"})
    table.upsert(orders((1, "a", 1.0)))
    Path(location, ".hoodie", "metadata").mkdir()
    Path(location, ".hoodie", "metadata", ".hoodie_partition_metadata").write_text("")
    assert table.snapshot().view.partitions() == ("a",)
    with pytest.raises(InvalidPartitionValueError, match="hoodie"):
        table.upsert(orders((1, ".hoodie", 1.0)))


@pytest.mark.row("A2", "P6")
@pytest.mark.parametrize(("hive", "folder"), [("true", "day=a"), ("false", "a")])
def test_partition_folders_are_hive_style_or_bare_values(location: str, hive: str, folder: str) -> None:
    table = make(location, options={"hoodie.datasource.write.hive_style_partitioning": hive})
    table.upsert(orders((1, "a", 1.0), (2, "b", 2.0)))
    assert folder in table.snapshot().view.partitions()
    assert rows(table.scan(where="day = 'a'"), "id", "_hoodie_partition_path") == [(1, folder)]
    table.upsert(orders((1, "a", 3.0)))
    assert rows(table, "id", "price") == [(1, 3.0), (2, 2.0)]


@pytest.mark.row("A2", "J7")
def test_several_partition_columns_make_folders_inside_one_another(location: str) -> None:
    schema = pa.schema([("id", pa.int32()), ("year", pa.int32()), ("land", pa.string()), ("v", pa.string())])
    table = make(location, schema, partition_by=["year", "land"])
    table.upsert(pa.table([[1, 2, 3], [2025, 2026, 2026], ["de", "de", None], ["x", "y", "z"]], schema=schema))
    assert table.snapshot().view.partitions() == (
        "year=2025/land=de", "year=2026/land=__HIVE_DEFAULT_PARTITION__", "year=2026/land=de",
    )  # fmt: skip
    assert rows(table.scan(where="year = 2026 AND land = 'de'"), "id") == [(2,)]
    assert rows(table.scan(where="land IS NULL"), "id") == [(3,)]
    table.upsert(pa.table([[3], [2026], [None], ["zz"]], schema=schema))
    assert rows(table.scan(where="id = 3"), "v") == [("zz",)]
    properties = parse(Path(location, ".hoodie/hoodie.properties").read_bytes(), path="")
    assert properties["hoodie.table.partition.fields"] == "year:SIMPLE,land:SIMPLE"
    assert properties["hoodie.table.keygenerator.type"] == "CUSTOM"
    table.delete(pa.table({"id": pa.array([3], pa.int32()), "year": [2026], "land": pa.array([None], pa.string())}))
    assert rows(table, "id") == [(1,), (2,)]


@pytest.mark.row("A3")
def test_partitions_lie_below_random_prefixes_of_different_depth(location: str) -> None:
    options = {"pyhudi.partition.random.prefix": 2, "pyhudi.partition.random.prefix.depth": 3}
    table = make(location, options=options)
    days = [f"2026-01-{day:02d}" for day in range(1, 13)]
    table.upsert(orders(*((number, day, 1.0) for number, day in enumerate(days))))
    partitions = table.snapshot().view.partitions()
    assert {len(path.split("/")) for path in partitions} == {2, 3, 4}
    assert all(re.fullmatch(r"([0-9a-f]{2}/){1,3}day=2026-01-\d\d", path) for path in partitions)
    plain = hudi.open_table(location)  # the prefix is a property of the table
    plain.upsert(orders((0, days[0], 9.0), (100, days[0], 1.0)))
    assert plain.snapshot().view.partitions() == partitions
    assert rows(plain.scan(where=f"day = '{days[0]}'"), "id", "price") == [(0, 9.0), (100, 1.0)]
    assert plain.scan(where=f"day = '{days[0]}'").explain().steps[0].kept == 1


@pytest.mark.row("A3")
def test_partitions_below_prefixes_can_be_deleted_by_their_own_names(location: str) -> None:
    table = make(location, options={"pyhudi.partition.random.prefix": 2})
    table.upsert(orders((1, "a", 1.0), (2, "b", 2.0)))
    full = next(path for path in table.snapshot().view.partitions() if path.endswith("day=b"))
    table.delete_partitions(["day=a"])
    assert rows(table, "id") == [(2,)]
    table.delete_partitions([full])
    assert rows(table, "id") == []


@pytest.mark.row("A3", "A6")
def test_partitions_of_any_depth_are_found_by_their_metafile(location: str) -> None:
    options = {
        "hoodie.datasource.write.hive_style_partitioning": "false",
        "hoodie.datasource.write.partitionpath.urlencode": "false",
    }
    table = make(location, options=options)
    table.upsert(orders((1, "a", 1.0)))
    moved = Path(location, "x/y/z")
    moved.mkdir(parents=True)
    (moved / ".hoodie_partition_metadata").write_text("")
    Path(location, "a", "b").mkdir()
    Path(location, "a", "b", ".hoodie_partition_metadata.parquet").write_text("")
    Path(location, "no_metafile").mkdir()
    assert table.snapshot().view.partitions() == ("a", "a/b", "x/y/z")


@pytest.mark.row("A4", "J7")
def test_a_table_without_partitions_lies_flat(location: str) -> None:
    table = make(location, partition_by=())
    table.upsert(orders((1, "a", 1.0), (2, "b", 2.0)))
    table.upsert(orders((2, "c", 3.0), (3, "c", 3.0)))
    assert rows(table, "id", "day", "_hoodie_partition_path") == [(1, "a", ""), (2, "c", ""), (3, "c", "")]
    assert all("/" not in path for path in data_files(location))
    assert parse(Path(location, ".hoodie_partition_metadata").read_bytes(), path="")["partitionDepth"] == "0"
    assert rows(table.lookup(pa.table({"id": [2]})), "day") == [("c",)]
    table.insert_overwrite(orders((9, "z", 9.0)))
    assert rows(table, "id") == [(9,)]


@pytest.mark.row("A5")
def test_partition_columns_are_kept_in_the_data_files(location: str) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0)))
    [path] = data_files(location)
    assert pq.ParquetFile(f"{location}/{path}").read(["day"]).to_pylist() == [{"day": "a"}]


@pytest.mark.row("A6")
def test_every_partition_has_its_metafile_before_data_and_keeps_it(location: str) -> None:
    table = make(location)
    first = table.upsert(orders((1, "a", 1.0)))
    table.upsert(orders((1, "a", 2.0), (2, "b", 2.0)))
    text = Path(location, "day=a/.hoodie_partition_metadata").read_bytes()
    assert text.startswith(b"#partition metadata\n")
    assert parse(text, path="") == {"commitTime": first.instant, "partitionDepth": "1"}
    assert Path(location, "day=b/.hoodie_partition_metadata").exists()


@pytest.mark.row("A7")
def test_special_characters_of_partition_values_are_encoded_and_read_back(location: str) -> None:
    values = [
        "a/b",
        "x=y",
        "50%",
        "what?",
        "a:b",
        "#1",
        "[z]",
        "{q}",
        "tab\tline\n",
        "ünïcode 漢字 😀",
        "sp ace",
        "dot.",
        "..a",
        "'q'",
    ]
    table = make(location)
    table.upsert(orders(*((number, value, 1.0) for number, value in enumerate(values))))
    assert "day=a%2Fb" in table.snapshot().view.partitions()
    assert [day for _, day in rows(table, "id", "day")] == values
    for number, value in enumerate(values):
        quoted = value.replace("'", "\\'")
        scan = table.scan(where=f"day = '{quoted}'")
        assert rows(scan, "id") == [(number,)], value
        assert scan.explain().steps[0].kept == 1, value
    table.upsert(orders(*((number, value, 2.0) for number, value in enumerate(values))))
    assert {price for (price,) in rows(table, "price")} == {2.0}


@pytest.mark.row("A7")
@pytest.mark.parametrize("hive", ["true", "false"])
def test_a_partition_value_that_begins_with_a_dot_or_underscore_is_not_lost(location: str, hive: str) -> None:
    table = make(location, options={"hoodie.datasource.write.hive_style_partitioning": hive})
    table.upsert(orders((1, ".x", 1.0), (2, "_y", 2.0)))
    assert rows(table, "id", "day") == [(1, ".x"), (2, "_y")]


@pytest.mark.row("A7")
def test_null_and_empty_partition_values_share_the_default_folder_and_stay_apart_as_values(location: str) -> None:
    table = make(location)
    table.upsert(orders((1, None, 1.0), (2, "", 2.0), (3, "a", 3.0)))
    assert table.snapshot().view.partitions() == ("day=__HIVE_DEFAULT_PARTITION__", "day=a")
    assert rows(table.scan(where="day IS NULL"), "id") == [(1,)]
    assert rows(table.scan(where="day = ''"), "id") == [(2,)]


@pytest.mark.row("A2", "A7")
@pytest.mark.parametrize(
    ("kind", "values", "folders"),
    [
        (pa.int64(), [-1, 20], ["p=-1", "p=20"]),
        (pa.int8(), [1, 2], ["p=1", "p=2"]),
        (pa.bool_(), [False, True], ["p=false", "p=true"]),
        (pa.date32(), [date(2026, 1, 2), date(1969, 12, 31)], ["p=1969-12-31", "p=2026-01-02"]),
        (pa.decimal128(5, 2), [Decimal("1.50"), Decimal("2.00")], ["p=1.50", "p=2.00"]),
    ],
)
def test_partitions_by_other_types_are_named_by_their_text_and_pruned(
    location: str, kind: pa.DataType, values: list, folders: list[str]
) -> None:
    schema = pa.schema([("id", pa.int64()), ("p", kind)])
    table = make(location, schema, partition_by="p")
    table.upsert(pa.table([[1, 2], pa.array(values, kind)], schema=schema))
    assert list(table.snapshot().view.partitions()) == folders
    import pyarrow.compute as pc

    scan = table.scan(where=pc.field("p") == pa.scalar(values[0], table.schema.field("p").type))
    assert rows(scan, "id") == [(1,)]


@pytest.mark.row("E1", "E7")
def test_base_files_are_named_by_group_salted_token_and_instant(location: str) -> None:
    table = make(location)
    first = table.upsert(orders((1, "a", 1.0)))
    second = table.upsert(orders((1, "a", 2.0)))
    names = sorted(Path(path).name for path in data_files(location))
    pattern = re.compile(r"([0-9a-f-]{36}-0)_(\d+)-(\d+)-(\d+)_(\d{17})\.parquet")
    parsed = [pattern.fullmatch(name) for name in names]
    assert all(parsed)
    assert {match[1] for match in parsed if match} == {table.snapshot().view.all_slices()[0].file_id}
    assert {match[5] for match in parsed if match} == {first.instant, second.instant}
    tokens = [match.group(2, 3, 4) for match in parsed if match]
    assert tokens[0] != tokens[1]
    assert all(0 <= int(part) < 2**31 for token in tokens for part in token)


@pytest.mark.row("E1")
def test_base_files_have_hudis_footers(location: str) -> None:
    table = make(location)
    table.upsert(orders((10, "a", 1.0), (2, "a", 2.0)))
    table.upsert(orders((3, "a", 3.0)))
    [piece] = table.snapshot().view.all_slices()
    with pa.OSFile(f"{location}/{piece.base.path}") as source:
        footer = read_footer(source, piece.base.path)
    assert (footer.min_key, footer.max_key, footer.rows) == ("10", "3", 3)
    bloom = footer.bloom()
    assert bloom is not None
    assert bloom.might_contain(pa.array(["10", "2", "3", "absent"])).tolist() == [True, True, True, False]
    assert footer.key_value["hoodie_bloom_filter_type_code"] == "DYNAMIC_V0"
    assert '"_hoodie_file_name"' in footer.key_value["parquet.avro.schema"]


@pytest.mark.row("E5")
def test_files_of_other_formats_are_refused_by_name(location: str) -> None:
    table = make(location)
    commit = table.upsert(orders((1, "a", 1.0)))
    [path] = data_files(location)
    source = Path(location, path)
    source.rename(source.with_suffix(".lance"))
    with pytest.raises(hudi.errors.UnsupportedTableError, match="of a format") as caught:  # noqa: PT012
        # The file is older than the first active commit of this timeline, and there is a history: it counts as archived.
        Path(location, ".hoodie/timeline/history").mkdir()
        Path(location, ".hoodie/timeline/history/_version_").write_text("1")
        for name in files(f"{location}/.hoodie/timeline", f"{commit.instant}*"):
            Path(location, ".hoodie/timeline", name).unlink()
        table.scan().to_arrow()
    assert caught.value.path is not None
    assert caught.value.path.endswith(".lance")


@pytest.mark.row("E5")
def test_lance_tables_are_refused_when_they_are_opened(location: str) -> None:
    make(location)
    path = Path(location, ".hoodie/hoodie.properties")
    path.write_bytes(path.read_bytes().replace(b"base.file.format=PARQUET", b"base.file.format=LANCE"))
    with pytest.raises(hudi.errors.UnsupportedTableError, match="LANCE"):
        hudi.open_table(location)


@pytest.mark.row("E9")
def test_rows_carry_the_five_meta_columns(location: str) -> None:
    table = make(location)
    first = table.upsert(orders((1, "a", 1.0), (2, "a", 2.0)))
    before = {row["id"]: row for row in table.scan().to_arrow().to_pylist()}
    second = table.upsert(orders((2, "a", 3.0), (3, "a", 3.0)))
    scanned = table.scan().to_arrow()
    assert scanned.schema.names == [*META, "id", "day", "price", "ts"]
    found = {row["id"]: row for row in scanned.to_pylist()}
    [piece] = table.snapshot().view.all_slices()
    assert {row["_hoodie_file_name"] for row in found.values()} == {str(piece.base.name)}
    assert {row["_hoodie_partition_path"] for row in found.values()} == {"day=a"}
    assert [found[key]["_hoodie_commit_time"] for key in (1, 2, 3)] == [first.instant, second.instant, second.instant]
    assert [found[key]["_hoodie_record_key"] for key in (1, 2, 3)] == ["1", "2", "3"]
    assert found[1]["_hoodie_commit_seqno"] == before[1]["_hoodie_commit_seqno"], "an unchanged row keeps its number"
    numbers = [row["_hoodie_commit_seqno"] for row in found.values()]
    assert len(set(numbers)) == 3
    assert all(
        re.fullmatch(rf"{row['_hoodie_commit_time']}_\d+_\d+", row["_hoodie_commit_seqno"]) for row in found.values()
    )


@pytest.mark.row("J7", "P5", "P14")
def test_several_key_columns_make_a_complex_key(location: str) -> None:
    schema = pa.schema([("a", pa.string()), ("b", pa.int32()), ("day", pa.string()), ("v", pa.int64())])
    table = make(location, schema, record_key=["a", "b"])
    table.upsert(pa.table([["x", None, ""], [1, 2, 3], ["d"] * 3, [1, 2, 3]], schema=schema))
    assert rows(table, "_hoodie_record_key") == [("a:__empty__,b:3",), ("a:__null__,b:2",), ("a:x,b:1",)]
    table.upsert(pa.table([["x", None], [1, 2], ["d"] * 2, [10, 20]], schema=schema))
    assert rows(table, "v") == [(3,), (10,), (20,)]
    properties = parse(Path(location, ".hoodie/hoodie.properties").read_bytes(), path="")
    assert properties["hoodie.table.keygenerator.type"] == "COMPLEX"
    assert properties["hoodie.table.recordkey.fields"] == "a,b"
    assert rows(table.lookup(pa.table({"a": ["x"], "b": [1]})), "v") == [(10,)]
    table.delete(pa.table({"a": ["x"], "b": pa.array([1], pa.int32()), "day": ["d"]}))
    assert rows(table, "v") == [(3,), (20,)]


def test_the_bloom_filter_of_a_file_grows_with_its_rows_and_keeps_every_key(location: str) -> None:
    table = make(location, partition_by=())
    sizes, first = [], 0
    for last in (1, 60, 130, 700):
        table.upsert(orders(*((number, "a", 1.0) for number in range(first, last))))
        first = last
        [piece] = table.snapshot().view.all_slices()
        sizes.append(piece.base.size)
        with pa.OSFile(f"{location}/{piece.base.path}") as source:
            bloom = read_footer(source, piece.base.path).bloom()
        assert bloom is not None
        assert bloom.might_contain(pa.array([str(number) for number in range(last)])).all()
        assert not bloom.might_contain(pa.array(["absent", "-1"])).any()
    assert sizes[0] < 20_000, "Hudi's filter alone takes 430 KB"
    assert bloom.row_entries == 2_048


@pytest.mark.row("J7", "P14")
def test_one_key_and_one_partition_make_a_simple_key_unique_within_its_partition(location: str) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0), (1, "b", 2.0)))
    assert rows(table, "_hoodie_record_key", "day") == [("1", "a"), ("1", "b")]
    table.upsert(orders((1, "b", 3.0)))
    assert rows(table, "day", "price") == [("a", 1.0), ("b", 3.0)]


def test_files_without_hudis_footers_are_updated_like_others(location: str) -> None:
    table = make(location, partition_by=())
    table.upsert(orders((1, "a", 1.0), (2, "a", 2.0)))
    [path] = data_files(location)
    plain = pq.ParquetFile(f"{location}/{path}").read().replace_schema_metadata(None)
    pq.write_table(plain, f"{location}/{path}")
    assert rows(table.lookup(pa.table({"id": [2]})), "price") == [(2.0,)]
    table.upsert(orders((2, "a", 20.0), (3, "a", 3.0)))
    assert rows(table, "id", "price") == [(1, 1.0), (2, 20.0), (3, 3.0)]
    [piece] = table.snapshot().view.all_slices()
    with pa.OSFile(f"{location}/{piece.base.path}") as source:
        footer = read_footer(source, piece.base.path)
    bloom = footer.bloom()
    assert bloom is not None
    assert bloom.might_contain(pa.array(["1", "2", "3"])).all(), "the rewritten file knows all keys"
    assert (footer.min_key, footer.max_key) == ("1", "3")


def test_the_codec_and_the_row_groups_follow_the_options(location: str) -> None:
    make(location)
    table = reopen(
        hudi.open_table(location), **{"hoodie__parquet__compression__codec": "zstd", "pyhudi.parquet.row.group.rows": 4}
    )
    table.upsert(orders(*((number, "a", 1.0) for number in range(10))))
    [path] = data_files(location)
    metadata = pq.ParquetFile(f"{location}/{path}").metadata
    assert [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)] == [4, 4, 2]
    assert metadata.row_group(0).column(5).compression == "ZSTD"
