"""Each pair of types, of data and of a column, has one result at every way into a table: the value, a wider column, or the same refusal."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from support.tables import FAST
from support.type_pairs import ACCEPTED, REFUSED, SOURCES, TARGETS, column, data, expected, found, stored

import pyhudi_core as hudi
from pyhudi_core.cli import main
from pyhudi_core.engine import local
from pyhudi_core.errors import HudiError, SchemaMismatchError, UnsupportedTableError
from pyhudi_core.importing.import_files import ImportStyle, import_rows
from pyhudi_core.write import streams

Door = Callable[[hudi.HudiTable, pa.Table, Path], object]
PAIRS = list(ACCEPTED)


def _reader(table: hudi.HudiTable, rows: pa.Table, folder: Path) -> object:
    return table.upsert(rows.to_reader())


def _import(table: hudi.HudiTable, rows: pa.Table, folder: Path) -> object:
    pq.write_table(rows, folder / "rows.parquet")
    before = pa.schema([table.schema.field(name) for name in rows.schema.names])
    read = import_rows([str(folder / "rows.parquet")], ImportStyle(), before, table=table.location, keys=["id"])
    return table.upsert(read.reader().read_all())


DOORS: dict[str, Door] = {
    "upsert": lambda table, rows, folder: table.upsert(rows),
    "import": _import,
    "insert": lambda table, rows, folder: table.insert(rows),
    "bulk_insert": lambda table, rows, folder: table.bulk_insert(rows),
    "reader through files": _reader,
    "reader": _reader,
    "insert_overwrite": lambda table, rows, folder: table.insert_overwrite(rows),
}


@pytest.fixture
def few_in_memory(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if "files" in request.node.callspec.id:
        monkeypatch.setattr(streams, "IN_MEMORY", 0)


def _table(rows: pa.Table, name: str) -> hudi.HudiTable:
    table = hudi.create_table(f"memory://types/{name.replace(' ', '_')}", rows.schema, record_key="id")
    table.upsert(rows)
    return table


@pytest.mark.usefixtures("few_in_memory")
@pytest.mark.parametrize("door", DOORS)
def test_a_type_that_fits_gives_the_same_column_and_value_at_every_door(door: str, tmp_path: Path) -> None:
    table = _table(stored(PAIRS), f"fits_{door}")
    assert DOORS[door](table, data(PAIRS), tmp_path)
    assert found(table.scan().to_arrow(), PAIRS) == expected(PAIRS)


@pytest.fixture(scope="module")
def refusals() -> dict[tuple[str, str], str]:
    """What an upsert says of each pair that does not fit."""
    table = _table(pa.table({"id": [1], **TARGETS}), "refusals")
    return {pair: _refusal(lambda pair=pair: table.upsert(_wrong(pair))) for pair in REFUSED}


def _wrong(pair: tuple[str, str]) -> pa.Table:
    source, target = pair
    return pa.table({"id": [2], **TARGETS, target: SOURCES[source]})


def _refusal(call: Callable[[], object]) -> str:
    with pytest.raises(SchemaMismatchError) as caught:
        call()
    return caught.value.message


@pytest.mark.one_in(3)
@pytest.mark.usefixtures("few_in_memory")
@pytest.mark.parametrize("door", [door for door in DOORS if door != "upsert"])
def test_a_type_that_does_not_fit_is_refused_with_one_sentence_at_every_door(
    door: str, tmp_path: Path, refusals: dict[tuple[str, str], str]
) -> None:
    table = _table(pa.table({"id": [1], **TARGETS}), f"refused_{door}")
    for pair in REFUSED:
        rows = _wrong(pair) if door != "import" else _wrong(pair).select(["id", pair[1]])
        assert _refusal(lambda rows=rows: DOORS[door](table, rows, tmp_path)) == refusals[pair], pair
    assert table.scan().count() == 1


def _source(folder: Path, first: pa.Table, second: pa.Table) -> str:
    folder.mkdir(exist_ok=True)
    pq.write_table(first, folder / "1.parquet")
    pq.write_table(second, folder / "2.parquet")
    return str(folder)


def _copies_only(pair: tuple[str, str]) -> bool:
    """Files with these types are not read as a copy is: whole numbers as floating-point ones, and 32 bits of a number, which reads widen by its text."""
    source, target = SOURCES[pair[0]].type, ACCEPTED[pair]
    whole = pa.types.is_floating(source) and pa.types.is_integer(target)
    return whole or (source == pa.float32() and target == pa.float64())


@pytest.mark.parametrize("mode", ["FULL_RECORD", "METADATA_ONLY"])
def test_files_of_a_bootstrap_meet_as_batches_do(
    mode: str, tmp_path: Path, location: str, refusals: dict[tuple[str, str], str]
) -> None:
    def run(first: pa.Table, second: pa.Table) -> Any:
        return hudi.bootstrap(
            _source(tmp_path / "source", first, second), location, "id", mode=mode, storage_options=FAST
        )

    for pair in REFUSED:
        first = pa.table({"id": [1], pair[1]: TARGETS[pair[1]]})
        message = _refusal(lambda first=first, pair=pair: run(first, _wrong(pair).select(first.schema.names)))
        assert message.endswith(refusals[pair]), pair
        assert not Path(location).exists()
    pairs = [pair for pair in PAIRS if mode == "FULL_RECORD" or not _copies_only(pair)]
    for pair in set(PAIRS) - set(pairs):
        with pytest.raises(UnsupportedTableError, match="FULL_RECORD"):
            run(stored([pair]), data([pair]))
        assert not Path(location).exists()
    assert run(stored(pairs), data(pairs))
    assert found(hudi.open_table(location).scan().to_arrow(), pairs) == expected(pairs)


def test_the_command_refuses_what_an_upsert_refuses_and_leaves_the_table_as_it_was(
    tmp_path: Path, location: str
) -> None:
    pq.write_table(pa.table({"id": [1], **TARGETS}), tmp_path / "1.parquet")
    for source, target in (("text", "int64"), ("micros", "date"), ("int64", "bool"), ("nanos_fine", "micros")):
        pq.write_table(_wrong((source, target)), tmp_path / "2.parquet")
        files = [str(tmp_path / name) for name in ("1.parquet", "2.parquet")]
        done = CliRunner().invoke(main, ["import", location, *files, "--record-key", "id"])
        assert done.exit_code == 2
        assert f"Column {target}" in done.output
        assert "2.parquet" in done.output
        assert not Path(location).exists(), "the files are looked at before the table is made"


def test_integers_that_a_later_file_of_one_import_makes_double_keep_their_values(location: str, tmp_path: Path) -> None:
    large = pa.table({"id": [1], "c": pa.array([2**53 + 1])})
    half = pa.table({"id": [2], "c": pa.array([0.5])})
    files = []
    for number, rows in enumerate((half, large)):
        pq.write_table(rows, tmp_path / f"{number}.parquet")
        files.append(str(tmp_path / f"{number}.parquet"))
    for order in (files, files[::-1]):
        done = CliRunner().invoke(main, ["import", location, *order, "--record-key", "id"])
        assert done.exit_code == 2, "no column holds both, so neither order writes anything"
        assert not Path(location).exists()
    lossless = pa.table({"id": [1], "c": pa.array([3], pa.int32())})
    pq.write_table(lossless, files[1])
    assert CliRunner().invoke(main, ["import", location, *files[::-1], "--record-key", "id"]).exit_code == 0
    assert sorted(hudi.open_table(location).scan().to_arrow()["c"].to_pylist()) == [0.5, 3.0]


def test_column_names_differ_for_each_pair() -> None:
    assert len({column(*pair) for pair in PAIRS}) == len(PAIRS)
    with pytest.raises(HudiError):
        _table(data([("nulls", "bool")]), "untyped")


def _not_utf8(*texts: bytes) -> pa.Array:
    return pa.array(texts, pa.binary()).view(pa.string())


INVALID = {
    "text": _not_utf8(b"\xff\xfe"),
    "large text": pa.array([b"caf\xe9"], pa.large_binary()).view(pa.large_string()),
    "text in a dictionary": pa.DictionaryArray.from_arrays(pa.array([0]), _not_utf8(b"\x80")),
    "position in a dictionary": pa.DictionaryArray.from_arrays(pa.array([7]), pa.array(["a"]), safe=False),
    "text in a struct": pa.StructArray.from_arrays([_not_utf8(b"\xff")], ["a"]),
    "text in a list": pa.ListArray.from_arrays(pa.array([0, 1], pa.int32()), _not_utf8(b"\xff")),
    "digits": pa.Array.from_buffers(pa.decimal128(5, 2), 1, [None, pa.py_buffer((10**30).to_bytes(16, "little"))]),
    "time of day": pa.array([86_400_000_000], pa.time64("us")),
}
"""Values that Arrow accepts without a look at them. The bytes of the first ones are those of texts in Latin-1."""


@pytest.mark.usefixtures("few_in_memory")
@pytest.mark.parametrize("table_type", ["copy_on_write", "merge_on_read"])
@pytest.mark.parametrize("door", [*DOORS, "many rows"])
def test_a_value_that_its_own_type_cannot_hold_is_refused_at_every_door(
    door: str, table_type: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if door == "many rows":
        monkeypatch.setattr(local, "_MANY_ROWS", 0)
    for kind, value in INVALID.items():
        if door == "import" and (kind == "digits" or pa.types.is_dictionary(value.type)):
            continue  # pyarrow writes no file with such a value
        rows = pa.table({"id": [2], "v": value})
        where = f"memory://invalid/{door}/{table_type}/{kind}".replace(" ", "_")
        table = hudi.create_table(where, rows.schema, record_key="id", table_type=table_type)
        table.upsert(pa.table({"id": [2], "v": pa.nulls(1)}))
        before = table.scan().to_arrow()
        with pytest.raises(SchemaMismatchError, match="Column v has a value that is not valid"):
            DOORS.get(door, DOORS["upsert"])(table, rows, tmp_path)
        assert table.scan().to_arrow().equals(before), kind


@pytest.mark.parametrize("column", ["id", "day", "ts"])
@pytest.mark.parametrize("rows", ["few", "many"])
def test_a_text_that_is_not_utf8_is_refused_in_the_columns_of_key_partition_and_ordering(
    column: str, rows: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if rows == "many":
        monkeypatch.setattr(local, "_MANY_ROWS", 0)
    good = pa.table({"id": ["a"], "day": ["b"], "ts": ["c"]})
    where = f"memory://invalid/{column}/{rows}"
    table = hudi.create_table(where, good.schema, "id", "day", "ts", "merge_on_read")
    table.upsert(good)
    bad = good.set_column(good.schema.get_field_index(column), column, _not_utf8(b"\xff"))
    keys = bad.select(["id", "day"])
    calls = [lambda: table.upsert(bad), lambda: table.merge(bad, on=["id", "day"]).when_not_matched_insert_all().run()]
    calls += [lambda: table.replace(bad, where="true"), lambda: table.upsert(bad, batch=True)]
    calls += [] if column == "ts" else [lambda: table.delete(keys), lambda: table.lookup(keys).to_arrow()]
    for number, call in enumerate(calls):
        with pytest.raises(SchemaMismatchError, match=f"Column {column} has a value"):
            call()
        assert table.count() == 1, number
