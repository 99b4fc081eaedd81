"""A Hudi table in a catalog: Glue as moto has it, and a small Hive Metastore behind real Thrift. tests/locks/test_catalogs.py has real metastores."""

from __future__ import annotations

import json
import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner
from moto.core import set_initial_no_auth_action_count
from support.catalog_places import HIVE, Place, days, glue_client, make, new
from support.tables import ORDERS, create_plain, orders

import pyhudi_core as hudi
from pyhudi_core.catalog.columns import may_become
from pyhudi_core.catalog.glue import GlueCatalog
from pyhudi_core.catalog.partitions import every_folder, values_of
from pyhudi_core.catalog.wanted import (
    LAST_COMMIT,
    LAST_COMPLETION,
    PROVIDER,
    SCHEMA,
    SyncedTable,
    tables_of,
)
from pyhudi_core.cli.main import main
from pyhudi_core.errors import CatalogError, InvalidOptionError, UnsupportedTableError
from pyhudi_core.options import WriteOptions

# --- what must be there


def wanted(table: hudi.HudiTable, /, **options: object) -> Any:
    parsed = WriteOptions.parse({f"{HIVE}{key}": value for key, value in options.items()}).catalog
    return tables_of(SyncedTable(table.location, table.config, table.schema), parsed)


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({}, ["t_ro", "t_rt real-time", "t real-time"]),
        ({"table.strategy": "RO"}, ["t"]),
        ({"table.strategy": "RT"}, ["t real-time"]),
        ({"skip_ro_suffix": True}, ["t", "t_rt real-time"]),
        ({"table": "Orders"}, ["orders_ro", "orders_rt real-time", "orders real-time"]),
    ],
)
def test_a_merge_on_read_table_is_several_tables_as_the_strategy_says(options: Any, names: list[str]) -> None:
    table = make(table_type="merge_on_read")
    found = wanted(table, **options)
    shown = [f"{one.name} real-time" if ".realtime." in one.input_format else one.name for one in found]
    assert shown == names
    read_optimized = [one.serde_parameters["hoodie.query.as.ro.table"] for one in found]
    assert read_optimized == [str("real-time" not in name).lower() for name in names]


def test_a_table_has_its_columns_in_hives_types_and_sparks_schema_with_the_partition_columns_last() -> None:
    schema = pa.schema(
        [("id", pa.int64()), ("Day", pa.string()), ("n", pa.int32()), ("at", pa.timestamp("us", "UTC")), ("x", pa.decimal128(9, 2)),
         ("deep", pa.struct([("A", pa.list_(pa.map_(pa.string(), pa.float32())))]))]
    )  # fmt: skip
    table = make(schema, partition_by="Day")
    (found,) = wanted(table, schema_string_length_thresh=100)
    assert [(one.name, one.type) for one in found.columns[5:]] == [
        ("id", "bigint"),
        ("n", "int"),
        ("at", "timestamp"),
        ("x", "decimal(9,2)"),
        ("deep", "struct<a:array<map<string,float>>>"),
    ]
    assert [(one.name, one.type) for one in found.partition_keys] == [("day", "string")]
    parameters = found.parameters
    pieces = [parameters[f"{SCHEMA}.part.{n}"] for n in range(int(parameters[f"{SCHEMA}.numParts"]))]
    assert {len(piece) for piece in pieces[:-1]} == {100}
    shown = json.loads("".join(pieces))["fields"]
    assert [one["name"] for one in shown] == [*(one.name for one in found.columns), "Day"]
    assert (parameters[PROVIDER], parameters["EXTERNAL"]) == ("hudi", "TRUE")
    (plain,) = wanted(table, support_timestamp=False, omit_metadata_fields=True, sync_as_datasource=False)
    assert plain.parameters == {"EXTERNAL": "TRUE"}
    assert [one.type for one in plain.columns][:3] == ["bigint", "int", "bigint"]


@pytest.mark.parametrize(
    ("before", "after", "allowed"),
    [("int", "bigint", True), ("int", "double", True), ("bigint", "int", False), ("int", "string", False),
     ("decimal(9,2)", "decimal(12,2)", True), ("decimal(9,2)", "decimal(9,3)", False), ("struct<a:int>", "struct<a:int,b:int>", True)],
)  # fmt: skip
def test_types_become_what_hive_reads_older_files_as(before: str, after: str, allowed: bool) -> None:
    assert may_become(before, after) is allowed


@pytest.mark.parametrize(
    ("folder", "fields", "values"),
    [
        ("day=2026-01-01", ["day"], ("2026-01-01",)),
        ("2026-01-01", ["day"], ("2026-01-01",)),
        ("2026/01/01", ["day"], ("2026-01-01",)),
        ("day=2026/01/01", ["day"], ("2026-01-01",)),
        ("day=a/hour=b=c", ["day", "hour"], ("a", "b=c")),
        ("day=a%2Fb", ["day"], ("a/b",)),
    ],
)
def test_the_values_of_a_folder_are_those_of_its_columns(
    folder: str, fields: list[str], values: tuple[str, ...]
) -> None:
    config = make(
        pa.schema([("id", pa.int64()), *((name, pa.string()) for name in fields)]), partition_by=fields
    ).config
    assert values_of(folder, config, decode=True) == values
    if len(fields) > 1:
        with pytest.raises(UnsupportedTableError, match="no value for each"):
            values_of("x", config, decode=True)


# --- following a table


def test_partitions_follow_the_commits_since_the_last_sync(place: Place) -> None:
    table = new()
    first = place.of(table).catalog.sync()
    assert (first.tables, first.added, first.reason) == (("lake.t",), 2, "the table is new there")
    assert not place.of(table).catalog.sync()
    table.insert(orders((3, "c")))
    table.upsert(orders((1, "a", 9.0)))
    table.delete_partitions(["day=b"])
    done = place.of(table).catalog.sync()
    assert (done.added, done.altered, done.dropped, done.reason) == (1, 0, 1, "")
    assert days(place) == ["a", "c"]
    assert place.partitions()["c",][0] == f"{table.location}/day=c"
    newest = table.timeline.commits[-1]
    parameters = place.parameters()
    assert (parameters[LAST_COMMIT], parameters[LAST_COMPLETION]) == (newest.requested_time, newest.completion_time)
    table.insert(orders((4, "b")))
    assert place.of(table).catalog.sync().added == 1


def test_all_partitions_are_compared_if_the_timeline_does_not_tell_what_changed(hms: Place) -> None:
    table = new()
    hms.of(table).catalog.sync()
    keep = {"hoodie.keep.min.commits": 2, "hoodie.keep.max.commits": 3, "hoodie.clean.commits.retained": 1}
    writer = hudi.open_table(table.location, options=keep)
    for _ in range(6):
        writer.upsert(orders((5, "e")))
    assert hms.of(table).catalog.sync().reason == "commits were archived before they were synced"
    assert days(hms) == ["a", "b", "e"]
    before = table.timeline.commits[-1]
    table.insert(orders((6, "f")))
    hms.of(table).catalog.sync()
    assert hms.metastore is not None
    hms.metastore.tables["lake", "t"].parameters[LAST_COMMIT] = "1"
    assert hms.of(table).catalog.sync().reason == "the commit 1 of the last sync is gone"
    table.restore(before)
    done = hms.of(table).catalog.sync()
    assert (done.reason, done.dropped, days(hms)) == ("the table was restored since the last sync", 1, ["a", "b", "e"])
    whole = hms.of(table, hoodie__meta__sync__incremental=False).catalog.sync()
    assert not whole
    assert whole.reason == ""


def test_after_a_restore_all_partitions_are_compared_once(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[str] = []

    def counted(state: Any, reason: str) -> Any:
        compared.append(reason)
        return every_folder(state, reason)

    monkeypatch.setattr("pyhudi_core.catalog.partitions.every_folder", counted)
    table = new()
    before = table.timeline.commits[-1]
    table.insert(orders((6, "f")))
    place.of(table).catalog.sync()
    table.restore(before)
    restored = place.of(table).catalog.sync()
    assert (restored.dropped, compared) == (1, [restored.reason])
    for _ in range(2):
        assert not place.of(table).catalog.sync()
    table.insert(orders((7, "g")))
    assert place.of(table).catalog.sync().added == 1
    assert len(compared) == 1
    table.restore(before)
    assert place.of(table).catalog.sync().dropped == 1
    assert not place.of(table).catalog.sync()
    assert len(compared) == 2


def test_columns_follow_with_cascade_and_parameters_of_others_stay(place: Place) -> None:
    table = make(pa.schema([("id", pa.int64()), ("day", pa.string()), ("n", pa.int32())]))
    table.insert(pa.table({"id": [1], "day": ["a"], "n": pa.array([1], pa.int32())}))
    place.of(table).catalog.sync()
    if place.metastore:
        place.metastore.tables["lake", "t"].parameters["owner.team"] = "sales"
    table.alter(retype={"n": pa.int64()}, add={"more": pa.string()})
    done = place.of(table).catalog.sync()
    assert "t: column n is bigint, and was int" in done.changes
    assert "t: column more is new" in done.changes
    assert [(name, kind) for name, kind, _ in place.columns()][-3:] == [
        ("id", "bigint"),
        ("n", "bigint"),
        ("more", "string"),
    ]
    assert place.partitions()["a",][1][-2:] == ["bigint", "string"]
    if place.metastore:
        assert place.parameters()["owner.team"] == "sales"
    assert not place.of(table).catalog.sync()


MANY = pa.schema(
    [("x", pa.decimal128(9, 2)), ("id", pa.int64()), ("day", pa.string()), ("text", pa.string()), ("n", pa.int32()),
     ("deep", pa.struct([("a", pa.int32())])), ("l", pa.list_(pa.struct([("b", pa.int32())]))), ("end", pa.float32())]
)  # fmt: skip


@pytest.mark.parametrize(
    ("change", "columns"),
    [
        ({"drop": ["text"]}, "x id n deep l end"),
        ({"drop": ["x"]}, "id text n deep l end"),
        ({"drop": ["end"]}, "x id text n deep l"),
        ({"rename": {"text": "words"}}, "x id n deep l end words"),
        ({"retype": {"x": pa.decimal128(12, 2)}}, "x id text n deep l end"),
        ({"retype": {"n": pa.int64(), "end": pa.float64()}}, "x id text n deep l end"),
        ({"add": {"deep.c": pa.string()}}, "x id text n deep l end"),
        ({"retype": {"deep.a": pa.int64()}, "drop": ["x"], "add": {"more": pa.int32()}}, "id text n deep l end more"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
@pytest.mark.parametrize("meta", [True, False], ids=["meta", "no meta"])
def test_columns_follow_though_a_metastore_compares_types_by_their_places(
    meta: bool, change: Any, columns: str, hms: Place
) -> None:
    table = make(MANY)
    table.insert(pa.Table.from_pylist([{"id": 1, "day": "a"}], MANY))
    hms.of(table, omit_metadata_fields=not meta).catalog.sync()
    table.alter(**change)
    metastore = hms.metastore
    assert metastore is not None
    metastore.calls = []
    hms.of(table, omit_metadata_fields=not meta).catalog.sync()
    assert metastore.calls == ["alter_table", "alter_table"], "columns, and then the time: no reader sees fewer columns"
    assert not hms.of(table, omit_metadata_fields=not meta).catalog.sync()
    (wished,) = wanted(table, omit_metadata_fields=not meta)
    assert {(name, kind) for name, kind, _ in hms.columns()} == {(one.name, one.type) for one in wished.columns}
    assert sorted(name for name, _, _ in hms.columns() if name[0] != "_") == sorted(columns.split())
    assert hms.partitions()["a",][1] == [kind for _, kind, _ in hms.columns()]


def test_a_metastore_without_the_setting_of_types_judges_by_itself(hms: Place) -> None:
    table = make(MANY)
    table.insert(pa.Table.from_pylist([{"id": 1, "day": "a"}], MANY))
    hms.of(table).catalog.sync()
    assert hms.metastore is not None
    hms.metastore.has_settings = False
    table.alter(add={"more": pa.int32()})
    assert hms.of(table).catalog.sync()
    before = hms.everything()
    table.alter(retype={"x": pa.decimal128(12, 2)})
    with pytest.raises(CatalogError, match="types incompatible with the existing columns: x"):
        hms.of(table).catalog.sync()
    assert hms.everything() == before


def test_a_comment_is_cut_to_what_catalogs_take(place: Place) -> None:
    table = make(rules=hudi.TableRules(comments={"price": "first\n line\t" + "ü" * 200}))
    table.insert(orders((1, "a")))
    place.of(table, sync_comment=True).catalog.sync()
    (comment,) = (text for name, _, text in place.columns() if name == "price")
    assert comment == "first line " + "ü" * 120 + "..."
    assert len(comment.encode()) <= 255
    assert not place.of(table, sync_comment=True).catalog.sync()
    assert "ü" * 200 in place.parameters()[f"{SCHEMA}.part.0"]


def test_a_type_that_hive_does_not_read_is_refused_and_nothing_is_changed(place: Place) -> None:
    table = make(pa.schema([("id", pa.int64()), ("day", pa.string()), ("n", pa.int32())]))
    table.insert(pa.table({"id": [1], "day": ["a"], "n": pa.array([1], pa.int32())}))
    place.of(table).catalog.sync()
    before = place.everything()
    table.alter(retype={"n": pa.string()})
    with pytest.raises(
        UnsupportedTableError, match=r"Column n of lake\.t is int in the catalog and string in the table"
    ):
        place.of(table).catalog.sync()
    assert place.everything() == before


def test_a_conditional_sync_leaves_a_catalog_alone_that_has_all_columns_and_partitions(hms: Place) -> None:
    table = new()
    hms.of(table).catalog.sync()
    before = hms.parameters()
    table.upsert(orders((1, "a", 5.0)))
    conditional = {"hoodie__datasource__meta_sync__condition__sync": True}
    assert not hms.of(table, **conditional).catalog.sync()
    assert hms.parameters() == before
    table.insert(orders((3, "c")))
    assert hms.of(table, **conditional).catalog.sync().added == 1
    assert hms.parameters()[LAST_COMMIT] == table.timeline.commits[-1].requested_time


def test_partition_values_are_decoded_as_the_folders_are_encoded(place: Place) -> None:
    table = make()
    table.insert(orders((1, "a/b: c")))
    place.of(table).catalog.sync()
    assert place.partitions() == {("a/b: c",): (f"{table.location}/day=a%2Fb%3A c", place.partitions()["a/b: c",][1])}
    place.of(table, table="raw", hoodie__meta__sync__decode_partition=False).catalog.sync()
    assert list(place.partitions("raw")) == [("a%2Fb%3A c",)]
    table.delete_partitions(["day=a%2Fb%3A c"])
    assert place.of(table).catalog.sync().dropped == 1


def test_comments_are_those_of_the_table_if_they_are_wanted_and_else_those_of_the_catalog(hms: Place) -> None:
    table = new(rules=hudi.TableRules(comments={"price": "what it costs"}))
    hms.of(table).catalog.sync()
    assert hms.metastore is not None
    price = next(one for one in hms.metastore.tables["lake", "t"].sd.cols if one.name == "price")
    price.comment = "from the wiki"
    table.alter(add={"more": pa.string()})
    hms.of(table).catalog.sync()
    assert ("price", "double", "from the wiki") in hms.columns()
    hms.of(table, sync_comment=True).catalog.sync()
    assert ("price", "double", "what it costs") in hms.columns()
    assert '"comment":"what it costs"' in hms.parameters()[f"{SCHEMA}.part.0"]


def test_a_schema_that_another_tool_wrote_with_other_blanks_stays(hms: Place) -> None:
    table = new()
    hms.of(table).catalog.sync()
    assert hms.metastore is not None
    parameters = hms.metastore.tables["lake", "t"].parameters
    parameters[f"{SCHEMA}.part.0"] = parameters[f"{SCHEMA}.part.0"].replace('","', '", "')
    assert not hms.of(table).catalog.sync()
    parameters[f"{SCHEMA}.part.0"] = "{"
    assert hms.of(table).catalog.sync().changes == ("t: its properties are different",)
    assert json.loads(hms.parameters()[f"{SCHEMA}.part.0"])["type"] == "struct"


def test_a_table_without_partitions_has_no_partition_columns(place: Place) -> None:
    table = new(partition_by=())
    assert place.of(table).catalog.sync().figures == {"tables": 1, "added": 0, "changed": 0, "dropped": 0}
    table.insert(orders((3, "c")))
    place.of(table).catalog.sync()
    assert place.parameters()[LAST_COMMIT] == table.timeline.commits[-1].requested_time
    assert f"{SCHEMA}.numPartCols" not in place.parameters()


# --- what goes wrong


@pytest.mark.parametrize("of_hudi", [{}, {PROVIDER: "hudi"}], ids=["another kind", "another Hudi table"])
def test_a_table_of_somebody_else_is_never_overwritten(of_hudi: dict[str, str], place: Place) -> None:
    table = new()
    place.of(table).catalog.sync(table="first")  # makes the database
    place.add_foreign("t", **of_hudi)
    before = place.everything()
    with pytest.raises(UnsupportedTableError, match=r"has another table lake\.t: it is") as refused:
        place.of(table).catalog.sync()
    assert "Nothing was changed" in str(refused.value.hint)
    assert place.everything() == before
    plan = place.of(table, enable=True).catalog.plan()
    assert not plan
    assert plan.refused is not None


def test_what_others_say_of_a_partition_stays_when_it_is_changed(place: Place) -> None:
    table = make(pa.schema([("id", pa.int64()), ("day", pa.string()), ("n", pa.int32())]))
    table.insert(pa.table({"id": [1], "day": ["a"], "n": pa.array([1], pa.int32())}))
    place.of(table).catalog.sync()
    metastore = place.metastore

    def told(**changes: Any) -> dict[str, str]:
        """Change what the partition says, and return its parameters."""
        if metastore is not None:
            raw = metastore.parts["lake", "t"]["a",]
            raw.parameters |= changes.pop("parameters", {})
            raw.sd.location = changes.pop("location", raw.sd.location)
            return dict(raw.parameters)
        where = {"DatabaseName": "lake", "TableName": "t"}
        found = glue_client().get_partitions(**where)["Partitions"][0]
        descriptor = found["StorageDescriptor"] | {
            "Location": changes.get("location", found["StorageDescriptor"]["Location"])
        }
        given = {"Values": ["a"], "StorageDescriptor": descriptor}
        given["Parameters"] = found.get("Parameters", {}) | changes.get("parameters", {})
        glue_client().update_partition(**where, PartitionValueList=["a"], PartitionInput=given)
        return dict(given["Parameters"])

    told(parameters={"classification": "hudi", "owner.team": "sales"})
    table.alter(retype={"n": pa.int64()})
    assert place.of(table).catalog.sync()
    assert place.partitions()["a",][1][-1] == "bigint"
    assert told().items() >= {"classification": "hudi", "owner.team": "sales"}.items()
    told(location="file:/elsewhere")
    table.upsert(pa.table({"id": [1], "day": ["a"], "n": pa.array([2], pa.int64())}))
    assert place.of(table).catalog.sync().altered == 1
    assert place.partitions()["a",][0] == f"{table.location}/day=a"
    assert told().items() >= {"classification": "hudi", "owner.team": "sales"}.items()


@pytest.mark.parametrize(
    ("mode", "argument"), [("manifest", "uris"), ("manifest", "database"), ("glue", "uris"), ("manifest", "table")]
)
def test_an_argument_that_a_sync_would_ignore_is_refused_by_both_doors(
    mode: str, argument: str, tmp_path: Path
) -> None:
    table = make_at(tmp_path)
    text = "thrift://here:1" if argument == "uris" else "sales"
    with pytest.raises(InvalidOptionError, match=f"does not use {argument}"):
        table.catalog.sync(mode, **{argument: text})
    flag = {"table": "name"}.get(argument, argument)
    for more in ([], ["--plan"]):
        done = CliRunner().invoke(main, ["catalog-sync", table.location, "--mode", mode, f"--{flag}", text, *more])
        assert (done.exit_code, f"does not use {argument}" in done.output) == (2, True), done.output


def make_at(folder: Path) -> hudi.HudiTable:
    return create_plain(str(folder / "t"), ORDERS, "id", "day")


def test_a_database_that_is_missing_is_created_or_named(place: Place) -> None:
    table = new()
    with pytest.raises(CatalogError, match="has no database lake"):
        place.of(table, auto_create_database=False).catalog.sync()
    assert "the database lake is new" in place.of(table).catalog.sync().changes


def test_rights_that_are_missing_in_a_metastore_are_named(hms: Place) -> None:
    table = new()
    assert hms.metastore is not None
    hms.metastore.denies = True
    with pytest.raises(CatalogError, match="did not do create_database: MetaException Permission denied") as refused:
        hms.of(table).catalog.sync()
    assert refused.value.table == table.location


@set_initial_no_auth_action_count(0)
def test_rights_that_are_missing_in_glue_are_named(glue: Place) -> None:
    with pytest.raises(CatalogError, match="did not do get_database: .*InvalidClientTokenId") as refused:
        glue.of(new()).catalog.sync()
    assert "glue:GetDatabase" in str(refused.value.hint)


def test_glue_names_a_partition_that_it_does_not_change_and_one_that_is_as_wanted_is_no_failure(glue: Place) -> None:
    glue.of(new()).catalog.sync()
    catalog = GlueCatalog(WriteOptions.parse({f"{HIVE}mode": "glue"}).catalog)
    there = catalog.table("lake", "t")
    assert there is not None
    known = list(catalog.partitions(there, None).values())
    before = glue.partitions()
    catalog.add(there, known)
    catalog.drop(there, [("never",)])
    with pytest.raises(CatalogError, match=r"change the partition \['never'\] of lake\.t: EntityNotFoundException"):
        catalog.change(there, [replace(known[0], values=("never",))])
    assert glue.partitions() == before


def test_a_metastore_that_hangs_ends_the_sync_and_the_commit_stands(caplog: pytest.LogCaptureFixture) -> None:
    table = new()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        options = {
            f"{HIVE}metastore.uris": f"thrift://127.0.0.1:{silent.getsockname()[1]}",
            f"{HIVE}enable": True,
            "pyhudi.catalog.request.timeout.ms": 50,
        }
        writer = hudi.open_table(table.location, options=options)
        writer.insert(orders((3, "c")))
        assert table.count() == 3
        assert "catalog_sync" in caplog.text
        assert "127.0.0.1" in caplog.text
        plan = writer.catalog.plan()
    assert plan.refused is not None
    assert "get_database" in plan.why_not


def test_addresses_with_a_password_are_not_shown() -> None:
    with pytest.raises(InvalidOptionError) as refused:
        new().catalog.sync(uris="thrift://me:very-secret@host")
    assert "very-secret" not in f"{refused.value!r}{refused.value}"
    with pytest.raises(InvalidOptionError, match=r"hoodie\.aws\.glue\.endpoint has a user or a password") as refused:
        hudi.open_table(new().location, options={"hoodie.aws.glue.endpoint": "https://me:very-secret@localhost:1"})
    assert "very-secret" not in f"{refused.value!r}{refused.value}"


# --- as a service


def test_each_commit_syncs_if_the_option_says_so_and_upkeep_does_what_is_left(hms: Place) -> None:
    table = new()
    writer = hms.of(table, enable=True)
    plan = writer.catalog.plan()
    assert (bool(plan), plan.figures) == (True, {"tables": 1, "added": 2, "changed": 0, "dropped": 0})
    assert writer.services["catalog_sync"].run().added == 2
    writer.insert(orders((3, "c")))
    assert days(hms) == ["a", "b", "c"]
    assert not writer.catalog.plan()
    assert not table.catalog.run()
    assert "only catalog.sync() does it" in table.catalog.plan().why_not


def test_a_manifest_names_the_newest_base_files() -> None:
    table = new()
    table.upsert(orders((1, "a", 5.0)))
    done = table.catalog.sync("manifest")
    assert done.tables == (".hoodie/absolute-path-manifest/latest-snapshot.csv",)
    body = table._opened.storage.get(done.tables[0]).decode()
    files = table.inspect.files().to_pylist()
    assert sorted(body.split()) == sorted(f"{table.location}/{one['path']}" for one in files)
    assert len(files) == 2
    assert not table.catalog.sync("manifest")
    table.insert(orders((7, "z")))
    assert hudi.open_table(table.location, options={f"{HIVE}mode": "manifest", f"{HIVE}enable": True}).catalog.run()
