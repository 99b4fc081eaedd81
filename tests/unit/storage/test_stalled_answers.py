"""An answer that stalls costs seconds, at every door of every cloud: a read is repeated, and the outcome of a write is read back."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from support.http_server import served
from support.speed import slowness

from pyhudi_core.errors import InvalidOptionError, StorageError
from pyhudi_core.storage import open_storage, s3_files, settling
from pyhudi_core.storage.base import Storage

SETTINGS = {
    "s3": {"region": "r", "access_key_id": "a", "secret_access_key": "b"},
    "gs": {"bearer_token": "x"},
    "az": {"account_name": "lake", "account_key": "eA=="},
}
DATA = bytes(range(256)) * 1000


class StallingStore:
    """Keeps one object with its metadata. ``stalls``: so many more answers to this method stop half way, and the connection stays open."""

    def __init__(self) -> None:
        self.data, self.metadata = DATA, {"x-seen": "1"}
        self.stalls = {"GET": 0, "PUT": 0}
        self.ended = threading.Event()
        store = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                body, status = store.data, 200
                if self.headers.get("Range"):
                    first, _, last = self.headers["Range"].removeprefix("bytes=").partition("-")
                    body, status = body[int(first) : int(last) + 1], 206
                self.begin(status, len(body))
                if status == 206:
                    self.send_header("Content-Range", f"bytes {first}-{int(first) + len(body) - 1}/{len(store.data)}")
                self.end_headers()
                if self.command == "HEAD":
                    return
                if store.stalls["GET"]:
                    store.stalls["GET"] -= 1
                    self.wfile.write(body[: len(body) // 2])
                    store.ended.wait()
                self.wfile.write(body)

            do_HEAD = do_GET

            def do_PUT(self) -> None:
                store.data = self.rfile.read(int(self.headers["Content-Length"]))
                store.metadata = {name: text for name, text in self.headers.items() if "-meta-" in name.lower()}
                if store.stalls["PUT"]:
                    store.stalls["PUT"] -= 1
                    store.ended.wait()
                self.begin(201, 0)
                self.end_headers()

            def begin(self, status: int, length: int) -> None:
                self.send_response(status)
                self.send_header("ETag", '"tag"')
                self.send_header("x-goog-generation", "1")
                self.send_header("Last-Modified", "Tue, 01 Dec 2026 01:00:00 GMT")
                self.send_header("Content-Length", str(length))
                for name, text in store.metadata.items():
                    self.send_header(name, text)

            def log_message(self, *unused: Any) -> None:
                return

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"


@pytest.fixture
def store() -> Iterator[StallingStore]:
    made = StallingStore()
    with served(made.server):
        try:
            yield made
        finally:
            made.ended.set()


@pytest.fixture(params=["s3", "gs", "az"])
def storage(request: pytest.FixtureRequest, store: StallingStore) -> Storage:
    cloud = request.param
    opened = open_storage(f"{cloud}://lake/t", {**SETTINGS[cloud], "endpoint_url": store.url, "timeout": "500ms"})
    assert opened.get("a") == DATA
    return opened


def test_a_read_whose_answer_stalls_is_repeated(storage: Storage, store: StallingStore) -> None:
    store.stalls["GET"] = 1
    begun = time.monotonic()
    assert storage.get("a") == DATA
    store.stalls["GET"] = 1
    with storage.open_input("a") as file:
        assert file.read() == DATA
    assert time.monotonic() - begun < 10 * slowness()


def test_a_store_that_always_stalls_is_an_error_soon(
    storage: Storage, store: StallingStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (settling, s3_files):
        monkeypatch.setattr(module, "UNANSWERED_FOR_S", 1)
    store.stalls["GET"] = 1_000
    begun = time.monotonic()
    with pytest.raises(StorageError) as caught:
        storage.get("a")
    assert time.monotonic() - begun < 8 * slowness()
    assert "timeout" in str(caught.value)


def test_a_write_whose_answer_never_comes_is_read_back(storage: Storage, store: StallingStore) -> None:
    store.stalls["PUT"] = 1
    begun = time.monotonic()
    assert storage.put_if_absent("b", b"mine").etag == "tag"
    assert store.data == b"mine"
    assert time.monotonic() - begun < 8 * slowness()


@pytest.mark.parametrize("cloud", SETTINGS)
@pytest.mark.parametrize("text", ["0", "0.4ms", "soon", "-1s", "5 hours"])
def test_a_timeout_that_is_no_time_is_refused(cloud: str, text: str) -> None:
    with pytest.raises(InvalidOptionError, match="timeout"):
        open_storage(f"{cloud}://lake/t", {**SETTINGS[cloud], "timeout": text})
