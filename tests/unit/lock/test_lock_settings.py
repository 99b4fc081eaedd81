"""Wrong settings of a lock: refused before a table is made, and without the password that they contain."""

from __future__ import annotations

import logging
import re
import traceback
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.homes import runtime_with
from support.tables import ORDERS

import pyhudi_core as hudi
from pyhudi_core.errors import HudiError, InvalidOptionError, LockServerError
from pyhudi_core.lock.clients.databases import open_database
from pyhudi_core.lock.clients.dynamodb import DynamoDb
from pyhudi_core.lock.kind import LockKind, LockRequest
from pyhudi_core.lock.kinds import PROVIDER, every_kind, open_lock
from pyhudi_core.model.option import Option
from pyhudi_core.options import WriteOptions

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


_NOWHERE = "127.0.0.1:1"
_SHORT = {
    "hoodie.write.lock.wait_time_ms": 0,
    "pyhudi.lock.request.timeout.ms": 300,
    "hoodie.write.lock.zookeeper.connection_timeout_ms": 300,
}
_PASSWORDS = [
    "s3cr3t",
    "ab@s3cr3t",
    "s3cr3t@x",
    "ab@s3cr3t/x",
    "s3cr3t/x",
    "12/s3cr3t",
    "12?s3cr3t",
    "12#s3cr3t",
    "[s3cr3t",
]
_WITH_PASSWORD = [f"u:{password}@{_NOWHERE}/0" for password in _PASSWORDS]


def _is_address(option: Option) -> bool:
    return re.search("url|uri|endpoint", option.key) is not None


def _is_secret(option: Option) -> bool:
    return option.secret or re.search("password|secret|token", option.key) is not None


def _schemes(option: Option) -> list[str]:
    """The schemes that the text of an option names; none if its addresses have none."""
    return re.findall(r"\w+://", option.doc) or [""]


def _settings_with_password(kind: LockKind) -> Iterator[Mapping[str, object]]:
    """A password in all secret options; then in each address, as other software lets users write it."""
    own = kind.options()
    needed: dict[str, object] = {
        option.key: "x" for option in own if option.attribute.partition(".")[2] in kind.needs[kind.name]
    }
    sound = needed | {option.key: f"{_schemes(option)[0]}{_NOWHERE}" for option in own if _is_address(option)}
    users = {option.key: "u" for option in own if option.attribute.endswith(".user")}
    yield sound | users | {option.key: "s3cr3t" for option in own if _is_secret(option) and not _is_address(option)}
    for option in filter(_is_address, own):
        for scheme in _schemes(option):
            yield from (sound | {option.key: f"{scheme}{text}"} for text in _WITH_PASSWORD)


def _said(given: Mapping[str, object]) -> list[str]:
    """All that is said of a lock with these options, whose server is not there."""
    said = []
    try:
        options = WriteOptions.parse({**_SHORT, **given})
        said.append(repr(options))
        storage: Any = SimpleNamespace(location="s3://lake/orders")
        request = LockRequest(storage, runtime_with(), "orders", options.lock)
        said.append(repr(request))
        lock = open_lock(request)
        said += [lock.identity, repr(lock), repr(vars(lock))]
        lock.acquire(0, "a note")
    except HudiError as error:
        said += [str(error), repr(error), str(error.hint), *traceback.format_exception(error)]
    return said


@pytest.mark.parametrize("kind", [kind for kind in every_kind() if kind.on_server], ids=lambda kind: kind.name)
def test_no_lock_shows_a_password(kind: LockKind, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    settings = list(_settings_with_password(kind))
    secrets = {option.key: "s3cr3t" for option in kind.options() if _is_secret(option)}
    assert "s3cr3t" not in repr(WriteOptions.parse({PROVIDER: kind.name, **settings[0], **secrets}).lock.own)
    for given in settings:
        said = _said({PROVIDER: kind.name, **given})
        assert len(said) > 4, "neither refused nor asked"
        assert [text for text in [*said, caplog.text] if "s3cr3t" in text] == []
