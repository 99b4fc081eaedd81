"""Base files in ORC and HFile are read like those in Parquet; which it is the name says, so a file group may hold several kinds."""

from __future__ import annotations

import datetime as dt
import zlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc
from support.golden import unpack
from support.log_files import golden_hfiles

import pyhudi_core as hudi
from pyhudi_core.errors import CorruptBaseFileError, LimitExceededError, UnsupportedTableError
from pyhudi_core.formats.avro.encoding import encode_records
from pyhudi_core.formats.base_file import BaseFileReader, is_parquet, orc_tail, read_footer
from pyhudi_core.formats.base_file.hfile import HFileBaseFile
from pyhudi_core.formats.base_file.joined import JoinedBaseFile
from pyhudi_core.formats.base_file.orc import OrcBaseFile, _at_instants
from pyhudi_core.formats.base_file.orc_tail import Stripe, read_stripes, read_tail
from pyhudi_core.formats.base_file.parquet import ParquetBaseFile
from pyhudi_core.formats.base_file.reader import BaseFileFormat
from pyhudi_core.formats.hfile import HFileWriter
from pyhudi_core.model.schema import to_avro

NUMBERS = np.random.default_rng(1).integers(0, 2**62, 50_000)
ROWS = pa.table({"id": pa.array(range(50_000), pa.int64()), "n": NUMBERS, "a": [f"row {n}" for n in NUMBERS.tolist()]})


def orc_bytes(table: pa.Table, **options: object) -> bytes:
    sink = pa.BufferOutputStream()
    orc.write_table(table, sink, **options)
    return sink.getvalue().to_pybytes()


def reader(data: bytes, name: str = "f.orc", columns: list[str] | None = None) -> BaseFileReader:
    return BaseFileReader(pa.BufferReader(data), name, columns)


def rows_of(opened: BaseFileReader, **options: object) -> pa.Table:
    return pa.Table.from_batches(list(opened.iter_batches(**options)))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def new_york(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A table of ORC files, written by a JVM whose time zone is America/New_York."""
    return unpack("hudi-1.0.2/cow_orc_base", tmp_path_factory.mktemp("orc") / "t")


@pytest.mark.one_in(4)
@pytest.mark.row("E2")
def stripes_of(source: pa.NativeFile) -> list[Stripe]:
    return read_stripes(source, "f", read_tail(source, "f"))


@pytest.mark.parametrize("compression", ["uncompressed", "zlib", "snappy", "zstd"])
def test_stripes_are_row_groups_that_can_be_read_one_by_one(compression: str) -> None:
    data = orc_bytes(ROWS, compression=compression, stripe_size=64 << 10)
    opened = reader(data)
    assert opened.rows == 50_000
    assert len(opened.row_group_rows) > 2
    assert sum(opened.row_group_rows) == 50_000
    assert opened.row_group_statistics(["id"]) == [{}] * len(opened.row_group_rows)
    assert rows_of(opened).equals(ROWS)
    second = rows_of(opened, row_groups=[1])
    first = opened.row_group_rows[0]
    assert second.column("id").to_pylist() == list(range(first, first + opened.row_group_rows[1]))
    assert {len(batch) for batch in opened.iter_batches([0], batch_rows=1000)} <= {1000, first % 1000}
    assert {stripe.time_zone for stripe in stripes_of(pa.BufferReader(data))} <= {"GMT", "UTC", ""}


def test_only_wanted_columns_are_given_and_absent_ones_left_out() -> None:
    data = orc_bytes(ROWS.slice(0, 100))
    opened = reader(data, columns=["later", "a"])
    assert opened.schema.names == ["id", "n", "a"]
    assert rows_of(opened).column_names == ["a"]
    assert sum(len(batch) for batch in reader(data, columns=[]).iter_batches()) == 100
    assert list(reader(orc_bytes(ROWS.slice(0, 0))).iter_batches()) == []


@pytest.mark.row("E2")
def test_hudis_values_are_in_the_footer(new_york: str) -> None:
    [path] = sorted(Path(new_york, "p").glob("*.orc"))
    with pa.OSFile(str(path)) as source:
        footer = read_footer(source, path.name)
        opened = BaseFileReader(source, path.name)
        assert footer.rows == opened.rows == 29
        assert (footer.min_key, footer.max_key) == ("k002", "k058")
        bloom = footer.bloom()
        assert bloom is not None
        assert bloom.might_contain(pa.array(["k002", "k058", "k003"])).tolist() == [True, True, False]
        assert opened.schema.field("at").type == pa.timestamp("us", "UTC"), "an instant, as the Avro schema says"
        assert [stripe.time_zone for stripe in stripes_of(source)] == ["America/New_York"]


@pytest.mark.row("E2")
def test_times_are_instants_whatever_zone_the_writer_ran_in(new_york: str) -> None:
    found = {
        row["id"]: row["at"] for row in hudi.open_table(new_york).scan(columns=["id", "at"]).to_arrow().to_pylist()
    }
    start = dt.datetime(1970, 1, 2, 6, 30, 0, 456, tzinfo=dt.UTC)
    assert found == {
        f"k{n:03}": start + dt.timedelta(hours=n * 6007) if n % 5 else None for n in [*range(1, 60), 61, 63, 65, 67, 69]
    }


def test_times_inside_of_other_values_are_instants_too() -> None:
    wall = dt.datetime(2024, 7, 1, 8, 0)
    kind = pa.timestamp("ns")
    batch = pa.RecordBatch.from_arrays(
        [
            pa.array([{"x": wall}, None], pa.struct([("x", kind)])),
            pa.array([[wall, None], None], pa.list_(kind)),
            pa.array([[("k", wall)], None], pa.map_(pa.string(), kind)),
            pa.array([1, 2]),
        ],
        names=["s", "l", "m", "n"],
    )
    found = _at_instants(batch, "America/New_York")
    found.validate(full=True)
    instant = pa.scalar(dt.datetime(2024, 7, 1, 12, 0, tzinfo=dt.UTC), pa.timestamp("ns", "UTC"))
    assert found.column(0)[0]["x"] == instant
    assert found.column(1)[0].values[0] == instant
    assert found.column(1)[0].values[1].as_py() is None
    assert found.column(2).items[0] == instant
    assert [column.null_count for column in found.columns] == [1, 1, 1, 0]
    assert found.column(3).to_pylist() == [1, 2]


@pytest.mark.row("E2")
def test_conditions_and_columns_hold_for_such_tables(new_york: str) -> None:
    table = hudi.open_table(new_york)
    rows = table.scan(columns=["id"], where="i < -20 and part = 'q' and day > date '1995-01-01'").to_arrow()
    everything = [row for row in table.scan().to_arrow().to_pylist() if row["i"] is not None]
    wanted = [r["id"] for r in everything if r["i"] < -20 and r["part"] == "q" and r["day"] > dt.date(1995, 1, 1)]
    assert sorted(rows.column("id").to_pylist()) == sorted(wanted)
    assert len(wanted) > 5
    assert table.scan(where="a is null").to_arrow().num_rows == 64 - len(everything)


@pytest.mark.row("E2")
def test_a_table_of_orc_files_is_not_written(new_york: str) -> None:
    table = hudi.open_table(new_york)
    with pytest.raises(UnsupportedTableError, match="ORC"):
        table.upsert(table.scan().to_arrow().slice(0, 1))


@pytest.mark.row("E3")
def test_hfiles_that_hudi_wrote_are_base_files() -> None:
    name, data = next((name, data) for name, data in golden_hfiles("hudi-1.0.2") if "files-0000" in name)
    opened = reader(data, "f.hfile", ["key", "type"])
    found = rows_of(opened)
    assert found.column_names == ["key", "type"], name
    assert found.num_rows == opened.rows == sum(opened.row_group_rows)
    assert opened.footer().key_value["parquet.avro.schema"].startswith("{")
    assert sum(len(batch) for batch in reader(data, "f.hfile", []).iter_batches()) == opened.rows
    assert list(reader(data, "f.hfile").iter_batches([])) == []


def test_an_hfile_with_an_array_or_a_map_of_very_many_items_is_read() -> None:
    names = pa.array([[(f"k{n}", n) for n in range(10_001)], []], pa.map_(pa.string(), pa.int64()))
    rows = pa.table({"id": ["a", "b"], "items": [list(range(10_001)), [1]], "names": names})
    avro = to_avro(rows.schema, "t")
    writer = HFileWriter(avro)
    writer.add_batch(rows.column("id").combine_chunks(), encode_records(avro, rows).values())
    assert rows_of(reader(writer.finish(), "f.hfile")).to_pylist() == rows.to_pylist()


@pytest.mark.parametrize(
    ("name", "parquet"), [("a_0-0-0_1.orc", False), ("a_0-0-0_1.hfile", False), ("a_0-0-0_1.parquet", True)]
)
def test_the_name_says_the_format(name: str, parquet: bool) -> None:
    assert is_parquet(name) is parquet


@pytest.mark.parametrize("kind", [ParquetBaseFile, OrcBaseFile, HFileBaseFile, JoinedBaseFile])
def test_each_format_has_the_properties_and_methods_that_are_declared_for_all(kind: type) -> None:
    declared = {name: type(member) for name, member in vars(BaseFileFormat).items() if not name.startswith("_")}
    found = {name: type(vars(kind)[name]) for name in declared if name in vars(kind)}
    assert found == {name: declared[name] for name in found}
    assert len(declared) == 6
    assert set(declared) - set(found) <= {"schema"}, "an attribute of two formats"


@pytest.mark.parametrize("name", ["f.orc", "f.hfile"])
@pytest.mark.parametrize("data", [b"", b"x", b"ORC" + b"\0" * 5000, b"PAR1" * 2000])
def test_bytes_of_another_kind_are_a_typed_error(name: str, data: bytes) -> None:
    with pytest.raises(hudi.errors.CorruptionError):
        reader(data, name)


def test_a_damaged_tail_is_a_typed_error() -> None:
    data = orc_bytes(ROWS.slice(0, 100), compression="zlib")
    for damage in (b"", data[:-1], data[:-1] + b"\xff"):
        with pytest.raises((ValueError, OSError)):
            stripes_of(pa.BufferReader(damage or b"\xff"))


@pytest.mark.parametrize("data", [b"\xff", b"ORC" + b"\xc8"])
def test_a_tail_that_begins_before_its_file_is_damage_and_no_error_of_the_storage(data: bytes) -> None:
    with pytest.raises(ValueError, match="points beyond the file"):
        stripes_of(pa.BufferReader(data))


def test_a_tail_that_inflates_without_end_is_refused() -> None:
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    bomb = packer.compress(b"\0" * (64 << 20)) + packer.flush()
    chunk = (len(bomb) << 1).to_bytes(3, "little") + bomb
    with pytest.raises(ValueError, match="larger than any"):
        orc_tail._plain(chunk + chunk, 1, "f", 1 << 20)


def test_orc_compressed_in_another_way_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedTableError, match="codec 4"):
        orc_tail._plain((10 << 1).to_bytes(3, "little") + bytes(10), 4, "f", 1)


def test_a_tail_that_tells_of_no_stripes_is_a_typed_error(monkeypatch: pytest.MonkeyPatch) -> None:
    opened = reader(orc_bytes(ROWS.slice(0, 100)))
    monkeypatch.setattr("pyhudi_core.formats.base_file.orc.read_stripes", lambda *_: [])
    with pytest.raises(CorruptBaseFileError, match="other stripes"):
        _ = opened.row_group_rows


def test_a_stripe_with_more_rows_than_the_limit_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyhudi_core.formats.base_file.orc.MAX_STRIPE_ROWS", 99)
    with pytest.raises(LimitExceededError, match="more rows"):
        list(reader(orc_bytes(ROWS.slice(0, 100))).iter_batches())


def test_a_file_with_two_columns_of_one_name_is_damaged_in_each_format() -> None:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table([[1], [2]], names=["c", "c"]), sink)
    named = pa.schema([("ab", pa.int64()), ("cd", pa.int64())])
    twins = orc_bytes(pa.table([[1], [2]], schema=named), compression="uncompressed").replace(
        b"\x1a\x02cd", b"\x1a\x02ab"
    )
    for name, data in (("f.parquet", sink.getvalue().to_pybytes()), ("f.orc", twins)):
        with pytest.raises(CorruptBaseFileError, match="several columns with the name"):
            reader(data, name)
