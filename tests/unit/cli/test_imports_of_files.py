"""`pyhudi import` takes files as they are found: without rows, damaged, with old times and odd names. A refused import leaves nothing behind."""

from __future__ import annotations

import json
import math
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result
from support.disk import contents

import pyhudi_core as hudi
from pyhudi_core.cli.main import main
from pyhudi_core.errors import CorruptBaseFileError, InvalidOptionError, SchemaMismatchError

ROWS = {"id": [1, 2], "v": ["a", "b"]}


def run(location: str, *arguments: object) -> Result:
    return CliRunner().invoke(main, ["import", location, *map(str, arguments), "--json"])


def new(location: str, *arguments: object) -> Result:
    return run(location, *arguments, "--record-key", "id")


def stored(location: str, *names: str) -> list[dict[str, Any]]:
    return hudi.open_table(location).scan(columns=names, meta=False).to_arrow().sort_by(names[0]).to_pylist()


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    """Files with the same two columns: with rows, without, and damaged."""
    folder = tmp_path / "files"
    folder.mkdir()
    whole = pa.table(ROWS)
    pq.write_table(whole, folder / "rows.parquet")
    pq.write_table(whole.slice(0, 0), folder / "no_rows.parquet")
    with pq.ParquetWriter(folder / "no_groups.parquet", whole.schema):
        pass
    (folder / "names.csv").write_text("id,v\n")
    (folder / "rows.csv").write_text("id,v\n3,c\n")
    big = pa.table({"id": list(range(1_000)), "v": [str(number) for number in range(1_000)]})
    pq.write_table(big, folder / "page.parquet", compression="none", use_dictionary=False)
    data = bytearray((folder / "page.parquet").read_bytes())
    data[4:40] = b"\xff" * 36
    (folder / "page.parquet").write_bytes(data)
    (folder / "cut.parquet").write_bytes((folder / "rows.parquet").read_bytes()[:-20])
    (folder / "nothing.parquet").write_bytes(b"")
    (folder / "nothing.csv").write_bytes(b"")
    (folder / "ragged.csv").write_text("id,v\n1,a\n2\n")
    (folder / "typed.csv").write_text("id,v\nx,a\n")
    return {path.name: path for path in folder.iterdir()}


PLACES = [(0, "first"), (1, "middle"), (2, "last")]


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("place", "_"), PLACES)
@pytest.mark.parametrize("empty", ["no_rows.parquet", "no_groups.parquet", "names.csv"])
def test_a_file_without_rows_is_nothing_special(
    files: dict[str, Path], location: str, empty: str, place: int, _: str
) -> None:
    order = [files["rows.parquet"], files["rows.csv"]]
    order.insert(place, files[empty])
    done = new(location, *order)
    assert (done.exit_code, json.loads(done.stdout)["inserted"]) == (0, 3), done.output
    assert [row["id"] for row in stored(location, "id", "v")] == [1, 2, 3]
    again = run(location, files[empty])
    assert (again.exit_code, json.loads(again.stdout)["changed"]) == (0, False)


def test_a_file_without_rows_alone_makes_its_table_if_its_types_are_known(
    files: dict[str, Path], location: str
) -> None:
    assert new(location, files["no_rows.parquet"]).exit_code == 0
    assert hudi.open_table(location).schema == pa.schema([("id", pa.int64()), ("v", pa.string())])
    done = new(f"{location}-csv", files["names.csv"])
    assert done.exit_code == 2
    assert "--type id=string" in done.output
    assert not Path(f"{location}-csv").exists()
    assert new(f"{location}-csv", files["names.csv"], "--type", "id=int64", "--type", "v=string").exit_code == 0


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("place", "_"), PLACES)
@pytest.mark.parametrize(
    "damaged",
    ["page.parquet", "cut.parquet", "nothing.parquet", "nothing.csv", "ragged.csv", "typed.csv", "absent.csv"],
)
def test_a_damaged_file_is_refused_by_its_name_and_no_table_is_left(
    files: dict[str, Path], location: str, damaged: str, place: int, _: str
) -> None:
    wrong = files["rows.csv"].with_name(damaged)
    order = [files["rows.parquet"], files["rows.csv"]]
    order.insert(place, wrong)
    if damaged == "typed.csv":
        order.insert(0, files["no_rows.parquet"])  # it has the type
    done = new(location, *order)
    assert done.exit_code == 2, done.exception
    assert str(wrong) in done.output.replace("\n", "")
    assert not Path(location).exists()
    assert new(location, files["rows.parquet"]).exit_code == 0
    before = contents(location)
    assert run(location, *order).exit_code == 2
    assert contents(location) == before, "an import into a table that is there is one commit, or none"


def test_what_the_rows_are_refused_for_leaves_no_table_either(
    files: dict[str, Path], location: str, tmp_path: Path
) -> None:
    (tmp_path / "keys.csv").write_text("id,v\n1,a\n,b\n")
    assert "InvalidRecordKeyError" in new(location, tmp_path / "keys.csv").output
    pq.write_table(pa.table({"id": [1], "v": ["x" * 300]}), tmp_path / "long.parquet")
    assert new(location, tmp_path / "long.parquet", "--partition-by", "v").exit_code == 2
    assert new(location, files["rows.csv"], "--table-type", "odd").exit_code == 2
    twice = (files["rows.csv"], files["rows.csv"])
    for operation in ("insert", "bulk_insert"):
        assert "DuplicateKeyError" in new(location, *twice, "--operation", operation).output
    assert not Path(location).exists()
    assert (
        new(location, *twice, "--operation", "insert", "--option", "hoodie.combine.before.insert=true").exit_code == 0
    )


def test_files_without_a_key_are_rows_with_generated_keys(files: dict[str, Path], location: str) -> None:
    assert run(location, files["rows.parquet"], files["rows.parquet"]).exit_code == 0
    first = run(location, files["rows.csv"])
    assert (first.exit_code, "are there twice now" in " ".join(first.stderr.split())) == (0, True)
    assert [row["id"] for row in stored(location, "id", "v")] == [1, 1, 2, 2, 3]
    keyed = run(location, files["rows.csv"], "--record-key", "id")
    assert keyed.exit_code == 2
    assert "import all files into another location with --record-key" in " ".join(keyed.output.split())
    assert "Omit" not in keyed.output


@pytest.mark.parametrize(
    ("sign", "given"), [(";", "--delimiter ';'"), ("\t", "--delimiter tab"), ("|", "--delimiter '|'")]
)
def test_a_file_with_another_delimiter_is_answered_with_the_option(
    location: str, tmp_path: Path, sign: str, given: str
) -> None:
    (tmp_path / "rows.csv").write_text(f"id{sign}v\n1{sign}a\n")
    done = new(location, tmp_path / "rows.csv")
    assert (done.exit_code, given in " ".join(done.output.split())) == (2, True), done.output
    assert new(location, tmp_path / "rows.csv", "--delimiter", sign).exit_code == 0


def test_a_missing_file_is_answered_with_what_is_there(files: dict[str, Path], location: str) -> None:
    folder = files["rows.csv"].parent
    assert "Did you mean rows.csv?" in new(location, folder / "row.csv").output
    assert "Check the path" in new(location, folder / "nothing at all").output
    assert "It is a folder, not a file" in new(location, folder).output


def test_an_import_that_adds_a_column_names_it_and_the_older_job_learns_the_ways_out(
    files: dict[str, Path], location: str, tmp_path: Path
) -> None:
    assert json.loads(new(location, files["rows.parquet"]).stdout)["columns_added"] == []
    (tmp_path / "more.csv").write_text("id,v,note\n3,c,new\n")
    assert json.loads(run(location, tmp_path / "more.csv").stdout)["columns_added"] == ["note"]
    older = " ".join(run(location, files["rows.csv"]).output.split())
    for way in ("Add the columns", "upsert(rows, partial=True)", "table.alter(drop=[...])"):
        assert way in older


def test_a_commit_names_the_fields_that_its_rows_brought_at_every_level(location: str) -> None:
    table = hudi.create_table(location, pa.schema([("id", pa.int64()), ("s", pa.struct([("a", pa.int64())]))]), "id")
    first = table.upsert(pa.table({"id": [1], "s": [{"a": 1}]}, table.schema))
    wider = pa.table({"id": [2], "s": [{"a": 1, "b": 2}], "note": ["x"]})
    added = table.upsert(wider)
    assert (first.columns_added, added.columns_added) == ((), ("s.b", "note"))
    assert "new columns s.b, note; from now on a write whose rows lack them is refused" in " ".join(str(added).split())
    assert table.alter(add={"more": pa.int64()}).columns_added == ()


def test_a_later_value_that_is_not_of_the_type_leaves_no_table_and_the_type_can_be_given(
    location: str, tmp_path: Path
) -> None:
    (tmp_path / "a.csv").write_text("id,v\n" + "".join(f"{n},{n}\n" for n in range(110_000)) + "110000,0.5\n")
    done = new(location, tmp_path / "a.csv")
    assert done.exit_code == 2
    assert "--type v=double" in " ".join(done.output.split())
    assert not Path(location).exists()
    assert new(location, tmp_path / "a.csv", "--type", "v=double", "--operation", "bulk_insert").exit_code == 0


def test_times_of_spark_beyond_the_year_2262_are_read_everywhere(location: str, tmp_path: Path) -> None:
    times = [datetime(2026, 1, 1), datetime(9999, 12, 31), datetime(1600, 1, 1)]
    rows = pa.table({"id": [1, 2, 3], "until": pa.array(times, pa.timestamp("us"))})
    (tmp_path / "source").mkdir()
    pq.write_table(rows, tmp_path / "source/a.parquet", use_deprecated_int96_timestamps=True)
    assert new(location, tmp_path / "source/a.parquet").exit_code == 0
    for mode in ("METADATA_ONLY", "FULL_RECORD"):
        assert hudi.bootstrap(str(tmp_path / "source"), f"{location}-{mode}", "id", mode=mode)
    for place in (location, f"{location}-METADATA_ONLY", f"{location}-FULL_RECORD"):
        assert [row["until"] for row in stored(place, "id", "until")] == times


@pytest.mark.parametrize("mode", ["METADATA_ONLY", "FULL_RECORD"])
@pytest.mark.parametrize("damaged", ["page.parquet", "cut.parquet", "nothing.parquet"])
def test_a_damaged_file_of_a_bootstrap_is_one_error_and_no_table_is_left(
    files: dict[str, Path], location: str, tmp_path: Path, damaged: str, mode: str
) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for name in ("rows.parquet", "no_rows.parquet", "no_groups.parquet", damaged):
        (source / name).write_bytes(files[name].read_bytes())
    with pytest.raises(CorruptBaseFileError) as caught:
        hudi.bootstrap(str(source), location, "id", mode=mode)
    assert caught.value.path == str(source / damaged)
    assert not Path(location).exists()
    (source / damaged).unlink()
    assert hudi.bootstrap(str(source), location, "id", mode=mode)
    assert [row["id"] for row in stored(location, "id", "v")] == [1, 2]


def test_csv_words_separators_and_types_are_given(location: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('id;zip;country;x\n1;00501;NA;-\n2;10115;DE;nan\n3;;"-";2\n')
    options = ("--delimiter", ";", "--null", "-", "--type", "zip=string", "--type", "x=double")
    assert new(location, tmp_path / "a.csv", *options).exit_code == 0
    found = stored(location, "id", "zip", "country", "x")
    assert [(row["zip"], row["country"]) for row in found] == [("00501", "NA"), ("10115", "DE"), (None, "-")]
    assert found[0]["x"] is None
    assert math.isnan(found[1]["x"])
    (tmp_path / "b.tsv").write_text("id\tzip\tcountry\tx\n4\t007\tnull\t1\n")
    assert run(location, tmp_path / "b.tsv").exit_code == 0
    assert stored(location, "id", "zip", "country")[-1] == {"id": 4, "zip": "007", "country": "null"}


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (("--type", "v=number"), "is no type"),
        (("--type", "v"), "KEY=VALUE"),
        (("--type", "w=string"), "'w', which no CSV file has"),
        (("--delimiter", ";;"), "one ASCII character"),
        (("--delimiter", '"'), "one ASCII character"),
        (("--rename", "camel"), "camel"),
    ],
)
def test_a_wrong_option_is_refused_with_what_is_right(
    files: dict[str, Path], location: str, options: tuple[str, str], word: str
) -> None:
    done = new(location, files["rows.csv"], *options)
    assert done.exit_code == 2
    assert word in " ".join(done.output.split())
    assert not Path(location).exists()


def test_odd_names_are_renamed_where_that_is_asked(location: str, tmp_path: Path) -> None:
    rows = pa.table({"Order Id": [1], "Größe.cm": [2.5], "Wer": [{"Vor Name": "x"}]})
    (tmp_path / "source/Der Tag=a b").mkdir(parents=True)
    pq.write_table(rows, tmp_path / "source/Der Tag=a b/a.parquet")
    (tmp_path / "b.csv").write_text("Order Id,Größe.cm\n2,3\n")
    plain = run(location, tmp_path / "b.csv", "--record-key", "Order Id")
    assert plain.exit_code == 2
    assert "--rename snake" in " ".join(plain.output.split())
    parquet = tmp_path / "source/Der Tag=a b/a.parquet"
    assert run(location, parquet, "--record-key", "order_id", "--rename", "snake").exit_code == 0
    assert stored(location, "order_id", "groesse_cm", "wer") == [
        {"order_id": 1, "groesse_cm": 2.5, "wer": {"vor_name": "x"}}
    ]
    csv = f"{location}-csv"
    typed = ("--type", "groesse_cm=double", "--rename", "snake", "--record-key", "order_id")
    assert run(csv, tmp_path / "b.csv", *typed).exit_code == 0
    assert stored(csv, "order_id", "groesse_cm") == [{"order_id": 2, "groesse_cm": 3.0}]
    with pytest.raises(SchemaMismatchError, match="cannot be written"):
        hudi.bootstrap(str(tmp_path / "source"), f"{location}-all", "order_id")
    assert hudi.bootstrap(str(tmp_path / "source"), f"{location}-all", "order_id", rename="snake")
    assert stored(f"{location}-all", "order_id", "der_tag") == [{"order_id": 1, "der_tag": "a b"}]
    for wrong in ({"mode": "METADATA_ONLY", "rename": "snake"}, {"rename": "camel"}):
        with pytest.raises(InvalidOptionError, match="renam|rename"):
            hudi.bootstrap(str(tmp_path / "source"), f"{location}-in-place", "order_id", **wrong)  # type: ignore[arg-type]


def test_a_folder_whose_name_gives_another_type_than_a_column_is_refused(location: str, tmp_path: Path) -> None:
    for folder, rows in (("day=1", {"id": [1]}), ("other", {"id": [2], "day": [2]})):
        (tmp_path / "source" / folder).mkdir(parents=True)
        pq.write_table(pa.table(rows), tmp_path / "source" / folder / "a.parquet")
    with pytest.raises(SchemaMismatchError, match="Column day is int64 in the table and string in the data"):
        hudi.bootstrap(str(tmp_path / "source"), location, "id", partition_by=())
    assert not Path(location).exists()


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("latin.csv", "id,v\n1,Müller\n".encode("latin-1"), ("not UTF-8", "iconv")),
        ("latin_names.csv", "id,größe\n1,a\n".encode("latin-1"), ("not UTF-8", "iconv")),
        ("utf16.csv", "id,v\n1,Müller\n".encode("utf-16"), ("UTF-16", "iconv -f UTF-16")),
        ("open.csv", b'id,v\n1,"a\n2,b\n', ("line 2 has no closing quote", "written twice")),
        ("wide.csv", b"id,v\n1,a,b\n", ("got 3", "double quotes around it")),
        ("narrow.csv", b"id,v\n1\n", ("got 1", "as many fields as")),
        ("nothing.csv", b"", ("no bytes",)),
        ("rows.txt", b"id,v\n1,a\n", ("ends with .csv or .tsv",)),
        ("rows", b"id;v\n1;a\n", ("ends with .csv or .tsv",)),
        ("rows.csv.gz", b"\x1f\x8b\x08rows", ("compressed", "Unpack")),
        ("rows.zip", b"PK\x03\x04rows", ("compressed", "Unpack")),
        ("rows.xlsx", b"PK\x03\x04rows", ("pandas.read_excel",)),
        ("rows.json", b'{"id": 1}\n', ("pandas.read_json",)),
    ],
)
def test_a_file_that_is_not_readable_is_answered_with_how_to_make_it_readable(
    location: str, tmp_path: Path, name: str, data: bytes, words: tuple[str, ...]
) -> None:
    (tmp_path / name).write_bytes(data)
    refused = new(location, tmp_path / name)
    assert refused.exit_code == 2
    assert [word for word in words if word not in " ".join(refused.output.split())] == []


@pytest.mark.parametrize("command", ["import", "init"])
@pytest.mark.parametrize(
    ("made", "asked", "words"),
    [
        ("lake/orders", "lake", "a folder with tables"),
        ("lake/sales/orders", "lake", "a folder with tables"),
        ("lake/orders", "lake/orders/day=1", "a part of the table"),
        ("lake/orders", "lake/orders/new/deep", "a part of the table"),
    ],
)
def test_the_command_makes_no_table_around_or_inside_another_one(
    files: dict[str, Path], tmp_path: Path, command: str, made: str, asked: str, words: str
) -> None:
    hudi.create_table(str(tmp_path / made), pa.schema([("id", pa.int64())]), "id")
    before = contents(tmp_path)
    given = [str(files["rows.csv"])] if command == "import" else ["--column", "id:int64"]
    refused = CliRunner().invoke(main, [command, str(tmp_path / asked), *given, "--record-key", "id"])
    assert refused.exit_code == 2
    said = " ".join(refused.output.split())
    assert words in said
    assert "give a folder of its own" in said
    assert contents(tmp_path) == before


def test_the_command_makes_no_table_in_a_delta_table(files: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "delta" / "_delta_log").mkdir(parents=True)
    refused = new(str(tmp_path / "delta"), files["rows.csv"])
    assert refused.exit_code == 2
    assert "Delta table" in refused.output


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (("1", "NA"), "because of 'NA'; its other values are int64"),
        (("NA", "1.5"), "because of 'NA'; its other values are double"),
        (("2026-01-01", "-", "?"), "because of '-' and '?'; its other values are date32"),
        (("NULL", "true"), "because of 'NULL'"),
        (("3,50", "4"), "'3,50' has a decimal comma"),
        (("1.234,50", "2,00"), "decimal comma"),
        (("NA", "a"), ""),
        (("NA", "NA"), ""),
        (("007", "008"), ""),
        (("02134", "10001", "NA"), ""),
        (("a", "b"), ""),
        (("1", ""), ""),
        (("1 234", "2 345"), ""),
    ],
)
def test_a_column_that_one_word_makes_text_is_noted(
    location: str, tmp_path: Path, values: tuple[str, ...], said: str
) -> None:
    lines = "".join(f'{number},"{value}"\n' if value else f"{number},\n" for number, value in enumerate(values))
    (tmp_path / "rows.csv").write_text(f"id,v\n{lines}")
    done = CliRunner().invoke(main, ["import", location, str(tmp_path / "rows.csv"), "--record-key", "id", "--json"])
    assert done.exit_code == 0
    note = " ".join(done.stderr.split())
    assert (said in note) if said else not note
    assert [row["v"] for row in stored(location, "id", "v")] == [
        int(value) if value == "1" and "" in values else value or None for value in values
    ]


def test_the_note_is_right_for_words_and_values_far_from_each_other(location: str, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("id,v\n" + "".join(f"{n},{'NA' if n == 25_000 else n}\n" for n in range(30_000)))
    done = CliRunner().invoke(main, ["import", location, str(tmp_path / "rows.csv"), "--record-key", "id"])
    assert "--null 'NA'" in " ".join(done.output.split())


@pytest.mark.parametrize(
    ("given", "noted"),
    [(("--record-key", "id"), True), (("--record-key", "id", "--record-key", "v"), False), (("--record-key", "id", "--ordering", "v"), False)],
)  # fmt: skip
def test_rows_that_are_not_in_the_table_because_of_their_key_are_noted(
    location: str, tmp_path: Path, given: tuple[str, ...], noted: bool
) -> None:
    (tmp_path / "rows.csv").write_text("id,v\n1,1\n1,2\n2,3\n")
    done = CliRunner().invoke(main, ["import", location, str(tmp_path / "rows.csv"), *given, "--json"])
    assert done.exit_code == 0
    note = " ".join(done.stderr.split())
    assert note.startswith("1 rows are not in the table: another row of the files has their key") is noted
    assert bool(note) is noted
