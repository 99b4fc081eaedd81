"""A lake that is a database of a catalog: every door opens, makes, lists and drops tables by their names there (a metastore behind Thrift, Glue by moto)."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import pyarrow as pa
import pytest
from click.testing import CliRunner
from dagster import materialize
from moto import mock_aws
from support.thrift_metastore import Metastore, serving

import pyhudi as hudi
import pyhudi_dagster as hd
from pyhudi.errors import (
    CatalogError,
    CommitStateUnknownError,
    ConfigError,
    DropRefusedError,
    HudiError,
    TableNotFoundError,
    UnsupportedTableError,
)
from pyhudi_airflow.hook import ConnectionSettings
from pyhudi_core.catalog import addresses
from pyhudi_core.cli.main import main

ROWS = pa.table({"id": [1, 2], "day": ["a", "b"]})
KEY: dict[str, Any] = {"record_key": "id", "partition_by": "day"}


@dataclass
class Sales:
    """The database ``sales`` of a catalog: its address, its folder, and what it has of tables, as a test sees it."""

    address: str
    folder: Path
    names: Callable[[], list[str]]
    add_foreign: Callable[[str], None]

    @property
    def lake(self) -> hudi.Lake:
        return hudi.lake(self.address)


@pytest.fixture
def hms(tmp_path: Path) -> Iterator[Sales]:
    from pymetastore.hive_metastore import ttypes as types

    metastore = Metastore()
    metastore.databases["sales"] = types.Database(name="sales", locationUri=f"file:{tmp_path}/sales.db")

    def add(name: str) -> None:
        descriptor = types.StorageDescriptor(cols=[], location="file:/elsewhere", serdeInfo=types.SerDeInfo())
        metastore.create_table(types.Table(name, "sales", "me", sd=descriptor, parameters={}, partitionKeys=[]))

    with serving(metastore) as port:
        address = f"thrift://127.0.0.1:{port}/sales"
        yield Sales(address, tmp_path / "sales.db", lambda: metastore.get_all_tables("sales"), add)


@pytest.fixture
def glue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sales]:
    for name, text in (("ACCESS_KEY_ID", "test"), ("SECRET_ACCESS_KEY", "test"), ("DEFAULT_REGION", "eu-west-1")):
        monkeypatch.setenv(f"AWS_{name}", text)
    with mock_aws():
        client = boto3.client("glue")
        client.create_database(DatabaseInput={"Name": "sales", "LocationUri": f"file:{tmp_path}/sales.db/"})

        def add(name: str) -> None:
            given = {"Name": name, "StorageDescriptor": {"Location": "file:/elsewhere"}}
            client.create_table(DatabaseName="sales", TableInput=given)

        def names() -> list[str]:
            return sorted(one["Name"] for one in client.get_tables(DatabaseName="sales")["TableList"])

        yield Sales("glue://sales", tmp_path / "sales.db", names, add)


@pytest.fixture(params=["hms", "glue"])
def sales(request: pytest.FixtureRequest) -> Sales:
    found: Sales = request.getfixturevalue(request.param)
    return found


def test_tables_are_made_listed_opened_and_dropped_by_their_names_in_a_catalog(sales: Sales) -> None:
    lake = sales.lake
    assert (lake.list(), lake.exists("orders")) == ((), False)
    made = lake.create("Orders", ROWS.schema, **KEY, table_type="merge_on_read")
    made.upsert(ROWS)
    assert made.location == str(sales.folder / "orders")
    assert sales.names() == ["orders", "orders_ro", "orders_rt"]
    assert lake.list() == ("orders",), "one name of each table"
    for name in ("orders", "ORDERS", "orders_rt", "orders_ro"):
        assert lake.exists(name)
        assert lake.table(name).count() == 2
        lake.table(name).catalog.sync()
    assert sales.names() == ["orders", "orders_ro", "orders_rt"], "a sync of any of the names is one of all"
    assert lake.create_or_open("orders", ROWS.schema, **KEY, table_type="merge_on_read").count() == 2
    sales.add_foreign("other")
    assert lake.list() == ("orders",)
    planned = lake.drop_plan("orders")
    assert (planned.names, planned.files > 5) == (("sales.orders", "sales.orders_ro", "sales.orders_rt"), True)
    assert "in the catalog: sales.orders" in str(planned)
    assert lake.exists("orders"), "a plan changes nothing"
    dropped = lake.drop("orders_rt")
    assert set(dropped.names) == set(planned.names)
    assert (sales.names(), lake.list(), lake.exists("orders")) == (["other"], (), False)
    assert not lake.drop("orders", missing_ok=True)


def test_a_drop_that_died_before_the_names_went_is_finished_by_the_next(
    sales: Sales, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = sales.lake.create("orders", ROWS.schema, **KEY, table_type="merge_on_read")
    with monkeypatch.context() as dying:
        dying.setattr(addresses, "remove", _dies)
        with pytest.raises(Died):
            sales.lake.drop("orders")
    assert (sales.names(), sales.lake.exists("orders")) == (["orders", "orders_ro", "orders_rt"], False)
    assert not hudi.table_exists(made.location)
    with pytest.raises(TableNotFoundError):
        sales.lake.table("orders")
    assert sales.lake.drop_plan("orders")
    dropped = sales.lake.drop("orders")
    assert (dropped.files, len(dropped.names), sales.names()) == (0, 3, [])
    with pytest.raises(TableNotFoundError, match=r"no table sales\.orders"):
        sales.lake.drop("orders")


def test_a_catalog_that_fails_before_the_files_went_ends_the_drop_and_the_next_one_finishes_it(
    sales: Sales, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_arguments: object) -> None:
        raise CatalogError("the catalog is gone")

    made = sales.lake.create("orders", ROWS.schema, **KEY)
    with monkeypatch.context() as failing:
        failing.setattr(addresses, "mark", fails)
        with pytest.raises(CommitStateUnknownError, match="the catalog is gone"):
            made.drop()
    assert (sales.names(), sales.lake.exists("orders")) == (["orders"], True)
    dropped = sales.lake.drop("orders")
    assert (dropped.files > 0, dropped.names, sales.names()) == (True, ("sales.orders",), [])


@pytest.mark.parametrize("opened", [True, False], ids=["opened", "created"])
def test_a_table_opened_by_its_name_takes_its_names_with_it(opened: bool, sales: Sales) -> None:
    table = sales.lake.create("orders", ROWS.schema, **KEY, table_type="merge_on_read")
    table.upsert(ROWS)
    if opened:
        table = sales.lake.table("orders_rt")
    planned = table.drop.plan()
    assert set(planned.names) == {"sales.orders", "sales.orders_ro", "sales.orders_rt"}
    dropped = table.drop()
    assert (set(dropped.names), dropped.files >= planned.files, sales.names()) == (set(planned.names), True, [])
    with pytest.raises(TableNotFoundError):
        table.drop()


def test_a_drop_by_a_handle_leaves_the_name_to_the_table_that_has_it_now(sales: Sales, tmp_path: Path) -> None:
    old = sales.lake.create("orders", ROWS.schema, **KEY)
    sales.lake.drop("orders", names_only=True)
    other = hudi.create_table(tmp_path / "other", ROWS.schema, **KEY)
    other.upsert(ROWS)
    mode, _, rest = sales.address.partition("://")
    where: dict[str, Any] = {"mode": "glue"} if mode == "glue" else {"uris": f"thrift://{rest.partition('/')[0]}"}
    other.catalog.sync(database="sales", table="orders", **where)
    dropped = old.drop()
    assert (dropped.location, dropped.names, sales.names()) == (old.location, (), ["orders"])
    assert sales.lake.table("orders").count() == 2


def test_names_stay_if_no_table_is_found_where_they_lead(sales: Sales) -> None:
    """As with wrong storage options: then the table is there, and nobody would find it any more."""
    table = sales.lake.create("orders", ROWS.schema, **KEY)
    table.upsert(ROWS)
    folder, away = sales.folder / "orders", sales.folder / "away"
    folder.rename(away)
    planned = sales.lake.drop_plan("orders")
    assert (bool(planned), planned.names) == (False, ("sales.orders",))
    assert f"at {folder}, and no table is found there" in planned.why_not
    for missing_ok in (False, True):
        with pytest.raises(DropRefusedError, match="no table is found there") as refused:
            sales.lake.drop("orders", missing_ok=missing_ok)
        assert "storage options" in refused.value.hint
        assert "names_only=True" in refused.value.hint
    done = CliRunner().invoke(main, ["drop", f"{sales.address}/orders", "--if-exists"])
    assert (done.exit_code, sales.names()) == (2, ["orders"])
    away.rename(folder)
    assert sales.lake.table("orders").count() == 2


def test_names_alone_are_dropped_if_that_is_asked(sales: Sales) -> None:
    for doors in ("call", "command"):
        table = sales.lake.create_or_open("orders", ROWS.schema, **KEY)
        table.upsert(ROWS)
        if doors == "call":
            dropped = sales.lake.drop("orders", names_only=True)
            assert (dropped.files, dropped.names) == (0, ("sales.orders",))
        else:
            done = CliRunner().invoke(main, ["drop", f"{sales.address}/orders", "--names-only"])
            assert done.exit_code == 0
            assert "sales.orders" in done.output
        assert (sales.names(), hudi.open_table(table.location).count()) == ([], 2)
    with pytest.raises(ConfigError, match="names_only="):
        hudi.drop_table(sales.folder / "orders", names_only=True)
    for words in ((str(sales.folder / "orders"),), (f"{sales.address}/orders", "--plan")):
        assert CliRunner().invoke(main, ["drop", *words, "--names-only"]).exit_code == 2
    assert hudi.open_table(table.location).count() == 2


def test_a_table_made_anew_after_a_drop_that_died_is_no_dropped_one(
    sales: Sales, monkeypatch: pytest.MonkeyPatch
) -> None:
    sales.lake.create("orders", ROWS.schema, **KEY)
    with monkeypatch.context() as dying:
        dying.setattr(addresses, "remove", _dies)
        with pytest.raises(Died):
            sales.lake.drop("orders")
    table = sales.lake.create_or_open("orders", ROWS.schema, **KEY)
    Path(table.location).rename(sales.folder / "away")
    with pytest.raises(DropRefusedError):
        sales.lake.drop("orders")
    assert sales.names() == ["orders"]


class Died(BaseException):
    """The process is gone."""


def _dies(*_arguments: object, **_named: object) -> None:
    raise Died


def test_a_creation_that_died_before_the_catalog_knew_it_is_continued(sales: Sales) -> None:
    hudi.create_table(sales.folder / "orders", ROWS.schema, **KEY).upsert(ROWS)
    assert sales.lake.list() == ()
    assert sales.lake.create_or_open("orders", ROWS.schema, **KEY).count() == 2
    assert sales.lake.list() == ("orders",)


def test_a_table_at_any_place_is_found_after_its_sync(sales: Sales, tmp_path: Path) -> None:
    table = hudi.create_table(tmp_path / "elsewhere", ROWS.schema, **KEY)
    table.upsert(ROWS)
    mode, _, rest = sales.address.partition("://")
    where: dict[str, Any] = {"mode": "glue"} if mode == "glue" else {"uris": f"thrift://{rest.partition('/')[0]}"}
    table.catalog.sync(database="sales", table="found", **where)
    assert sales.lake.list() == ("found",)
    assert sales.lake.table("found").location == table.location
    assert hudi.check_table(sales.lake.location_of("found")).ok


def test_every_door_takes_a_lake_in_a_catalog(sales: Sales, tmp_path: Path) -> None:
    sales.lake.create("orders", ROWS.schema, **KEY).upsert(ROWS)
    assert {line.table for line in hudi.upkeep(sales.lake, plan=True).lines} == {f"{sales.address}/orders"}
    found = hudi.sql("SELECT count(*) AS n FROM orders", sales.lake)
    assert isinstance(found, pa.Table)
    assert found.to_pylist() == [{"n": 2}]
    airflow = ConnectionSettings(sales.address, {}, {})
    assert airflow.lake.list() == ("orders",)

    def run(*words: str) -> tuple[int, str]:
        done = CliRunner().invoke(main, words)
        return done.exit_code, done.stdout

    code, text = run("tables", sales.address, "--json")
    (row,) = json.loads(text)
    assert (code, row["name"], row["location"], row["problem"]) == (0, "orders", str(sales.folder / "orders"), "")
    assert run("count", f"{sales.address}/orders")[1].strip() == "2"
    assert run("upkeep", sales.address, "--plan", "--json")[0] == 0
    assert run("upgrade", sales.address, "--plan")[0] == 0
    assert "in the catalog: sales.orders" in run("drop", f"{sales.address}/orders", "--plan")[1]
    assert run("drop", f"{sales.address}/orders")[0] == 0
    assert run("tables", sales.address)[0] == 2

    @hd.hudi_asset(record_key="id", partition_by="day")
    def orders() -> pa.Table:
        return ROWS

    resource = hd.HudiLakeResource(warehouse=sales.address)
    assert materialize([orders], resources={"lake": resource}).success
    assert sales.lake.table("orders").count() == 2
    assert resource.tables_by_name.list() == ("orders",)


def test_what_cannot_be_is_refused_by_name_and_changes_nothing(sales: Sales) -> None:
    lake = sales.lake
    sales.add_foreign("other")
    calls: list[tuple[Callable[[], object], type[HudiError], str]] = [
        (lambda: lake.table("other"), UnsupportedTableError, "not a Hudi table"),
        (lambda: lake.create("other", ROWS.schema, **KEY), UnsupportedTableError, "not a Hudi table"),
        (lambda: lake.drop("other"), UnsupportedTableError, "not a Hudi table"),
        (lambda: lake.rename("other", "mine"), UnsupportedTableError, "not renamed"),
        (lambda: lake.create("a/b", ROWS.schema, **KEY), ConfigError, "names no database of a catalog"),
        (lambda: hudi.open_table(sales.address), ConfigError, "not a table"),
        (lambda: hudi.lake(f"{sales.address}/other"), ConfigError, "not a database"),
        (lambda: hudi.lake(sales.address.replace("sales", "absent")).list(), CatalogError, "has no database absent"),
    ]
    for call, kind, why in calls:
        with pytest.raises(kind, match=why) as refused:
            call()
        assert refused.value.hint
    assert sales.names() == ["other"]
    assert not sales.folder.exists()


@pytest.mark.parametrize(
    "address",
    ["thrift://", "thrift:///db", "thrift://h:0/db", "glue://", "glue://a/b/c", "thrift://me:very-secret@h/db"],
)
def test_an_address_that_names_nothing_is_refused_without_its_password(address: str) -> None:
    with pytest.raises(ConfigError) as refused:
        hudi.lake(address)
    assert "very-secret" not in f"{refused.value!r}{refused.value}"


def test_a_database_without_a_location_makes_no_table(hms: Sales) -> None:
    with pytest.raises(CatalogError, match="says no location"):
        hudi.lake(hms.address.replace("sales", "default")).create("orders", ROWS.schema, **KEY)


def test_a_metastore_that_hangs_ends_a_look_in_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        options = {"pyhudi.catalog.request.timeout.ms": 50}
        lake = hudi.lake(f"thrift://127.0.0.1:{silent.getsockname()[1]}/sales", options=options)
        for ask in (
            lake.list,
            lambda: lake.exists("orders"),
            lambda: lake.table("orders"),
            lambda: lake.drop("orders"),
        ):
            with pytest.raises(CatalogError, match="get_database"):
                ask()


def test_glue_takes_the_credentials_of_tables_on_amazons_s3_and_not_those_of_another_store(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    given = {"access_key_id": "of the table", "secret_access_key": "secret", "region": "eu-west-1"}
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "absent"))
    with mock_aws(config={"core": {"mock_credentials": False}}):
        keys = {"aws_access_key_id": "mine", "aws_secret_access_key": "secret"}
        boto3.client("s3", "us-east-1", **keys).create_bucket(Bucket="lake")
        table = hudi.create_table("s3://lake/orders", ROWS.schema, **KEY, storage_options=given)
        table.catalog.sync("glue", database="sales")
        assert hudi.lake("glue://sales", given).list() == ("orders",)
        assert hudi.lake("glue://sales", given).table("orders").location == "s3://lake/orders"
        for other in ({"region": "eu-west-1"}, {**given, "endpoint_url": "https://store:9000"}):
            with pytest.raises(CatalogError, match="Unable to locate credentials"):
                hudi.lake("glue://sales", other, {"hoodie.aws.glue.region": "eu-west-1"}).list()
