"""Storage options count more than the environment: whoever gives a credential is not asked for under another one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from support.http_server import served

from pyhudi_core.errors import HudiError, InvalidOptionError, StorageError
from pyhudi_core.storage import open_storage
from pyhudi_core.storage.s3 import S3Storage

SERVICE_ACCOUNT = '{"private_key_id": "x", "private_key": "y", "client_email": "a@b", "disable_oauth": true}'


class Asked:
    """A server that refuses every request, and remembers who asked."""

    def __init__(self) -> None:
        self.by: list[str] = []
        asked = self

        class Handler(BaseHTTPRequestHandler):
            def answer(self) -> None:
                asked.by.append(f"{self.path} {self.headers.get('Authorization', '')}")
                self.send_response(403)
                self.send_header("Content-Length", "0")
                self.end_headers()

            do_GET = do_POST = answer

            def log_message(self, *unused: Any) -> None:
                return

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[Asked]:
    for name in [name for name in os.environ if name.startswith(("AZURE_", "GOOGLE_", "AWS_"))]:
        monkeypatch.delenv(name)
    made = Asked()
    with served(made.server):
        yield made


KEY = {"account_key": "bWluZQ=="}
SAS = {"sas_token": "?sv=1&sig=MINE"}
ENVIRONMENTS = {
    "key": {"AZURE_STORAGE_ACCOUNT_KEY": "dGhlaXJz"},
    "token": {"AZURE_STORAGE_TOKEN": "THEIRS"},
    "signature": {"AZURE_STORAGE_SAS_TOKEN": "sv=1&sig=THEIRS"},
    "workload": {"AZURE_CLIENT_ID": "i", "AZURE_TENANT_ID": "THEIRS", "AZURE_FEDERATED_TOKEN_FILE": __file__},
    "application": {"AZURE_CLIENT_ID": "i", "AZURE_TENANT_ID": "THEIRS", "AZURE_CLIENT_SECRET": "x"},
    "connection": {"AZURE_STORAGE_CONNECTION_STRING": "AccountName=theirs;AccountKey=dGhlaXJz"},
}


@pytest.mark.parametrize("environment", ENVIRONMENTS)
@pytest.mark.parametrize(
    ("given", "says"),
    [(KEY, "SharedKey mine:"), (SAS, "sig=MINE"), ({"bearer_token": "MINE"}, "Bearer MINE")],
    ids=["key", "signature", "token"],
)
def test_a_credential_of_azure_that_is_given_counts_more_than_any_of_the_environment(
    given: dict[str, str], says: str, environment: str, asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in ENVIRONMENTS[environment].items():
        monkeypatch.setenv(name, text)
    monkeypatch.setenv("AZURE_AUTHORITY_HOST", asked.url)
    with pytest.raises(StorageError, match="403"):
        open_storage("az://lake/t", {"account_name": "mine", "endpoint_url": asked.url, **given}).get("a")
    assert [says in who for who in asked.by] == [True]


def test_a_connection_string_of_the_environment_is_for_its_account_alone(
    asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = f"AccountName=theirs;AccountKey=dGhlaXJz;BlobEndpoint={asked.url}"
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", text)
    monkeypatch.setenv("AZURE_MSI_ENDPOINT", f"{asked.url}/identity")
    with pytest.raises(StorageError, match="403"):
        open_storage("az://lake/t", {}).get("a")
    with pytest.raises(HudiError):
        open_storage("abfss://lake@mine.dfs.core.windows.net/t", {}).get("a")
    assert "SharedKey theirs:" in asked.by[0]
    assert all("identity" in who for who in asked.by[1:]), "the key of another account signed a request"


@pytest.mark.parametrize(
    ("location", "given", "variable", "text"),
    [
        ("az://lake/t", {"account_name": "a", "client_id": "x", "client_secret": "y"}, "AZURE_STORAGE_ACCOUNT_KEY", "eA=="),
        ("az://lake/t", {"account_name": "a", "use_azure_cli": "true"}, "AZURE_STORAGE_SAS_KEY", "sig=x"),
        ("gs://lake/t", {"service_account_key": SERVICE_ACCOUNT}, "GOOGLE_BEARER_TOKEN", "THEIRS"),
        ("gs://lake/t", {"application_credentials": "/mine"}, "GOOGLE_SERVICE_ACCOUNT", "/theirs"),
    ],
)  # fmt: skip
def test_a_given_identity_that_the_environment_would_hide_is_refused_by_the_name_of_the_variable(
    location: str, given: dict[str, str], variable: str, text: str, asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, text)
    with pytest.raises(InvalidOptionError, match=f"{variable} would count") as refused:
        open_storage(location, given)
    assert "THEIRS" not in str(refused.value)
    assert asked.by == []


def test_a_connection_string_and_an_option_with_another_value_are_refused() -> None:
    with pytest.raises(InvalidOptionError, match="'connection_string' and 'account_key' have two values") as refused:
        open_storage("az://lake/t", {"connection_string": "AccountName=a;AccountKey=dGhlaXJz", **KEY})
    assert "dGhlaXJz" not in str(refused.value)


@pytest.mark.parametrize(
    ("given", "environment", "region"),
    [
        ({}, {"AWS_REGION": "eu-west-1"}, "eu-west-1"),
        ({}, {"AWS_REGION": "eu-west-1", "AWS_DEFAULT_REGION": "eu-west-2"}, "eu-west-2"),
        ({"region": "eu-west-3"}, {"AWS_REGION": "eu-west-1", "AWS_DEFAULT_REGION": "eu-west-2"}, "eu-west-3"),
    ],
)
def test_the_region_of_the_environment_has_two_names(
    given: dict[str, str], environment: dict[str, str], region: str, asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in environment.items():
        monkeypatch.setenv(name, text)
    assert S3Storage("s3://lake/t", given)._clients.ordinary.meta.region_name == region


@pytest.mark.parametrize("name", ["skip_signature", "aws_skip_signature", "AWS_NO_SIGN_REQUEST"])
def test_a_public_bucket_is_read_without_a_signature(name: str, asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "THEIRS")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
    options = {"endpoint_url": asked.url, "region": "r", name: "true"}
    with pytest.raises(StorageError, match="403"):
        open_storage("s3://lake/t", options).get("a")
    assert "THEIRS" not in asked.by[0]
    with pytest.raises(InvalidOptionError, match="'skip_signature' and 'access_key_id'"):
        open_storage("s3://lake/t", {**options, "access_key_id": "a", "secret_access_key": "b"})
