"""Tables of Hudi with indexes: conditions, joins and look-ups read fewer files and give the same rows."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from support.golden import unpack
from support.tables import create_plain

import pyhudi_core as hudi
from pyhudi_core.errors import InvalidOptionError, PendingDeletesError, PredicateError
from pyhudi_core.predicates import Predicate

NAMES = [f"hudi-{release}/{kind}_indexed" for release in ("1.0.2", "1.2.0") for kind in ("cow", "mor")]


@pytest.fixture(scope="module", params=NAMES)
def table(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> hudi.HudiTable:
    return hudi.open_table(unpack(request.param, tmp_path_factory.mktemp("indexed") / "table"))


def kept(scan: hudi.Scan, step: str) -> tuple[int, int]:
    """What a step of the plan kept, and of how many."""
    found = next(s for s in scan.explain().steps if s.name == step)
    return found.kept, found.of


def ids(found: hudi.Scan | pa.Table) -> list[str]:
    rows = found if isinstance(found, pa.Table) else found.to_arrow()
    return sorted(rows.column("id").to_pylist())


@pytest.mark.one_in(3)
@pytest.mark.row("I2", "I3")
@pytest.mark.parametrize(
    "where", ["ts >= 4", "ts = 1", "qty < 20", "price > 90.0", "label IS NULL", "ts > 100", "label = 'no such'", "id < 'k0001'"]
)  # fmt: skip
def test_statistics_leave_out_files_and_no_rows(table: hudi.HudiTable, where: str) -> None:
    everything = table.scan().to_arrow()
    scan = table.scan(where=where)
    predicate = Predicate.of(where, everything.schema)
    assert predicate is not None
    assert ids(scan) == ids(everything.filter(predicate.expression))


def test_a_value_that_is_nowhere_reads_no_file(table: hudi.HudiTable) -> None:
    scan = table.scan(where="ts > 1000")
    assert kept(scan, "partitions after partition statistics")[0] == 0
    assert scan.slices() == []
    assert scan.to_arrow().num_rows == 0


@pytest.mark.one_in(2)
def test_a_semi_join_reads_the_files_that_can_hold_a_key(table: hudi.HudiTable) -> None:
    everything = table.scan().to_arrow()
    wanted = everything.column("id").to_pylist()[:3]
    scan = table.scan(semi_join=([*wanted, "nowhere"], "id"))
    assert ids(scan) == sorted(wanted)
    assert len(scan.slices()) <= 3 < len(table.scan().slices()) + 1
    both = pc.and_(pc.is_in(everything.column("id"), pa.array(wanted)), pc.greater(everything.column("ts"), 1))
    assert ids(table.scan(where="ts > 1", semi_join=(pa.array(wanted), "id"))) == ids(everything.filter(both))
    assert table.scan(semi_join=([], "id")).to_arrow().num_rows == 0
    assert table.scan(semi_join=([10_000, None], "ts")).slices() == []
    assert ids(table.scan(semi_join=(everything.column("ts").unique(), "ts"))) == ids(everything)


def test_join_keys_must_fit_the_column(table: hudi.HudiTable) -> None:
    with pytest.raises(PredicateError):
        table.scan(semi_join=(["text"], "ts"))
    with pytest.raises(PredicateError):
        table.scan(semi_join=([1], "no such column"))


def test_a_look_up_by_key_reads_the_file_groups_that_the_record_index_names(table: hudi.HudiTable) -> None:
    everything = table.scan().to_arrow()
    row = everything.slice(0, 1)
    scan = table.lookup(row.select(["id"]))
    assert len(scan.slices()) == 1
    assert scan.to_arrow().to_pylist() == row.to_pylist()
    assert table.lookup(pa.table({"id": ["nowhere"]})).slices() == []


@pytest.mark.one_in(2, first=1)
def test_a_look_up_by_secondary_key_gives_the_rows_with_the_value(table: hudi.HudiTable) -> None:
    everything = table.scan().to_arrow()
    values = everything.column("label").drop_null().unique().to_pylist()[:3]
    found = table.lookup(pa.table({"label": values}), index="idx_label")
    assert ids(found) == ids(everything.filter(pc.is_in(everything.column("label"), pa.array(values))))
    with pytest.raises(InvalidOptionError, match="idx_label"):
        table.lookup(pa.table({"label": values}), index="no such index")


@pytest.mark.row("D7", "U8", "R12")
def test_read_optimized_says_what_it_leaves_out(table: hudi.HudiTable) -> None:
    scan = table.scan(mode="read_optimized")
    stale = scan.staleness()
    assert stale.is_current == (table.config.table_type.value == "COPY_ON_WRITE")
    if stale.is_current:
        assert str(stale) == "nothing is left out"
    else:
        assert stale.log_bytes > 0
        assert stale.oldest <= table.scan().completion_time
        assert str(stale.log_files) in str(stale)


@pytest.mark.row("D7", "U8", "R12")
def test_read_optimized_refuses_with_pending_deletes(tmp_path: Path) -> None:
    table = hudi.open_table(unpack("hudi-1.0.2/mor_cdc_data_before", tmp_path / "table"))
    assert table.scan(mode="read_optimized").staleness().deletes == 8
    with pytest.raises(PendingDeletesError, match="8 deletes"):
        table.scan(mode="read_optimized", refuse_pending_deletes=True)
    with pytest.raises(InvalidOptionError):
        table.scan(mode="fast")


@pytest.mark.row("L11")
def test_a_commit_that_the_metadata_table_does_not_know_is_seen_all_the_same(tmp_path: Path) -> None:
    location = unpack("hudi-1.0.2/cow_plain", tmp_path / "table")
    before = ids(hudi.open_table(location).scan())
    known = hudi.open_table(location).snapshot().metadata
    assert known is not None
    own = sorted(Path(location, ".hoodie", "metadata", ".hoodie", "timeline").glob("*_*.deltacommit"))
    own[-1].unlink()  # as if the newest commit's writer had forgotten the metadata table
    table = hudi.open_table(location)
    assert table.snapshot().metadata is None, "the files of the storage are listed instead"
    assert ids(table.scan()) == before


def test_a_metadata_table_that_is_listed_but_not_there_is_passed_over(tmp_path: Path) -> None:
    location = unpack("hudi-1.0.2/mor_avro", tmp_path / "table")
    before = ids(hudi.open_table(location).scan())
    shutil.rmtree(Path(location, ".hoodie", "metadata"))
    assert ids(hudi.open_table(location).scan()) == before


@pytest.mark.parametrize("release", ["1.0.2", "1.2.0"])
def test_a_semi_join_over_base_files_shows_rows_that_only_the_logs_delete(tmp_path: Path, release: str) -> None:
    table = hudi.open_table(unpack(f"hudi-{release}/mor_indexed", tmp_path / "table"))
    base = table.scan(mode="read_optimized").to_arrow()
    keys = base.column("id")
    assert set(ids(base)) - set(ids(table.scan())), "some of its rows are deleted in logs"
    assert ids(table.scan(mode="read_optimized", semi_join=(keys, "id"))) == ids(base)


@pytest.mark.row("I4")
def test_without_a_record_index_bloom_filters_say_which_files_can_hold_a_key(tmp_path: Path) -> None:
    location = unpack("hudi-1.0.2/cow_expressions", tmp_path / "table")
    properties = Path(location, ".hoodie", "hoodie.properties")
    properties.write_text(properties.read_text().replace("partition_stats,record_index", "partition_stats"))
    table = hudi.open_table(location)
    assert table.snapshot().metadata is not None
    everything = table.scan().to_arrow()
    for row in everything.slice(0, 5).select(["id"]).to_pylist():
        scan = table.lookup(pa.table({"id": [row["id"]]}))
        assert kept(scan, "slices after bloom filters") == (1, 6)
        assert ids(scan) == [row["id"]]
    assert table.lookup(pa.table({"id": ["nowhere"]})).slices() == []


def test_a_read_optimized_query_shows_rows_whose_indexed_value_is_newer_in_logs(location: str) -> None:
    schema = pa.schema([("id", pa.int64()), ("day", pa.string()), ("city", pa.string()), ("ts", pa.int64())])
    table = create_plain(location, schema, "id", "day", ordering="ts", table_type="mor")
    first = {"id": [1, 2, 3], "day": ["a", "b", "b"], "city": ["Rome", "Bern", "Rome"], "ts": [1, 1, 1]}
    table.upsert(pa.table(first, schema))
    table.indexes.create("by_city", ["city"])
    table.upsert(pa.table({"id": [1], "day": ["a"], "city": ["Paris"], "ts": [2]}, schema))
    table.delete(pa.table({"id": [3], "day": ["b"]}))
    scan = hudi.open_table(location).scan(where="city = 'Rome'", mode="read_optimized")
    assert sorted(scan.to_arrow().column("id").to_pylist()) == [1, 3]
    assert kept(hudi.open_table(location).scan(where="city = 'Bern'"), "slices after secondary index") == (1, 2)
