"""A wrong bucket, container, region, endpoint or credential is one error, which says what to check, at every door of every cloud."""

from __future__ import annotations

import os
import re
import socket
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.http_server import served

import pyhudi_core as hudi
from pyhudi_core.errors import StorageError
from pyhudi_core.storage import open_storage, s3_client

SCHEMA = pa.schema([("id", pa.int64())])
SETTINGS = {
    "s3": {"region": "r", "access_key_id": "a", "secret_access_key": "b"},
    "gs": {"bearer_token": "x"},
    "az": {"account_name": "lake", "account_key": "eA=="},
}
DOORS: dict[str, Callable[[str, dict[str, str]], object]] = {
    "open": hudi.open_table,
    "create": lambda location, options: hudi.create_table(location, SCHEMA, "id", storage_options=options),
    "exists": hudi.table_exists,
    "write": lambda location, options: open_storage(location, options).put_if_absent("a", b""),
    "put": lambda location, options: open_storage(location, options).put("a", b""),
    "list": lambda location, options: open_storage(location, options).list(""),
}
WRONG = [
    ("s3", 404, "NoSuchBucket", "bucket's name"),
    ("s3", 400, "AuthorizationHeaderMalformed", "region"),
    ("s3", 301, "PermanentRedirect", "region"),
    ("s3", 302, "", "http or https"),
    ("s3", 307, "", "http or https"),
    ("s3", 403, "InvalidAccessKeyId", "access_key_id|credentials"),
    ("s3", 404, "XAdminUserNotFound", "access_key_id|credentials"),
    ("s3", 403, "SignatureDoesNotMatch", "secret_access_key|credentials"),
    ("s3", 403, "AccessDenied", "s3:GetObject|s3:ListBucket|s3:PutObject"),
    ("s3", 403, "RequestTimeTooSkewed", "clock|credentials"),
    ("s3", 400, "ExpiredToken", "session_token|credentials"),
    ("s3", 200, "", "endpoint_url"),
    ("s3", 405, "", "endpoint"),
    ("s3", 404, "", "endpoint_url"),
    ("s3", 400, "", "bucket's name"),
    ("gs", 404, "NoSuchBucket", "bucket's name"),
    ("gs", 401, "AuthenticationRequired", "service_account"),
    ("gs", 403, "AccessDenied", "service_account"),
    ("gs", 200, "", "endpoint_url"),
    ("gs", 405, "", "endpoint_url"),
    ("gs", 404, "", "endpoint_url"),
    ("gs", 400, "", "bucket's name"),
    ("az", 404, "ContainerNotFound", "container's name"),
    ("az", 403, "AuthenticationFailed", "account_key"),
    ("az", 200, "", "endpoint_url"),
    ("az", 405, "", "endpoint_url"),
    ("az", 404, "", "endpoint_url"),
    ("az", 400, "", "container's name"),
]
"""Cloud, status and code of the answer to every request (without a code: the page of another server), and what the hint says."""


RAW = re.compile(r"Generic|Error performing|Debug|</|[{}]")
"""What only a client library, or the body of an answer, says."""


class Server:
    """Gives one answer to every request."""

    def __init__(self) -> None:
        self.status, self.code, self.redirects_to = 200, "", ""
        answer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                xml = f'<?xml version="1.0"?><Error><Code>{answer.code}</Code><Message>said so</Message></Error>'
                body = (xml if answer.code else "<html><body>Welcome</body></html>").encode()
                self.send_response(answer.status)
                self.send_header("Content-Type", "application/xml" if answer.code else "text/html")
                self.send_header("Content-Length", str(len(body)))
                if answer.redirects_to:
                    self.send_header("Location", answer.redirects_to + self.path)
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body)

            do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = answer

            def log_message(self, *unused: Any) -> None:
                return

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    made = Server()
    with served(made.server):
        yield made


@pytest.mark.parametrize(("cloud", "status", "code", "hint"), WRONG)
def test_what_is_wrong_is_one_error_at_every_door(
    server: Server, cloud: str, status: int, code: str, hint: str
) -> None:
    server.status, server.code = status, code
    options = {**SETTINGS[cloud], "endpoint_url": server.url}
    for door, enter in DOORS.items():
        if (door, cloud, status) == ("list", "gs", 200):
            continue  # the client library takes any page for an empty listing; no operation begins with one
        with pytest.raises(StorageError) as caught:
            enter(f"{cloud}://lake/t", options)
        said = str(caught.value.hint)
        assert any(word in said for word in hint.split("|")), f"{door}: {caught.value}"
        assert not RAW.search(str(caught.value)), f"{door}: {caught.value}"


@pytest.fixture
def silent() -> Iterator[str]:
    """The address of a server that takes connections, and never answers."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(100)
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"


ROLE = "arn:aws:iam::123456789012:role/writer"
WHO_GIVES_CREDENTIALS: dict[str, tuple[dict[str, str], dict[str, str]]] = {
    "a role": ({**SETTINGS["s3"], "role_arn": ROLE, "sts_endpoint_url": "SERVER"}, {}),
    "workload identity": (
        {"region": "r"},
        {"AWS_ROLE_ARN": ROLE, "AWS_WEB_IDENTITY_TOKEN_FILE": __file__, "AWS_ENDPOINT_URL_STS": "SERVER"},
    ),
}
"""Storage options and environment, with the address of the server that is asked for credentials."""


@pytest.mark.parametrize("kind", WHO_GIVES_CREDENTIALS)
def test_a_silent_server_of_credentials_is_an_error_within_seconds_at_every_door(
    kind: str, silent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(s3_client, "_CONNECT_S", 0.4)
    options, environment = WHO_GIVES_CREDENTIALS[kind]
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    for name, text in environment.items():
        monkeypatch.setenv(name, text.replace("SERVER", silent))
    given = {name: text.replace("SERVER", silent) for name, text in options.items()}
    began = time.monotonic()
    for enter in DOORS.values():
        with pytest.raises(StorageError, match=silent):
            enter("s3://lake/t", given)
    assert time.monotonic() - began < 60, "botocore alone asks five times, a minute each"


@pytest.mark.parametrize(
    ("environment", "says"),
    [
        ({"AWS_PROFILE": "nowhere"}, "nowhere"),
        ({"AWS_ENDPOINT_URL": "store:9000"}, "store:9000"),
        ({"AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://192.0.2.1/x"}, "192.0.2.1"),
    ],
)
def test_what_is_wrong_in_the_environment_is_an_error_of_ours_at_every_door(
    environment: dict[str, str], says: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name, text in environment.items():
        monkeypatch.setenv(name, text)
    for enter in DOORS.values():
        with pytest.raises(StorageError, match=says) as caught:
            enter("s3://lake/t", {"region": "r"})
        assert caught.value.hint


@pytest.mark.parametrize(
    ("door", "right"), [("list", "s3:ListBucket"), ("write", "s3:PutObject"), ("open", "s3:GetObject")]
)
def test_a_policy_that_denies_is_named_by_the_right_that_is_missing(server: Server, door: str, right: str) -> None:
    server.status, server.code = 403, "AccessDenied"
    with pytest.raises(StorageError, match="AccessDenied") as caught:
        DOORS[door]("s3://lake/t", {**SETTINGS["s3"], "endpoint_url": server.url})
    assert right in str(caught.value.hint)


@pytest.mark.parametrize("status", [301, 302, 307, 308])
@pytest.mark.parametrize("cloud", SETTINGS)
def test_credentials_do_not_follow_a_redirect_to_another_server(server: Server, cloud: str, status: int) -> None:
    seen: list[str] = []

    class Elsewhere(BaseHTTPRequestHandler):
        def answer(self) -> None:
            seen.append(str(self.headers))
            self.send_error(404)

        do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = answer

        def log_message(self, *unused: Any) -> None:
            return

    other = ThreadingHTTPServer(("127.0.0.2", 0), Elsewhere)
    other.daemon_threads = True
    server.status, server.code, server.redirects_to = status, "", f"http://127.0.0.2:{other.server_port}"
    try:
        with served(other), pytest.raises(StorageError):
            open_storage(f"{cloud}://lake/t", {**SETTINGS[cloud], "endpoint_url": server.url}).put("a", b"")
    finally:
        server.redirects_to = ""
    assert not [headers for headers in seen if "authorization" in headers.lower()]
