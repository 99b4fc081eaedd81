"""A Hudi table in a real Hive Metastore, 3.1 and 4.0; the objects are those that Hudi's HiveSyncTool makes, and Spark reads the tables by their names.

Hudi's tool speaks to 3.1 only: its Hive client asks for ``get_table``, which 4.0 no longer has.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyspark
import pytest

import pyhudi_core as hudi
from locks.servers import ROOT, Server, hive_metastore, scratch
from pyhudi_core.errors import DropRefusedError, UnsupportedTableError
from pyhudi_core.lock.clients.hive_metastore import HiveConnection, HiveMetastore

pytestmark = pytest.mark.slow
BUNDLE = ROOT / ".interop" / "jars" / "hudi-spark3.5-bundle_2.12-1.2.0.jar"
INTEROP_PYTHON = ROOT / ".interop" / "venv" / "bin" / "python"
HIVE = "hoodie.datasource.hive_sync."
SCHEMA = pa.schema(
    [("id", pa.int64()), ("Day", pa.string()), ("n", pa.int32()), ("price", pa.float64()), ("ok", pa.bool_()), ("amount", pa.decimal128(12, 2)),
     ("d", pa.date32()), ("at", pa.timestamp("us", "UTC")), ("local", pa.timestamp("us")), ("raw", pa.binary()), ("l", pa.list_(pa.int32())),
     ("m", pa.map_(pa.string(), pa.int64())), ("s", pa.struct([("a", pa.int64()), ("B", pa.list_(pa.string()))])), ("clock", pa.time64("us"))]
)  # fmt: skip


@dataclass
class Lake:
    """A metastore, and what it has."""

    server: Server

    @property
    def uris(self) -> str:
        return f"thrift://127.0.0.1:{self.server.port}"

    def opened(self, table: hudi.HudiTable, /, **options: object) -> hudi.HudiTable:
        given = {
            f"{HIVE}{key}": value for key, value in {"metastore.uris": self.uris, "database": "ours", **options}.items()
        }
        return hudi.open_table(table.location, options=given)

    def ask(self, method: str, *arguments: Any) -> Any:
        connection = HiveConnection(HiveMetastore((("127.0.0.1", self.server.port),), 30.0))
        try:
            return connection.send(method, *arguments)
        finally:
            connection.close()

    def table(self, database: str, name: str) -> Any:
        from pymetastore.hive_metastore import ttypes

        return self.ask("get_table_req", ttypes.GetTableRequest(dbName=database, tblName=name)).table

    def partitions(self, database: str, name: str) -> dict[str, Any]:
        names = self.ask("get_partition_names", database, name, -1)
        found = self.ask("get_partitions_by_names", database, name, names)
        return {"/".join(one.values): one for one in found}

    def hudis_tool(self, table: hudi.HudiTable, *more: str) -> None:
        """Run Hudi's HiveSyncTool on a table, into the database ``hudis``."""
        classes = f"{BUNDLE}:{Path(pyspark.__file__).parent / 'jars'}/*"
        name = Path(table.location).name
        command = ["java", "-Xmx400m", "-XX:TieredStopAtLevel=1", "-cp", classes, "org.apache.hudi.hive.HiveSyncTool"]
        command += ["--metastore-uris", self.uris, "--sync-mode", "hms", "--base-path", table.location, "--table", name]
        command += ["--database", "hudis", "--auto-create-database", "--support-timestamp", *more]
        for field in table.config.partition_fields:
            command += ["--partitioned-by", field]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-4_000:]


@pytest.fixture(scope="module", params=["hive3", "hive"])
def lake(request: pytest.FixtureRequest) -> Iterator[Lake]:
    with scratch() as folder, hive_metastore(folder, 60, release=request.param).running() as server:
        yield Lake(server)


@pytest.fixture(scope="module")
def lake_of_hudi(lake: Lake) -> Lake:
    """A metastore to which Hudi's tool speaks."""
    if "hive3" not in " ".join(lake.server.command):
        pytest.skip("the Hive client of Hudi and Spark asks for get_table, which Hive 4.0 does not have")
    assert BUNDLE.exists(), "run scripts/interop_env.py"
    return lake


def made(folder: Path, kind: str, schema: pa.Schema = SCHEMA, **how: Any) -> hudi.HudiTable:
    how = {"partition_by": "Day", "table_type": kind, **how}
    table = hudi.create_table(str(folder / kind), schema, "id", **how)
    table.insert(pa.Table.from_pylist([{"id": 1, "Day": "a b"}, {"id": 2, "Day": "2026-01-01"}], schema))
    return table


def plain(raw: Any) -> dict[str, Any]:
    """What a table or a partition is, without times, statistics and names."""
    descriptor, parameters = raw.sd, dict(raw.parameters)
    counted = ("transient_lastDdlTime", "numFiles", "totalSize", "hudi_writer_version")
    schema = "".join(parameters.pop(f"spark.sql.sources.schema.part.{n}", "") for n in range(9))
    return {
        "columns": [(one.name, one.type, one.comment or "") for one in descriptor.cols],
        "keys": [(one.name, one.type, one.comment or "") for one in getattr(raw, "partitionKeys", ())],
        "formats": (descriptor.inputFormat, descriptor.outputFormat, descriptor.serdeInfo.serializationLib),
        "serde": dict(descriptor.serdeInfo.parameters),
        "location": descriptor.location,
        "rest": (descriptor.compressed, descriptor.numBuckets, descriptor.bucketCols, descriptor.sortCols, descriptor.parameters),
        "kind": (getattr(raw, "tableType", ""), getattr(raw, "retention", 0), getattr(raw, "owner", "")),
        "parameters": {name: text for name, text in parameters.items() if name not in counted},
        "schema": json.loads(schema) if schema else None,
    }  # fmt: skip


@pytest.mark.parametrize("kind", ["copy_on_write", "merge_on_read"])
@pytest.mark.parametrize("partition_by", ["Day", ()], ids=["partitioned", "not"])
def test_the_objects_are_those_of_hudis_tool(kind: str, partition_by: Any, lake_of_hudi: Lake, tmp_path: Path) -> None:
    lake, name = lake_of_hudi, f"{kind}_{len(partition_by)}"
    table = made(tmp_path, kind, partition_by=partition_by)
    Path(table.location).rename(tmp_path / name)
    table = hudi.open_table(str(tmp_path / name))
    tables = [name] if kind == "copy_on_write" else [f"{name}_ro", f"{name}_rt", name]
    for step in ("new", "followed"):
        if step == "followed":
            table.alter(add={"more": pa.string()}, retype={"n": pa.int64()})
            table.insert(pa.Table.from_pylist([{"id": 3, "Day": "c", "more": "x"}], table.schema))
            if partition_by:
                table.delete_partitions(["Day=a b"])
        lake.hudis_tool(table)
        lake.opened(table, table=name).catalog.sync()
        for each in tables:
            assert plain(lake.table("ours", each)) == plain(lake.table("hudis", each)), step
            ours, theirs = lake.partitions("ours", each), lake.partitions("hudis", each)
            assert {key: plain(one) for key, one in ours.items()} == {key: plain(one) for key, one in theirs.items()}, (
                step
            )


def test_hudis_tool_and_this_project_continue_each_others_tables(lake_of_hudi: Lake, tmp_path: Path) -> None:
    lake, table = lake_of_hudi, made(tmp_path, "copy_on_write")
    lake.hudis_tool(table)
    assert not lake.opened(table, database="hudis").catalog.sync()
    table.insert(pa.Table.from_pylist([{"id": 3, "Day": "c"}], SCHEMA))
    assert lake.opened(table, database="hudis").catalog.sync().added == 1
    table.insert(pa.Table.from_pylist([{"id": 4, "Day": "d"}], SCHEMA))
    lake.hudis_tool(table)
    assert sorted(lake.partitions("hudis", "copy_on_write")) == ["2026-01-01", "a b", "c", "d"]
    assert not lake.opened(table, database="hudis").catalog.sync()


def test_a_metastore_takes_each_change(lake: Lake, tmp_path: Path) -> None:
    table = made(tmp_path, "merge_on_read")
    assert lake.opened(table, table="changes").catalog.sync().figures == {
        "tables": 3,
        "added": 6,
        "changed": 0,
        "dropped": 0,
    }
    table.alter(add={"more": pa.string()}, retype={"n": pa.int64()})
    table.insert(pa.Table.from_pylist([{"id": 3, "Day": "c/d", "more": "x"}], table.schema))
    table.delete_partitions(["Day=a b"])
    done = lake.opened(table, table="changes").catalog.sync()
    assert (done.added, done.dropped, done.reason) == (3, 3, "")
    found = lake.partitions("ours", "changes_rt")
    assert {key: one.sd.location for key, one in found.items()} == {
        "2026-01-01": f"file:{table.location}/Day=2026-01-01",
        "c/d": f"file:{table.location}/Day=c%2Fd",
    }
    assert {one.sd.cols[-1].name for one in found.values()} == {"more"}, "partitions that were there got the column"
    changed = lake.opened(table, table="changes", **{"table.strategy": "RO"}).catalog.sync()
    assert changed.altered == 2
    assert "realtime" not in lake.partitions("ours", "changes")["c/d"].sd.inputFormat
    assert not lake.opened(table, table="changes", **{"table.strategy": "RO"}).catalog.sync()
    with pytest.raises(UnsupportedTableError, match=r"another table ours\.changes"):
        lake.opened(made(tmp_path, "copy_on_write"), table="changes").catalog.sync()


@pytest.mark.parametrize("meta", [True, False], ids=["meta", "no meta"])
def test_a_metastore_takes_columns_that_change_their_places_and_types(meta: bool, lake: Lake, tmp_path: Path) -> None:
    """It compares types by places, and knows no wider decimals and structs: the oracle of the tests with a small metastore."""
    schema = pa.schema(
        [("x", pa.decimal128(9, 2)), ("id", pa.int64()), ("Day", pa.string()), ("text", pa.string()), ("n", pa.int32()),
         ("deep", pa.struct([("a", pa.int32())])), ("end", pa.float32())]
    )  # fmt: skip
    rules = hudi.TableRules(comments={"n": "ü" * 3_000, "Day": "two\nlines"})
    table = made(tmp_path, "copy_on_write", schema, rules=rules)
    name = f"places_{meta}_{lake.server.port}".lower()

    def synced() -> bool:
        found = lake.opened(table, table=name, omit_metadata_fields=not meta, sync_comment=True)
        return bool(found.catalog.sync())

    assert synced()
    changes: list[dict[str, Any]] = [
        {"retype": {"x": pa.decimal128(12, 2), "end": pa.float64()}}, {"add": {"deep.c": pa.string()}}, {"rename": {"text": "words"}},
        {"drop": ["x"]}, {"drop": ["words"], "retype": {"n": pa.int64()}},
    ]  # fmt: skip
    for change in changes:
        table.alter(**change)
        assert synced(), change
        assert not synced()
        raw = lake.table("ours", name)
        shown = {one.name: one.type for one in raw.sd.cols if one.name[0] != "_"}
        assert set(shown) == {field.name for field in table.schema} - {"Day"}
        for one in lake.partitions("ours", name).values():
            assert [(c.name, c.type) for c in one.sd.cols] == [(c.name, c.type) for c in raw.sd.cols]
    assert shown == {"id": "bigint", "n": "bigint", "deep": "struct<a:int,c:string>", "end": "double"}


def test_partition_values_with_every_sign_are_found_again(lake: Lake, tmp_path: Path) -> None:
    signs = [
        "".join(chr(n) for n in range(32, 80)),
        "".join(chr(n) for n in range(80, 127)),
        "ü 字 %20",
        "a/b",
        "%",
        "tab\t",
    ]
    table = made(tmp_path, "copy_on_write")
    rows = pa.Table.from_pylist([{"id": 10 + n, "Day": text} for n, text in enumerate(signs)], SCHEMA)
    table.insert(rows)
    name = f"signs_{lake.server.port}"
    assert lake.opened(table, table=name).catalog.sync().added == 2 + len(signs)
    assert set(signs) <= {one.values[0] for one in lake.partitions("ours", name).values()}
    table.upsert(rows)
    done = lake.opened(table, table=name).catalog.sync()
    assert (done.reason, done.added, done.altered, done.dropped) == ("", 0, 0, 0)
    whole = lake.opened(table, table=name, enable=True).catalog.plan()
    assert not whole
    folders = {one["path"].rpartition("/")[0] for one in table.inspect.files().to_pylist()}
    table.delete_partitions(sorted(folders - {"Day=a b", "Day=2026-01-01"}))
    assert lake.opened(table, table=name).catalog.sync().dropped == len(signs)
    assert sorted(lake.partitions("ours", name)) == ["2026-01-01", "a b"]


def test_what_somebody_changes_before_the_alteration_stays_in_a_metastore_that_compares(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hive 4 compares the first alteration, also on Derby. In 3.1 a change after the second look is lost, and the sync succeeds."""
    from pyhudi_core.catalog.metastore import MetastoreCatalog

    table = made(tmp_path, "copy_on_write")
    name = f"raced_{lake.server.port}"
    lake.opened(table, table=name).catalog.sync()
    table.alter(add={"more": pa.string()})
    alter, raced = MetastoreCatalog.alter, []

    def altered(catalog: Any, one: Any, *, cascade: bool) -> None:
        if not raced:
            raced.append(one)
            raw = lake.table("ours", name)
            raw.parameters |= {"owner.team": "sales", "transient_lastDdlTime": "2000000000"}
            lake.ask("alter_table_with_environment_context", "ours", name, raw, None)
        alter(catalog, one, cascade=cascade)

    monkeypatch.setattr(MetastoreCatalog, "alter", altered)
    lake.opened(table, table=name).catalog.sync()
    kept = "hive3" not in " ".join(lake.server.command)
    assert ("owner.team" in lake.table("ours", name).parameters) == kept
    assert "more" in [one.name for one in lake.table("ours", name).sd.cols]


def test_tables_are_made_opened_and_dropped_by_their_addresses(lake: Lake, tmp_path: Path) -> None:
    from pymetastore.hive_metastore import ttypes

    folder = tmp_path / "addressed.db"
    name = f"addressed{lake.server.port}"
    lake.ask("create_database", ttypes.Database(name=name, description="", locationUri=f"file:{folder}", parameters={}))
    sales = hudi.lake(f"{lake.uris}/{name}")
    rows = pa.table({"id": [1, 2], "day": ["a", "b"]})
    how: dict[str, Any] = {"record_key": "id", "partition_by": "day", "table_type": "merge_on_read"}
    assert sales.list() == ()
    table = sales.create("Orders", rows.schema, **how)
    table.upsert(rows)
    assert (sales.list(), table.location) == (("orders",), str(folder / "orders"))
    assert sales.table("orders_rt").count() == 2
    assert sales.table("orders").catalog.sync().added == 6
    assert sorted(lake.partitions(name, "orders_ro")) == ["a", "b"]
    assert set(table.drop.plan().names) == {f"{name}.orders", f"{name}.orders_ro", f"{name}.orders_rt"}
    Path(table.location).rename(folder / "away")
    with pytest.raises(DropRefusedError, match="no table is found there"):
        sales.drop("orders")
    (folder / "away").rename(table.location)
    dropped = sales.table("orders").drop()
    assert (len(dropped.names), sales.list(), sales.exists("orders")) == (3, (), False)
    sales.create("orders", rows.schema, **how)
    assert sales.drop("orders", names_only=True).files == 0
    assert (sales.list(), hudi.table_exists(table.location)) == ((), True)
    assert sales.create_or_open("orders", rows.schema, **how).count() == 0
    assert len(sales.drop("orders_ro").names) == 3
    assert not hudi.table_exists(table.location)


def test_spark_reads_the_tables_by_their_names(lake_of_hudi: Lake, tmp_path: Path) -> None:
    schema = SCHEMA.remove(SCHEMA.get_field_index("clock"))  # Spark does not read Parquet's TIME
    lake, table = lake_of_hudi, made(tmp_path, "merge_on_read", schema)
    writer = lake.opened(table, table="spark", enable=True)
    writer.upsert(pa.Table.from_pylist([{"id": 1, "Day": "a b", "price": 9.0}, {"id": 5, "Day": "e"}], schema))
    statements = ["SELECT id, price, Day FROM ours.spark_rt ORDER BY id", "SELECT id, price FROM ours.spark_ro WHERE Day = 'a b'",
                  "SHOW PARTITIONS ours.spark", "SELECT count(*) AS n FROM ours.spark WHERE Day = 'e'"]  # fmt: skip
    command = [
        str(INTEROP_PYTHON),
        str(Path(__file__).with_name("spark_with_hive.py")),
        str(BUNDLE),
        lake.uris,
        str(tmp_path),
    ]
    done = subprocess.run([*command, *statements], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4_000:]
    exact, optimized, partitions, counted = (json.loads(line) for line in done.stdout.splitlines() if line[:1] == "[")
    assert [(row["id"], row["price"], row["Day"]) for row in exact] == [
        (1, 9.0, "a b"),
        (2, None, "2026-01-01"),
        (5, None, "e"),
    ]
    assert [(row["id"], row["price"]) for row in optimized] == [(1, None)]
    assert counted == [{"n": 1}]
    assert len(partitions) == 3
