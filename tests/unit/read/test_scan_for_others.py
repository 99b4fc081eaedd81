"""Scans in the hands of other libraries: Arrow's C stream, pandas, polars, DuckDB; the first rows, and the number of rows."""

from __future__ import annotations

import gc
import pickle
import weakref
from collections.abc import Callable
from pathlib import Path

import duckdb
import polars
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest
from support.tables import make, orders, rows

import pyhudi_core as hudi
from pyhudi_core.errors import ConfigError, CorruptionError, InvalidOptionError, SchemaMismatchError
from pyhudi_core.model.meta_fields import META_FIELDS
from pyhudi_core.read.dataset import ScanDataset
from pyhudi_core.table import HudiTable


@pytest.fixture(params=["copy_on_write", "merge_on_read"])
def table(request: pytest.FixtureRequest, location: str) -> HudiTable:
    made = make(location, table_type=request.param)
    made.insert(orders((1, "a", 1.0), (2, "a", 2.0), (3, "b", 3.0)))
    made.upsert(orders((2, "a", 20.0, 9)))
    made.delete(orders((3, "b", 0.0, 9)))
    made.insert(orders((4, "b", 4.0), (5, "c", 5.0)))
    return made


def test_libraries_take_a_scan_as_it_is(table: HudiTable) -> None:
    scan = table.scan(columns=["id", "price"])
    wanted = {(1, 1.0), (2, 20.0), (4, 4.0), (5, 5.0)}
    assert {tuple(row.values()) for row in pa.table(scan).to_pylist()} == wanted
    assert {tuple(row.values()) for row in pa.RecordBatchReader.from_stream(scan).read_all().to_pylist()} == wanted
    assert set(polars.DataFrame(scan).rows()) == wanted
    assert set(scan.to_pandas().itertuples(index=False, name=None)) == wanted
    assert scan.to_reader().schema == scan.schema


def test_a_scan_can_be_written_to_another_table(table: HudiTable, tmp_path: Path) -> None:
    copy = make(str(tmp_path / "copy"))
    copy.insert(table.scan(columns=copy.schema.names))
    assert rows(copy, "id", "price") == rows(table, "id", "price")


@pytest.mark.one_in(3)
@pytest.mark.parametrize("where", [None, "price > 3", "day = 'a'", "price > 100"])
def test_the_count_is_the_number_of_rows(table: HudiTable, where: str | None) -> None:
    scan = table.scan(where=where)
    assert scan.count() == scan.to_arrow().num_rows
    assert (
        table.incremental(after=None, where=where).count()
        == table.incremental(after=None, where=where).to_arrow().num_rows
    )


def test_counting_all_rows_opens_no_file(location: str) -> None:
    table = make(location)
    table.insert(orders((1, "a", 1.0), (2, "a", 2.0), (3, "b", 3.0)))
    for path in Path(location).glob("*/*.parquet"):
        path.write_bytes(bytes(path.stat().st_size))
    assert table.scan().count() == 3


def test_a_count_that_has_to_read_files_that_are_gone_says_so(location: str) -> None:
    table = make(location)
    table.insert(orders((1, "a", 1.0)))
    scan = table.scan(where="price > 0").pinned()
    next(Path(location).glob("*/*.parquet")).unlink()
    with pytest.raises(CorruptionError, match="is missing"):
        scan.count()


def test_a_limit_goes_with_every_way_to_read(table: HudiTable) -> None:
    scan = table.scan(columns=["id"]).limit(3)
    assert [scan.to_arrow().num_rows, scan.count(), len(scan.to_pandas()), scan.to_reader().read_all().num_rows] == [
        3
    ] * 4
    assert scan.limit(9).count() == 3
    assert scan.limit(0).to_arrow().num_rows == 0
    assert scan.to_dataset().count_rows() == 3
    with pytest.raises(InvalidOptionError, match="not a number of rows"):
        scan.limit(-1)


def test_a_condition_on_the_dataset_of_a_limited_scan_applies_to_its_rows(table: HudiTable) -> None:
    scan = table.scan(columns=["id"]).limit(1)
    (first,) = scan.to_arrow()["id"].to_pylist()
    assert scan.to_dataset().count_rows(pc.field("id") == first) == 1
    assert scan.to_dataset().count_rows(pc.field("id") != first) == 0
    assert scan.to_polars().filter(polars.col("id") != first).collect().height == 0


@pytest.mark.parametrize("most", [0, 3, 9])
def test_the_tasks_of_a_limited_scan_read_as_many_rows_as_the_scan(table: HudiTable, most: int) -> None:
    scan = table.scan(columns=["id"]).limit(most)
    read = [batch for task in scan.tasks() for batch in pickle.loads(pickle.dumps(task)).batches()]
    assert pa.Table.from_batches(read, scan.schema) == scan.to_arrow()


def test_meta_columns_are_left_out_on_request(table: HudiTable) -> None:
    assert table.scan().schema.names == [*META_FIELDS, *table.schema.names]
    for scan in (table.scan(meta=False), table.incremental(meta=False), table.scan(meta=False, mode="read_optimized")):
        assert scan.schema.names == scan.to_arrow().schema.names == list(scan.to_pandas().columns) == table.schema.names
    assert table.scan(columns=["_hoodie_record_key"], meta=False).schema.names == ["_hoodie_record_key"]


def _steps(scan: hudi.Scan) -> dict[str, tuple[int, int]]:
    return {step.name: (step.kept, step.of) for step in scan.explain().steps}


@pytest.mark.parametrize("ask", ["duckdb", "polars", "pyarrow"])
def test_columns_and_conditions_are_pushed_down(table: HudiTable, ask: str, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[hudi.Scan] = []
    narrowed = hudi.Scan.narrowed

    def spy(self: hudi.Scan, *arguments: object, **named: object) -> hudi.Scan:
        read.append(narrowed(self, *arguments, **named))
        return read[-1]

    monkeypatch.setattr(hudi.Scan, "narrowed", spy)
    scan = table.scan(where="price < 19")
    dataset = scan.to_dataset()
    if ask == "duckdb":
        found = duckdb.from_arrow(dataset).filter("day = 'b' AND price > 3").project("id").fetchall()
    elif ask == "polars":
        lazy = scan.to_polars().filter((polars.col("day") == "b") & (polars.col("price") > 3))
        found = lazy.select("id").collect().rows()
    else:
        found = [tuple(row.values()) for row in dataset.to_table(["id"], pc.field("day") == "b").to_pylist()]
    assert found == [(4,)]
    assert set(read[-1].rows.read_schema.names) <= {"id", "day", "price"}
    assert {piece.partition for piece in read[-1].slices()} == {"day=b"}


def test_a_dataset_stays_what_it_was(table: HudiTable) -> None:
    dataset = table.scan(columns=["id"]).to_dataset()
    table.insert(orders((9, "a", 9.0)))
    ids = [row["id"] for row in dataset.to_table().to_pylist()]
    assert sorted(ids) == [1, 2, 4, 5]
    assert dataset.count_rows(pc.field("id") > 3) == 2
    assert dataset.head(2).num_rows == 2
    with pytest.raises(SchemaMismatchError, match="The scan has no column 'price'"):
        dataset.to_table(columns=["price"])


def test_a_dataset_that_nobody_has_any_more_is_gone_and_so_is_what_its_maker_had(table: HudiTable) -> None:
    """An error inside of pyarrow would keep the frames of all callers, with the connections and rows in them, until the process ends."""

    class Own:
        pass

    def used(use: Callable[[ds.Dataset], object]) -> list[weakref.ref[object]]:
        own, dataset = Own(), table.scan().to_dataset()
        use(dataset)
        return [weakref.ref(own), weakref.ref(dataset)]

    def queried(dataset: ds.Dataset) -> object:
        with duckdb.connect() as connection:
            return connection.register("rows_of_it", dataset).sql("SELECT * FROM rows_of_it WHERE id > 1").fetchall()

    for use in (lambda dataset: None, lambda dataset: dataset.to_table(), queried):
        left = used(use)
        gc.collect()
        assert [each() for each in left] == [None, None]


def test_every_public_member_of_a_dataset_is_defined_for_scans() -> None:
    """What pyarrow defines itself would read the file that cannot be read."""
    public = {name for name in (*dir(ds.Dataset), *dir(ds.UnionDataset)) if not name.startswith("_")}
    assert public - set(vars(ScanDataset)) == set()


def test_a_dataset_does_what_its_rows_allow(table: HudiTable) -> None:
    dataset = table.scan(columns=["id", "price"]).to_dataset()
    named = pa.table({"id": [1, 5], "name": ["one", "five"]})
    joined = [{"id": 1, "price": 1.0, "name": "one"}, {"id": 5, "price": 5.0, "name": "five"}]
    few = dataset.filter(pc.field("id") > 1).filter(pc.field("price") < 19)
    assert sorted(few.to_table()["id"].to_pylist()) == [4, 5]
    assert few.sort_by([("id", "descending")]).to_table()["id"].to_pylist() == [5, 4]
    for right in (named, ds.dataset(named)):
        assert dataset.join(right, "id", join_type="inner").sort_by("id").to_table().to_pylist() == joined
    assert dataset.join(table.scan(columns=["id"]).to_dataset(), "id", join_type="inner").count_rows() == 4
    one = dataset.filter(pc.field("id") == 5).join_asof(ds.dataset(named), on="id", by=[], tolerance=-9)
    assert one.to_table().to_pylist() == joined[1:]
    assert dataset.take([1, 0], columns=["id"]) == dataset.to_table(["id"]).take([1, 0])
    assert dataset.partition_expression.equals(pc.scalar(True))


@pytest.mark.parametrize(
    "ask",
    [
        lambda dataset: dataset.get_fragments(),
        lambda dataset: dataset.children,
        lambda dataset: dataset.replace_schema(pa.schema([("id", pa.string())])),
        lambda dataset: ds.dataset(pa.table({"id": [1]})).join(dataset, "id").to_table(),
        lambda dataset: ds.dataset([dataset, dataset]).to_table(),
        lambda dataset: ds.Scanner.from_dataset(dataset).to_table(),
    ],
    ids=["fragments", "children", "schema", "right_side", "union", "scanner"],
)
def test_what_a_dataset_of_a_scan_cannot_do_is_refused(location: str, ask: Callable[[ds.Dataset], object]) -> None:
    with pytest.raises(ConfigError, match="dataset of a scan .*(to_table|tasks)"):
        ask(make(location).scan(columns=["id"]).to_dataset())


def test_a_condition_on_the_key_skips_files_by_their_bloom_filters(location: str) -> None:
    """Ranges of random keys overlap, so statistics skip no file."""
    table = make(location, pa.schema([("id", pa.string()), ("day", pa.string())]))
    names = [f"{number * 7919 % 1000:04d}" for number in range(60)]
    table.insert(pa.table({"id": names, "day": [f"{number % 4}" for number in range(60)]}))
    found = table.scan(where=f"id = '{names[17]}' AND day IS NOT NULL")
    assert _steps(found)["files after statistics"] == (1, 4)
    assert rows(found, "id") == [(names[17],)]
    assert rows(table.scan(where=f"id IN ('{names[1]}', '{names[2]}', 'none')"), "id") == sorted(
        [(names[1],), (names[2],)]
    )
    assert rows(table.scan(where=f"id = '{names[3]}' OR day = '9'"), "id") == [(names[3],)]
    assert table.scan(where="id = 'none'").to_arrow().num_rows == 0


def test_the_head_has_as_many_rows_as_asked_for_and_there_are(table: HudiTable) -> None:
    scan = table.scan(columns=["id"])
    everything = scan.to_arrow().to_pylist()
    assert scan.head(2).to_pylist() == scan.head(2).to_pylist()
    assert scan.head(2).num_rows == 2
    assert all(row in everything for row in scan.head(2).to_pylist())
    assert scan.head(100).num_rows == len(everything)
    assert scan.head(0).schema == scan.schema
    assert hudi.open_table(table.location).scan().head().num_rows == len(everything)
