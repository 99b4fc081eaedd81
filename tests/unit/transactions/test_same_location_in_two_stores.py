"""One location behind two endpoints, or in two accounts, is two tables; one endpoint by two spellings is one."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest
from moto import mock_aws
from support.google_store import GoogleStore, google_store

import pyhudi as hudi
from pyhudi_core.errors import InvalidOptionError
from pyhudi_core.storage.base import ObjectInfo
from pyhudi_core.storage.opening import open_storage
from pyhudi_core.storage.same_place import same_folder
from pyhudi_core.table_transactions import refuse_apart

SCHEMA = pa.schema([("id", pa.int64()), ("value", pa.int64())])
KEY = {"account_key": "a2V5"}
PLACE = "gs://lake/t"
PROPERTIES = ".hoodie/hoodie.properties"


def rows(*values: tuple[int, int]) -> pa.Table:
    return pa.table({"id": [key for key, _ in values], "value": [value for _, value in values]}, SCHEMA)


@pytest.fixture
def stores() -> Iterator[tuple[GoogleStore, GoogleStore]]:
    with google_store() as one, google_store() as two:
        yield one, two


def made(store: GoogleStore, place: str = PLACE) -> hudi.HudiTable:
    options = {"hoodie.write.lock.provider": "in_process", "hoodie.metadata.enable": "false"}
    return hudi.create_table(place, SCHEMA, "id", storage_options=store.options, options=options)


def test_tables_of_one_location_behind_two_endpoints_are_in_several_stores(
    stores: tuple[GoogleStore, GoogleStore],
) -> None:
    one, two = map(made, stores)
    with pytest.raises(InvalidOptionError, match=r"several stores.*gs://lake/t is another place \(http.*and not http"):
        hudi.transaction([one, two])
    with pytest.raises(InvalidOptionError, match="several stores"):
        hudi.snapshot([one, two])


def test_a_handle_of_the_same_location_elsewhere_is_not_one_of_the_transaction(
    stores: tuple[GoogleStore, GoogleStore],
) -> None:
    one, two = map(made, stores)
    other = made(stores[0], "gs://lake/other")
    with pytest.raises(InvalidOptionError, match="not one of the transaction"), hudi.transaction([one, other]) as both:
        both.upsert(two, rows((1, 1)))
    with pytest.raises(InvalidOptionError, match="not one of the snapshot"):
        hudi.snapshot([one, other]).scan(two)
    spelled = stores[0].options | {"endpoint_url": stores[0].url.replace("127.0.0.1", "localhost")}
    again = hudi.open_table("gcs://lake/t/", spelled)
    with hudi.transaction([one, other]) as both:
        both.upsert(again, rows((1, 1)))
        both.upsert(other, rows((1, 1)))
    assert one.count() == 1
    assert two.count() == 0


def test_a_consumer_reads_a_table_into_one_of_the_same_location_elsewhere(
    stores: tuple[GoogleStore, GoogleStore],
) -> None:
    one, two = map(made, stores)
    one.append(rows((1, 1), (2, 2)))
    for batch in hudi.Consumer("copy", one, two):
        two_rows = batch.rows().to_arrow().select(SCHEMA.names)
        batch.commit(two_rows)
    assert two.count() == 2
    spelled = hudi.open_table(
        PLACE, stores[0].options | {"endpoint_url": stores[0].url.replace("127.0.0.1", "localhost")}
    )
    with pytest.raises(InvalidOptionError, match="the same table"):
        hudi.Consumer("circle", one, spelled)


AZURE = ["abfss://c@one.dfs.core.windows.net/t", "abfss://c@two.dfs.core.windows.net/t"]


def test_two_accounts_of_azure_with_one_container_and_path_are_two_stores() -> None:
    with pytest.raises(InvalidOptionError, match="several stores.*@one.*@two"):
        refuse_apart(AZURE, ["UTC", "UTC"])
    with pytest.raises(InvalidOptionError, match="several stores.*@one.*@two"):
        refuse_apart([AZURE[0], AZURE[1].replace("/t", "/u")], ["UTC", "UTC"])
    with pytest.raises(InvalidOptionError, match="given twice"):
        refuse_apart([AZURE[0], "https://ONE.blob.core.windows.net/c/t"], ["UTC", "UTC"])
    one, two = (open_storage(place, KEY) for place in AZURE)
    assert one.is_at("wasbs://c@one.blob.core.windows.net/t")
    assert one.is_at("az://c/t")
    assert not one.is_at(AZURE[1])
    assert one.store != two.store


@pytest.mark.parametrize(
    ("places", "options", "same"),
    [
        (AZURE, [KEY, KEY], False),
        (["az://c/t", "az://c/t"], [KEY | {"account_name": "one"}, KEY | {"account_name": "two"}], False),
        ([AZURE[0], "az://c/t"], [KEY, KEY | {"account_name": "one"}], True),
        (["s3://b/t", "s3a://b/t"], [{"region": "eu-west-1"}, {"region": "us-east-1"}], True),
        (["s3://b/t", "s3://b/t"], [{"endpoint_url": "http://x:1"}, {"endpoint_url": "http://y:1"}], False),
        (["s3://b/t", "s3://b/t"], [{"endpoint_url": "http://x:1"}, {}], False),
        (["s3://b/t", "s3://b/t"], [{"endpoint_url": "http://x:1"}, {"endpoint_url": "http://X:1/"}], True),
    ],
)
def test_one_folder_is_told_from_one_of_the_same_location_in_another_store(
    places: list[str], options: list[dict[str, str]], same: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the texts differ, an object says it: here each store has its own."""
    with mock_aws():
        one, two = (open_storage(place, given) for place, given in zip(places, options, strict=True))
        for number, storage in enumerate((one, two)):
            monkeypatch.setattr(
                type(storage), "head", lambda self, path, number=number: ObjectInfo(path, 1, self.store, number)
            )
        assert same_folder(one, two, PROPERTIES) is same
        monkeypatch.setattr(type(one), "head", lambda self, path: ObjectInfo(path, 1, "tag", 1))
        assert same_folder(one, two, PROPERTIES), "one store by two spellings of its endpoint"
