"""Wrong settings of a lock: refused before a table is made, and without the password that they contain."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from support.tables import ORDERS

import pyhudi_core as hudi
from pyhudi_core.errors import InvalidOptionError, LockServerError
from pyhudi_core.lock.clients.databases import open_database
from pyhudi_core.lock.clients.dynamodb import DynamoDb

_SQL = "pyhudi.lock.sql.url"
_DYNAMODB = {"lock": "dynamodb", "hoodie.write.lock.dynamodb.table": "locks"}
REFUSED: dict[str, Mapping[str, object]] = {
    "no url": {"lock": "sql"},
    "a url of another database": {"lock": "sql", _SQL: "mysql://h/d"},
    "ZooKeeper without a url": {"lock": "zookeeper"},
    "ZooKeeper without a path": {"lock": "zookeeper", "hoodie.write.lock.zookeeper.url": "h:1"},
    "a url for ZooKeeper's servers": {
        "lock": "zookeeper",
        "hoodie.write.lock.zookeeper.url": "http://h",
        "hoodie.write.lock.zookeeper.base_path": "/x",
    },
    "DynamoDB without a table": {"lock": "dynamodb"},
    "a secret key alone": {**_DYNAMODB, "hoodie.aws.secret.key": "s3cr3t"},
    "an access key alone": {**_DYNAMODB, "hoodie.aws.access.key": "s3cr3t"},
    "a session token alone": {**_DYNAMODB, "hoodie.aws.session.token": "s3cr3t"},
    "credentials in the endpoint": {**_DYNAMODB, "hoodie.write.lock.dynamodb.endpoint_url": "u:s3cr3t@h:1"},
    "a server without its lock": {
        "hoodie.write.lock.zookeeper.url": "h:1",
        "hoodie.write.lock.zookeeper.base_path": "/x",
    },
    "a server that is neither the lock's nor the generator's": {
        "pyhudi.time.generator": "zookeeper",
        "hoodie.write.lock.zookeeper.url": "h:1",
        "hoodie.write.lock.zookeeper.base_path": "/x",
        _SQL: "postgresql://u:s3cr3t@h/d",
    },
    "a generator without a server": {"pyhudi.time.generator": "zookeeper"},
}


@pytest.mark.parametrize("wrong", REFUSED)
def test_a_table_with_wrong_settings_of_its_lock_is_not_created(wrong: str, tmp_path: Path) -> None:
    place = tmp_path / "t"
    with pytest.raises(InvalidOptionError) as refused:
        hudi.create_table(place, ORDERS, "id", options=REFUSED[wrong])
    assert "s3cr3t" not in str(refused.value)
    assert not place.exists()


def test_a_server_without_its_lock_is_refused_because_it_would_not_be_used() -> None:
    with pytest.raises(InvalidOptionError, match=r"zookeeper\.url belongs to the lock zookeeper") as refused:
        hudi.create_table("memory://no-provider", ORDERS, "id", options=REFUSED["a server without its lock"])
    assert "Set hoodie.write.lock.provider=zookeeper" in str(refused.value)


@pytest.mark.parametrize(
    "url",
    ["u:ab@s3cr3t@h:1/db", "u:ab@s3cr3t/x@h:1/db", "u:12/s3cr3t@h/db", "u:12/x?s3cr3t@h/db", "u:12/x#s3cr3t@h/db", "h/s3cr3t@x"],
)  # fmt: skip
def test_a_password_that_is_not_encoded_is_refused_and_not_shown(url: str) -> None:
    with pytest.raises(InvalidOptionError, match="Percent-encode") as refused:
        open_database(f"postgresql://{url}", 1.0)
    assert "s3cr3t" not in str(refused.value)


def test_an_encoded_password_is_accepted() -> None:
    database = open_database("postgresql://u:ab%40s3cr3t%2Fx@127.0.0.1:1/db", 1.0)
    assert database.address == "postgresql://127.0.0.1:1/db"


def test_both_ways_to_write_an_absolute_path_of_sqlite_are_one_lock() -> None:
    """The documented one, and SQLAlchemy's with a slash more."""
    addresses = {open_database(f"sqlite:{slashes}var/l.db", 1.0).address for slashes in ("///", "////")}
    assert addresses == {"sqlite:///var/l.db"}


def test_half_of_the_credentials_in_the_environment_is_an_error_of_the_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY", raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "x")
    with pytest.raises(LockServerError, match="DynamoDB"):
        DynamoDb("locks", "eu-west-1", "", 1.0, 1.0, "PAY_PER_REQUEST", (1, 1)).call("get_item", Key={})
