"""A table in the folder of another one, such as ``sales/eu`` in ``sales``: all that walks a table passes over it, all that walks a lake
finds it, and no write of one goes into the folder of the other. None is made in the folder of a table, or around one, by this project."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from support.disk import contents
from support.tables import WITHOUT_METADATA_TABLE, create_plain, in_memory, make_around

import pyhudi_core as hudi
from pyhudi_core.errors import InvalidOptionError, TableError, TableExistsError, UnsafePathError
from pyhudi_core.lake_tables import tables_below
from pyhudi_core.runtime.system import SerialExecutor
from pyhudi_core.storage.local import LocalStorage
from pyhudi_core.storage.own_part import objects_of_table

SCHEMA = pa.schema([("id", pa.int64()), ("region", pa.string())])
NOW_MS = 4_000_000_000_000


@pytest.fixture(params=[None, "region"], ids=["whole", "partitioned"])
def tables(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[hudi.HudiTable, hudi.HudiTable]:
    """The tables ``sales`` and ``sales/eu``; the outer one has partitions or none. Each has rows, and an unfinished file of a dead writer."""
    found = []
    for place, key in ((tmp_path / "sales" / "eu", 7), (tmp_path / "sales", 1)):
        by = {} if request.param is None else {"partition_by": request.param}
        table = make_around(str(place), SCHEMA, "id", options=WITHOUT_METADATA_TABLE, **by)
        table.upsert(pa.table({"id": [key], "region": ["us"]}, schema=SCHEMA))
        (place / ".pyhudi-1.tmp").write_bytes(b"")
        found.append(table)
    return found[1], found[0]


def test_what_walks_a_table_passes_over_the_table_inside(tables: tuple[hudi.HudiTable, hudi.HudiTable]) -> None:
    outer, inner = tables
    report = outer.check()
    assert report.ok, report.findings
    assert report.counts["data files"] == 1
    assert inner.check().ok
    before = contents(inner.location)
    storage = LocalStorage(outer.location)
    assert not [info.path for info in objects_of_table(storage, SerialExecutor()) if info.path.startswith("eu/")]
    assert storage.sweep_temporaries("", 0, NOW_MS) == [".pyhudi-1.tmp"]
    assert not [file.path for file in outer.record_incident().files if file.path.startswith("eu/")]
    outer.sweep.run()
    outer.delete(pa.table({"id": [1], "region": ["us"]}, schema=SCHEMA))
    assert contents(inner.location) == before
    assert inner.scan().count() == 1


def test_a_table_whose_timeline_is_gone_is_recovered_without_the_table_inside(
    tables: tuple[hudi.HudiTable, hudi.HudiTable],
) -> None:
    outer, inner = tables
    (Path(outer.location) / ".hoodie").rename(Path(outer.location).parent / "gone")
    plan = hudi.plan_recovery(outer.location, "id", [], table_type="copy_on_write")
    assert [file.path.startswith("eu/") for files in plan.files.values() for file in files] == [False]
    assert inner.scan().count() == 1


def test_the_walk_of_a_lake_finds_the_table_inside_and_of_a_table_it_alone(
    tables: tuple[hudi.HudiTable, hudi.HudiTable],
) -> None:
    outer, inner = tables
    assert tables_below(str(Path(outer.location).parent)) == [outer.location, inner.location]
    assert tables_below(outer.location) == [outer.location]
    assert {line.table for line in hudi.upkeep(str(Path(outer.location).parent), plan=True).lines} == {
        outer.location,
        inner.location,
    }


PLACES = pa.schema([("id", pa.int64()), ("land", pa.string()), ("city", pa.string())])
NOT_HIVE = {"hoodie.datasource.write.hive_style_partitioning": "false"}


def table_of_places(location: str, **options: str) -> hudi.HudiTable:
    return make_around(location, PLACES, "id", ["land", "city"], options={**NOT_HIVE, **options})


def _row(key: int, land: str, city: str) -> pa.Table:
    return pa.table({"id": [key], "land": [land], "city": [city]}, PLACES)


@pytest.mark.parametrize("enabled", ["true", "false"], ids=["metadata table", "no metadata table"])
@pytest.mark.parametrize("inner", ["de", "de/bonn"])
def test_rows_whose_partition_is_another_table_are_refused_before_a_file_is_written(inner: str, enabled: str) -> None:
    place = f"memory://inside/{inner.replace('/', '-')}-{enabled}"
    other = table_of_places(f"{place}/{inner}")
    outer = table_of_places(place, **{"hoodie.metadata.enable": enabled})
    other.upsert(_row(1, "fr", "nancy"))
    outer.upsert(_row(1, "fr", "nancy"))
    before = [str(instant) for instant in outer.timeline]

    for write in (outer.upsert, outer.insert, outer.bulk_insert, outer.insert_overwrite):
        with pytest.raises(
            UnsafePathError, match=f"de/bonn, but another table is in the folder {inner}.*folder of its own"
        ):
            write(pa.concat_tables([_row(2, "de", "bonn"), _row(3, "fr", "nancy")]))
    assert [str(instant) for instant in outer.timeline][: len(before)] == before
    assert outer.scan().count() == other.scan().count() == 1
    outer.upsert(_row(4, "fr", "nancy"))
    assert outer.check().ok


def test_a_table_below_a_partition_is_in_nobodys_way() -> None:
    inner = table_of_places("memory://inside/below/de/bonn/x")
    outer = table_of_places("memory://inside/below")
    inner.upsert(_row(1, "fr", "nancy"))

    outer.upsert(_row(2, "de", "bonn"))

    assert outer.scan().count() == inner.scan().count() == 1
    assert outer.check().ok and inner.check().ok


def test_a_lake_in_a_folder_that_became_a_table_later_renames_its_tables(tmp_path: Path) -> None:
    lake = hudi.lake(tmp_path / "lake")
    lake.create("a", PLACES, "id").upsert(_row(1, "de", "bonn"))
    root = make_around(str(tmp_path), PLACES, "id", ["land", "city"], options=WITHOUT_METADATA_TABLE)

    assert lake.rename("a", "b").scan().count() == 1

    with pytest.raises(TableError, match="in that of the table") as refused:
        lake.create("c", PLACES, "id")
    assert "drop leaves the tables inside it" in str(refused.value.hint)
    root.drop()
    lake.create("c", PLACES, "id")
    assert lake.table("b").scan().count() == 1


INSIDE = ("inner", "metadata", "de", "de/bonn", "de/bonn/x", ".hoodie/x", ".hoodie/metadata/x")


@pytest.mark.parametrize("kind", ["disk", "memory"])
def test_no_table_is_made_in_the_folder_of_another_by_any_door(kind: str, tmp_path: Path) -> None:
    lake = hudi.lake(tmp_path / "lake" if kind == "disk" else "memory://no-table-in-a-table")
    outer = lake.create("crm/orders", PLACES, "id", partition_by=["land", "city"], options=NOT_HIVE)
    outer.upsert(_row(1, "de", "bonn"))
    lake.create("other", PLACES, "id")
    before = contents(tmp_path)
    doors = (
        lambda name: hudi.create_table(f"{outer.location}/{name}", PLACES, "id"),
        lambda name: hudi.create_table(f"{outer.location}/{name}", PLACES, "id", exist_ok=True),
        lambda name: lake.create(f"crm/orders/{name}", PLACES, "id"),
        lambda name: lake.create_or_open(f"crm/orders/{name}", PLACES, "id"),
        lambda name: hudi.lake(f"{outer.location}/de").create(name, PLACES, "id"),
        lambda name: hudi.bootstrap(str(tmp_path), f"{outer.location}/{name}", "id"),
        lambda name: hudi.sql(f'CREATE TABLE crm."orders/{name}" (id BIGINT) USING hudi', lake),
    )
    for place, door in enumerate(doors):
        for name in INSIDE:
            with pytest.raises(
                (TableError, InvalidOptionError), match="in that of the table|names no table|."
            ) as refused:
                door(name)
            assert refused.value.hint, (place, name)
    if kind == "disk":
        for name in INSIDE:
            with pytest.raises(InvalidOptionError):
                lake.rename("other", f"crm/orders/{name}")
    with pytest.raises(TableError, match=r"has a part \.hoodie"):
        hudi.create_table(f"{lake.location}/free/.hoodie/x", PLACES, "id")
    assert contents(tmp_path) == before
    assert lake.list() == ("crm/orders", "other")
    assert outer.scan().count() == 1


@pytest.mark.parametrize("kind", ["disk", "memory"])
@pytest.mark.parametrize("inner", ["inner", "metadata", "de/bonn", "a/b/c/d"])
def test_no_table_is_made_around_another_by_any_door(kind: str, inner: str, tmp_path: Path) -> None:
    lake = hudi.lake(tmp_path / "lake" if kind == "disk" else in_memory())
    table = lake.create(f"crm/orders/{inner}", PLACES, "id")
    table.upsert(_row(1, "de", "bonn"))
    before, place = contents(tmp_path), lake.location_of("crm/orders")
    doors = (
        lambda: hudi.create_table(place, PLACES, "id"),
        lambda: hudi.create_table(place, PLACES, "id", exist_ok=True),
        lambda: hudi.create_table(lake.location, PLACES, "id"),
        lambda: lake.create("crm", PLACES, "id"),
        lambda: lake.create_or_open("crm/orders", PLACES, "id"),
        lambda: hudi.sql('CREATE TABLE crm."orders" (id BIGINT) USING hudi LOCATION ' + f"'{place}'", lake),
    )
    for number, door in enumerate(doors):
        with pytest.raises(TableError, match=f"the table .*/crm/orders/{inner} is in this folder") as refused:
            door()
        assert "beside the other one" in str(refused.value.hint), number
    assert contents(tmp_path) == before
    assert lake.list() == (f"crm/orders/{inner}",)
    table.drop()
    assert lake.create("crm/orders", PLACES, "id").scan().count() == 0


def test_a_table_that_has_tables_in_its_folder_exists(tmp_path: Path) -> None:
    create_plain(f"{tmp_path}/lake/inner", PLACES, "id")
    outer = make_around(f"{tmp_path}/lake", PLACES, "id", options=WITHOUT_METADATA_TABLE)

    with pytest.raises(TableExistsError):
        hudi.create_table(outer.location, PLACES, "id")
    assert hudi.create_table(outer.location, PLACES, "id", exist_ok=True).location == outer.location
