"""Whose table is an entry of a catalog: spellings of one location, folders of one name in two stores, and entries that are made anew during a sync."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import boto3
import pyarrow as pa
import pytest
from botocore.exceptions import ClientError
from moto import mock_aws
from support.tables import ORDERS, create_plain, in_memory, orders
from support.thrift_metastore import Metastore, serving

import pyhudi_core as hudi
from pyhudi_core.catalog import addresses, opening, sync
from pyhudi_core.catalog.addresses import CatalogAddress
from pyhudi_core.catalog.glue import GlueCatalog
from pyhudi_core.catalog.metastore import MetastoreCatalog
from pyhudi_core.catalog.places import place_of, same_place
from pyhudi_core.errors import CatalogError, UnsupportedTableError
from pyhudi_core.runtime.system import system_runtime

HIVE = "hoodie.datasource.hive_sync."
AZURE = "abfss://lake@mine.dfs.core.windows.net/orders"


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("s3://lake/orders", "s3a://lake/orders/", True),
        ("s3n://lake/orders", "s3://lake/orders", True),
        ("file:/lake/orders", "/lake/orders", True),
        ("file:///lake/orders", "file://localhost/lake/orders", True),
        ("file:/lake/a b%20ü", "/lake/a b%20ü", True),
        ("gcs://lake/orders", "gs://lake/orders", True),
        (AZURE, "az://lake/orders", True),
        (AZURE, "wasbs://lake@mine.blob.core.windows.net/orders", True),
        ("hdfs://nn/lake/orders/", "hdfs://nn/lake/orders", True),
        ("s3://lake/orders", "gs://lake/orders", False),
        ("s3://lake/orders", "az://lake/orders", False),
        ("s3://lake/orders", "s3://lake2/orders", False),
        ("s3://lake/orders", "/lake/orders", False),
        ("hdfs://nn/lake/orders", "/lake/orders", False),
        ("hdfs:///lake/orders", "/lake/orders", False),
        ("viewfs://lake/orders", "hdfs://lake/orders", False),
        (AZURE, "abfss://lake@other.dfs.core.windows.net/orders", False),
        ("s3://lake/orders", "s3://lake/Orders", False),
        ("", "/lake/orders", False),
        ("orders", "/lake/orders", False),
    ],
)
def test_a_location_of_a_catalog_is_one_folder_in_every_spelling_and_no_other(one: str, other: str, same: bool) -> None:
    assert same_place(one, other) is same
    assert same_place(other, one) is same
    if "az://" not in other:
        assert (place_of(one) == place_of(other)) is same


class Entries:
    """A catalog, and the entry ``lake.t`` as somebody else makes it and sees it. ``compares``: whether the catalog compares while it alters."""

    def __init__(self, options: dict[str, object], metastore: Metastore | None) -> None:
        self.options, self.metastore = options, metastore
        self.compares = True
        self.catalog: Any = None

    def of(self, table: hudi.HudiTable, **more: object) -> hudi.HudiTable:
        return hudi.open_table(table.location, options={**self.options, **more})

    def compare(self, compares: bool) -> None:
        self.compares = compares
        if self.metastore is not None:
            self.metastore.compares = compares

    def sync(self, table: hudi.HudiTable) -> bool:
        """Sync, with one connection for all syncs of a test. Returns whether the catalog was changed."""
        context = self.of(table).catalog.context
        if self.catalog is None:
            self.catalog = opening._open(context.options.catalog, context.storage, context.runtime)
        return bool(sync.sync(context, self.catalog, lambda *_: None))

    def saved(self) -> Any:
        """Everything that the catalog has."""
        state = self.metastore.__dict__ if self.metastore is not None else _moto().__dict__
        return copy.deepcopy({name: state[name] for name in ("tables", "parts", "databases") if name in state})

    def bring_back(self, saved: Any) -> None:
        target = self.metastore if self.metastore is not None else _moto()
        for name, value in copy.deepcopy(saved).items():
            setattr(target, name, value)

    def address(self) -> CatalogAddress:
        text = "glue://lake/t" if self.metastore is None else f"{self.options[f'{HIVE}metastore.uris']}/lake/t"
        return CatalogAddress.parse(text, None, None, system_runtime())

    def remove(self) -> None:
        if self.metastore is not None:
            self.metastore.tables.pop(("lake", "t"), None)
            self.metastore.parts.pop(("lake", "t"), None)
            return
        with suppress(ClientError):
            boto3.client("glue").delete_table(DatabaseName="lake", Name="t")

    def add_parameter(self, name: str, text: str) -> None:
        """Change a parameter, as somebody else's ALTER TABLE does."""
        if self.metastore is not None:
            parameters = self.metastore.tables["lake", "t"].parameters
            parameters |= {name: text, "transient_lastDdlTime": str(int(parameters["transient_lastDdlTime"]) + 1)}
            return
        client = boto3.client("glue")
        found = client.get_table(DatabaseName="lake", Name="t")["Table"]
        given = {key: found[key] for key in ("Name", "TableType", "PartitionKeys", "StorageDescriptor") if key in found}
        client.update_table(
            DatabaseName="lake", TableInput={**given, "Parameters": {**found["Parameters"], name: text}}
        )

    def make_anew(self, location: str, provider: str = "") -> None:
        parameters = {"spark.sql.sources.provider": provider, "owner": "somebody"}
        self.remove()
        if self.metastore is not None:
            from pymetastore.hive_metastore import ttypes as types

            descriptor = types.StorageDescriptor(cols=[], location=location, serdeInfo=types.SerDeInfo())
            keys = [types.FieldSchema("day", "string", "")]
            raw = types.Table("t", "lake", "me", 5, sd=descriptor, parameters=parameters, partitionKeys=keys)
            self.metastore.create_table(raw)
            return
        client = boto3.client("glue")
        given = {"Name": "t", "Parameters": parameters, "StorageDescriptor": {"Location": location}}
        client.create_table(DatabaseName="lake", TableInput=given)

    def seen(self) -> tuple[str, dict[str, str], int]:
        """Location, parameters, and the number of partitions."""
        if self.metastore is not None:
            raw = self.metastore.tables["lake", "t"]
            parameters = {key: text for key, text in raw.parameters.items() if key != "transient_lastDdlTime"}
            return raw.sd.location, parameters, len(self.metastore.parts["lake", "t"])
        client = boto3.client("glue")
        found = client.get_table(DatabaseName="lake", Name="t")["Table"]
        partitions = client.get_partitions(DatabaseName="lake", TableName="t")["Partitions"]
        return found["StorageDescriptor"]["Location"], found["Parameters"], len(partitions)

    def before_request(self, monkeypatch: pytest.MonkeyPatch, do: Callable[[str], None]) -> None:
        """Call a function before each request of a sync, and compare versions as Glue does (moto does not)."""
        kind: Any = GlueCatalog if self.metastore is None else MetastoreCatalog
        ask = kind._ask

        def asked(catalog: Any, method: str, *arguments: Any, **given: Any) -> Any:
            do(method)
            if method == "update_table" and self.compares:
                table = catalog._client.get_table(DatabaseName=given["DatabaseName"], Name=given["TableInput"]["Name"])
                if table["Table"]["VersionId"] != given["VersionId"]:
                    error = {"Error": {"Code": "ConcurrentModificationException", "Message": "version"}}
                    with monkeypatch.context() as failing:
                        failing.setattr(catalog, "_client", Refusing(ClientError(error, "UpdateTable")))  # type: ignore[arg-type]
                        return ask(catalog, method, *arguments, **given)
            return ask(catalog, method, *arguments, **given)

        monkeypatch.setattr(kind, "_ask", asked)


def _moto() -> Any:
    from moto.glue.models import glue_backends

    return glue_backends["123456789012"]["eu-west-1"]


class Refusing:
    """A client of Glue whose request is refused."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def update_table(self, **_given: object) -> None:
        raise self._error


@pytest.fixture(params=["hms", "glue"])
def entries(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Entries]:
    if request.param == "hms":
        metastore = Metastore()
        metastore.databases["lake"] = metastore.databases["default"]
        with serving(metastore) as port:
            yield Entries({f"{HIVE}metastore.uris": f"thrift://127.0.0.1:{port}", f"{HIVE}database": "lake"}, metastore)
        return
    for name, text in (("ACCESS_KEY_ID", "test"), ("SECRET_ACCESS_KEY", "test"), ("DEFAULT_REGION", "eu-west-1")):
        monkeypatch.setenv(f"AWS_{name}", text)
    with mock_aws():
        boto3.client("glue").create_database(DatabaseInput={"Name": "lake"})
        yield Entries({f"{HIVE}mode": "glue", f"{HIVE}database": "lake"}, None)


def new() -> hudi.HudiTable:
    table = create_plain(in_memory(), ORDERS, "id", "day")
    table.insert(orders((1, "a", 1.0), (2, "b", 2.0)))
    return table


@pytest.mark.parametrize("scheme", ["s3", "gs", "hdfs", "az"])
def test_a_table_of_that_path_in_another_store_is_another_table(scheme: str, entries: Entries) -> None:
    table = new()
    entries.of(table, **{f"{HIVE}table": "first"}).catalog.sync()
    entries.make_anew(table.location.replace("memory", scheme), "hudi")
    before = entries.seen()
    with pytest.raises(UnsupportedTableError, match=rf"a Hudi table at {scheme}://") as refused:
        entries.of(table).catalog.sync()
    assert "Nothing was changed" in str(refused.value.hint)
    assert entries.seen() == before


each_catalog = pytest.mark.parametrize(
    ("entries", "compares"),
    [("hms", True), ("hms", False), ("glue", True)],
    ids=["hms", "older hms", "glue"],
    indirect=["entries"],
)
"""Glue, and a Hive Metastore that compares an entry before an alteration, and one that cannot."""


@pytest.mark.parametrize("provider", ["", "hudi"], ids=["another kind", "another Hudi table"])
@each_catalog
def test_an_entry_that_is_made_anew_before_any_request_of_a_sync_stays(
    compares: bool, provider: str, entries: Entries, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A catalog that does not compare loses only an entry that is made between the last look and the alteration."""
    entries.compare(compares)
    lost, joined, at = [], [], 0
    requests: list[str] = []
    table = changed_since_its_sync(entries)
    saved = entries.saved()
    while at <= len(requests):
        entries.bring_back(saved)
        requests = []

        def somebody(method: str, at: int = at, requests: list[str] = requests) -> None:
            if len(requests) == at:
                entries.make_anew("s3://somebodys/t", provider)
            requests.append(method)

        refused: Exception | None = None
        with monkeypatch.context() as patched:
            entries.before_request(patched, somebody)
            try:
                entries.sync(table)
            except (CatalogError, UnsupportedTableError) as error:
                refused = error
        if at >= len(requests):
            entries.make_anew("s3://somebodys/t", provider)
            assert refused is None
            break
        location, parameters, partitions = entries.seen()
        if (location, parameters) != (
            "s3://somebodys/t",
            {"spark.sql.sources.provider": provider, "owner": "somebody"},
        ):
            lost.append(requests[at])
        else:
            assert refused is not None or at == 0, requests[at]
            with pytest.raises(UnsupportedTableError, match=r"has another table lake\.t"):
                entries.sync(table)
            if partitions:
                joined.append(requests[at])
                assert "compare its partitions" in str(getattr(refused, "hint", ""))
        at += 1
    assert at > 8
    alterations = ("update_table", "alter_table_with_environment_context")
    assert [one for one in lost if one not in alterations] == []
    assert bool(lost) is not compares
    assert set(joined) <= {"batch_create_partition", "add_partitions_req"}


def changed_since_its_sync(entries: Entries) -> hudi.HudiTable:
    """A table that is in the catalog, and needs there a column, a new partition and one less."""
    table = new()
    entries.sync(table)
    table.alter(add={"more": pa.string()})
    table.insert(pa.Table.from_pylist([{"id": 3, "day": "c"}], table.schema))
    table.delete_partitions(["day=b"])
    return table


@each_catalog
def test_an_entry_that_somebody_makes_while_a_sync_makes_it_stays(
    compares: bool, entries: Entries, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The entry of the sync is dropped, and another table gets the name, before each request of a first sync."""
    entries.compare(compares)
    requests: list[str] = []
    at, table = 0, new()
    lost: list[str] = []
    while at <= len(requests):
        entries.remove()
        requests = []

        def somebody(method: str, at: int = at, requests: list[str] = requests) -> None:
            if len(requests) == at:
                entries.make_anew("s3://somebodys/t")
            requests.append(method)

        with monkeypatch.context() as patched:
            entries.before_request(patched, somebody)
            try:
                entries.sync(table)
            except (CatalogError, UnsupportedTableError):
                assert at < len(requests)
            else:
                lost += requests[at : at + 1]
        at += 1
    assert at > 3
    # A new entry of Glue has the first version, whoever made it.
    unseen = entries.metastore is None or not compares
    assert lost == (
        ["update_table" if entries.metastore is None else "alter_table_with_environment_context"] if unseen else []
    )


def test_what_somebody_adds_to_an_entry_during_a_sync_stays(entries: Entries, monkeypatch: pytest.MonkeyPatch) -> None:
    """An owner that is written before any request is not overwritten with what the sync has read before."""
    requests: list[str] = []
    table, at = changed_since_its_sync(entries), 0
    saved = entries.saved()
    while at <= len(requests):
        entries.bring_back(saved)
        requests = []

        def somebody(method: str, at: int = at, requests: list[str] = requests) -> None:
            if len(requests) == at:
                entries.add_parameter("owner.team", "sales")
            requests.append(method)

        with monkeypatch.context() as patched:
            entries.before_request(patched, somebody)
            entries.sync(table)
        if at < len(requests):
            assert entries.seen()[1]["owner.team"] == "sales", requests[at]
        assert not entries.sync(table)
        at += 1


def test_a_metastore_whose_database_cannot_compare_is_asked_without(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hive 4 on Derby answers with an error of its database, and has changed nothing."""
    metastore = Metastore()
    metastore.databases["lake"] = metastore.databases["default"]
    metastore.on_derby = True
    with serving(metastore) as port:
        entries = Entries({f"{HIVE}metastore.uris": f"thrift://127.0.0.1:{port}", f"{HIVE}database": "lake"}, metastore)
        table = changed_since_its_sync(entries)
        requests: list[str] = []
        entries.before_request(monkeypatch, requests.append)
        assert entries.sync(table)
        assert not entries.sync(table)
    alterations = requests.count("alter_table_with_environment_context")
    assert alterations == 3, (
        "columns, mark and end; the first sync of the connection has asked whether it can: each question takes 20 s"
    )


def test_a_drop_marks_an_entry_that_others_change_again(entries: Entries, monkeypatch: pytest.MonkeyPatch) -> None:
    table = new()
    entries.sync(table)
    address = entries.address()
    found = addresses.needed(address)
    changes = iter(range(2))

    def somebody(method: str) -> None:
        if method in ("update_table", "alter_table_with_environment_context") and next(changes, None) is not None:
            entries.add_parameter("owner.team", f"{method}{len(entries.seen()[1])}")

    with monkeypatch.context() as patched:
        entries.before_request(patched, somebody)
        addresses.mark(address, found)
    assert "owner.team" in entries.seen()[1]
    now = addresses.needed(address)
    assert now.dropping
    with monkeypatch.context() as patched:
        entries.before_request(
            patched, lambda method: entries.add_parameter("n", method + entries.seen()[1].get("n", ""))
        )
        with pytest.raises(CatalogError, match=r"Other processes changed the table lake\.t"):
            addresses.mark(address, now, dropping=False)


def test_a_table_that_is_opened_by_a_link_is_the_table_of_its_entry(entries: Entries, tmp_path: Path) -> None:
    real, link = tmp_path / "real folder ü%20", tmp_path / "link"
    rows = pa.table({"id": [1, 2], "day": ["a", "b"]})
    table = hudi.create_table(str(real), rows.schema, "id", partition_by="day")
    table.insert(rows)
    where: dict[str, object] = {f"{HIVE}table": "t"}
    entries.of(table, **where).catalog.sync()
    link.symlink_to(real)
    by_link = hudi.open_table(str(link), options={**entries.options, **where})
    assert not by_link.catalog.sync()
    by_link.upsert(pa.table({"id": [3, 1], "day": ["c", "a"]}))
    done = by_link.catalog.sync()
    assert (done.added, done.altered, done.changes) == (1, 0, ())
    assert not entries.of(table, **where).catalog.sync()


def test_a_sync_that_drops_a_partition_after_another_sync_has_kept_it_adds_it_again(
    entries: Entries, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = new()
    assert entries.of(table).catalog.sync()
    table.delete_partitions(["day=a"])
    kind = GlueCatalog if entries.metastore is None else MetastoreCatalog
    real = kind.drop
    others: list[hudi.HudiTable] = []

    def drop(self: Any, *given: Any) -> None:
        if not others:
            others.append(entries.of(table))
            others[0].insert(orders((7, "a")))
            assert others[0].catalog.sync()
        real(self, *given)

    def days() -> list[str]:
        if entries.metastore is not None:
            return sorted(values[0] for values in entries.metastore.parts["lake", "t"])
        found = boto3.client("glue").get_partitions(DatabaseName="lake", TableName="t")["Partitions"]
        return sorted(one["Values"][0] for one in found)

    assert days() == ["a", "b"]
    monkeypatch.setattr(kind, "drop", drop)
    entries.of(table).catalog.sync()
    assert others
    assert days() == ["a", "b"]
    assert not entries.of(table).catalog.sync()
