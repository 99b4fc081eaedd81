"""A server that speaks the part of Google's XML interface that the client library uses, before objects in memory or in fake-gcs-server.

fake-gcs-server keeps conditions in its JSON interface, and refuses the names that the client library sends to its XML interface; so requests are
translated (`JsonObjects`). In memory (`MemoryObjects`) it needs no server, and can be told to be busy.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import format_datetime
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Protocol
from urllib.parse import parse_qs, quote, unquote, urlsplit
from xml.sax.saxutils import escape

BUCKET = "lake"
PAGE = 1_000


@dataclass(frozen=True, slots=True)
class Stored:
    """One version of an object."""

    data: bytes
    generation: int
    metadata: Mapping[str, str]
    modified: datetime

    @property
    def etag(self) -> str:
        return hashlib.md5(self.data).hexdigest()


class Objects(Protocol):
    """Where the objects are. ``if_generation``: the generation that is replaced or deleted, 0 for none, None for any."""

    def put(self, key: str, data: bytes, metadata: Mapping[str, str], if_generation: int | None) -> Stored | None:
        """Returns None if the condition does not hold."""
        ...

    def find(self, key: str) -> Stored | None: ...

    def delete(self, key: str) -> bool: ...

    def keys(self, prefix: str) -> list[str]: ...


@dataclass(slots=True)
class MemoryObjects:
    """Objects in memory."""

    objects: dict[str, Stored] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)
    generation: int = 1000

    def put(self, key: str, data: bytes, metadata: Mapping[str, str], if_generation: int | None) -> Stored | None:
        with self.lock:
            found = self.objects.get(key)
            if if_generation is not None and (found.generation if found else 0) != if_generation:
                return None
            self.generation += 1
            self.objects[key] = Stored(data, self.generation, metadata, datetime.now(UTC))
            return self.objects[key]

    def find(self, key: str) -> Stored | None:
        return self.objects.get(key)

    def delete(self, key: str) -> bool:
        with self.lock:
            return self.objects.pop(key, None) is not None

    def keys(self, prefix: str) -> list[str]:
        with self.lock:
            return sorted(key for key in self.objects if key.startswith(prefix))


class JsonObjects:
    """Objects in a server that speaks Google's JSON interface."""

    def __init__(self, port: int) -> None:
        self._port = port

    def make_bucket(self) -> None:
        self._ask("POST", "/storage/v1/b", json.dumps({"name": BUCKET}).encode())

    def put(self, key: str, data: bytes, metadata: Mapping[str, str], if_generation: int | None) -> Stored | None:
        condition = "" if if_generation is None else f"&ifGenerationMatch={if_generation}"
        head = json.dumps({"name": key, "metadata": dict(metadata)}).encode()
        body = b"--cut\r\nContent-Type: application/json\r\n\r\n%s\r\n--cut\r\nContent-Type: application/octet-stream\r\n\r\n%s\r\n--cut--\r\n"
        path = f"/upload/storage/v1/b/{BUCKET}/o?uploadType=multipart{condition}"
        status, answer = self._ask("POST", path, body % (head, data), "multipart/related; boundary=cut")
        assert status in (200, 412), answer
        return None if status == 412 else self._stored(data, json.loads(answer))

    def find(self, key: str) -> Stored | None:
        while True:
            status, answer = self._ask("GET", f"/storage/v1/b/{BUCKET}/o/{quote(key, safe='')}")
            if status == 404:
                return None
            facts = json.loads(answer)
            path = f"/storage/v1/b/{BUCKET}/o/{quote(key, safe='')}?alt=media&generation={facts['generation']}"
            status, data = self._ask("GET", path)
            if status == 200:
                return self._stored(data, facts)

    def delete(self, key: str) -> bool:
        return self._ask("DELETE", f"/storage/v1/b/{BUCKET}/o/{quote(key, safe='')}")[0] != 404

    def keys(self, prefix: str) -> list[str]:
        found: list[str] = []
        token = ""
        while True:
            path = f"/storage/v1/b/{BUCKET}/o?prefix={quote(prefix, safe='')}&pageToken={quote(token, safe='')}"
            answer = json.loads(self._ask("GET", path)[1])
            found += [item["name"] for item in answer.get("items", ())]
            token = answer.get("nextPageToken", "")
            if not token:
                return sorted(found)

    def _stored(self, data: bytes, facts: Mapping[str, Any]) -> Stored:
        modified = datetime.fromisoformat(facts["updated"])
        return Stored(data, int(facts["generation"]), facts.get("metadata", {}), modified)

    def _ask(
        self, method: str, path: str, body: bytes | None = None, kind: str = "application/json"
    ) -> tuple[int, bytes]:
        connection = HTTPConnection("127.0.0.1", self._port, timeout=30)
        connection.request(method, path, body, {"Content-Type": kind, "Host": "storage.googleapis.com"})
        answer = connection.getresponse()
        data = answer.read()
        connection.close()
        return answer.status, data


class GoogleStore:
    """The server; a token other than `TOKEN` is refused."""

    TOKEN = "good-token"

    def __init__(self, objects: Objects) -> None:
        self.objects = objects
        self.uploads: dict[str, dict[int, bytes]] = {}
        self.refusals: list[tuple[str, int]] = []
        self.ignores_conditions = False
        self.seen: list[tuple[str, str]] = []
        self.url = ""

    @property
    def options(self) -> dict[str, str]:
        return {"endpoint_url": self.url, "bearer_token": self.TOKEN}

    def refuse(self, method: str, status: int, times: int) -> None:
        """Let the next requests of a method have this answer, without an effect."""
        self.refusals += [(method, status)] * times

    def answer(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, dict[str, str], bytes]:
        self.seen.append((method, unquote(path)))
        if (refusal := next((each for each in self.refusals if each[0] == method), None)) is not None:
            self.refusals.remove(refusal)
            return _error(refusal[1], "SlowDown")
        parts = urlsplit(path)
        bucket, _, key = parts.path.lstrip("/").partition("/")
        query = {name: values[0] for name, values in parse_qs(parts.query, keep_blank_values=True).items()}
        if headers.get("authorization") != f"Bearer {self.TOKEN}":
            return _error(401, "AuthenticationRequired")
        if bucket != BUCKET:
            return _error(404, "NoSuchBucket")
        if not key:
            return self._list(query)
        return self._object(method, unquote(key), query, headers, body)

    def _object(
        self, method: str, key: str, query: Mapping[str, str], headers: Mapping[str, str], body: bytes
    ) -> tuple[int, dict[str, str], bytes]:
        if "uploads" in query or "uploadId" in query:
            return self._upload(method, key, query, headers, body)
        if method == "PUT":
            condition = headers.get("x-goog-if-generation-match")
            wanted = None if condition is None or self.ignores_conditions else int(condition)
            stored = self.objects.put(key, body, _metadata(headers), wanted)
            return _error(412, "PreconditionFailed") if stored is None else (200, _facts(stored), b"")
        if method == "DELETE":
            return (204, {}, b"") if self.objects.delete(key) else _error(404, "NoSuchKey")
        found = self.objects.find(key)
        if found is None:
            return _error(404, "NoSuchKey")
        return _read(found, headers)

    def _upload(
        self, method: str, key: str, query: Mapping[str, str], headers: Mapping[str, str], body: bytes
    ) -> tuple[int, dict[str, str], bytes]:
        if "uploads" in query:
            upload = json.dumps([len(self.uploads), key, dict(_metadata(headers))])
            self.uploads[upload] = {}
            return (
                200,
                {},
                f"<InitiateMultipartUploadResult><UploadId>{escape(upload)}</UploadId></InitiateMultipartUploadResult>".encode(),
            )
        upload = query["uploadId"]
        if method == "PUT":
            self.uploads[upload][int(query["partNumber"])] = body
            return 200, {"ETag": f'"{hashlib.md5(body).hexdigest()}"'}, b""
        pieces = self.uploads.pop(upload)
        if method == "DELETE":
            return 204, {}, b""
        stored = self.objects.put(key, b"".join(pieces[n] for n in sorted(pieces)), json.loads(upload)[2], None)
        assert stored is not None
        answer = f'<CompleteMultipartUploadResult><ETag>"{stored.etag}"</ETag></CompleteMultipartUploadResult>'
        return 200, _facts(stored), answer.encode()

    def _list(self, query: Mapping[str, str]) -> tuple[int, dict[str, str], bytes]:
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        after = query.get("continuation-token") or query.get("start-after", "")
        lines, folders = [], set()
        keys = [key for key in self.objects.keys(prefix) if key > after]
        for key in keys[:PAGE]:
            rest = key[len(prefix) :]
            if delimiter and delimiter in rest:
                folders.add(prefix + rest.partition(delimiter)[0] + delimiter)
                continue
            found = self.objects.find(key)
            if found is not None:
                lines.append(
                    f'<Contents><Key>{escape(key)}</Key><Size>{len(found.data)}</Size><ETag>"{found.etag}"</ETag>'
                    f"<LastModified>{found.modified.isoformat().replace('+00:00', 'Z')}</LastModified></Contents>"
                )
        lines += [f"<CommonPrefixes><Prefix>{escape(folder)}</Prefix></CommonPrefixes>" for folder in sorted(folders)]
        if len(keys) > PAGE:
            lines.append(f"<NextContinuationToken>{escape(keys[PAGE - 1])}</NextContinuationToken>")
        return 200, {}, f"<ListBucketResult>{''.join(lines)}</ListBucketResult>".encode()


def _read(found: Stored, headers: Mapping[str, str]) -> tuple[int, dict[str, str], bytes]:
    facts = {**_facts(found), **{f"x-goog-meta-{name}": text for name, text in found.metadata.items()}}
    if headers.get("if-none-match") == f'"{found.etag}"':
        return 304, facts, b""
    if headers.get("if-match", f'"{found.etag}"') != f'"{found.etag}"':
        return _error(412, "PreconditionFailed")
    if "range" not in headers:
        return 200, facts, found.data
    start, stop = (int(text) for text in headers["range"].removeprefix("bytes=").split("-"))
    if start >= len(found.data):
        return _error(416, "InvalidRange")
    data = found.data[start : stop + 1]
    return 206, {**facts, "Content-Range": f"bytes {start}-{start + len(data) - 1}/{len(found.data)}"}, data


def _facts(stored: Stored) -> dict[str, str]:
    return {
        "ETag": f'"{stored.etag}"',
        "x-goog-generation": str(stored.generation),
        "Last-Modified": format_datetime(stored.modified, usegmt=True),
    }


def _metadata(headers: Mapping[str, str]) -> dict[str, str]:
    return {
        name.removeprefix("x-goog-meta-"): text for name, text in headers.items() if name.startswith("x-goog-meta-")
    }


def _error(status: int, code: str) -> tuple[int, dict[str, str], bytes]:
    return status, {}, f"<Error><Code>{code}</Code><Message>{code}, says the store</Message></Error>".encode()


@contextmanager
def google_store(objects: Objects | None = None) -> Iterator[GoogleStore]:
    """Run the server; it has the bucket `BUCKET`."""
    store = GoogleStore(objects or MemoryObjects())

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def _answer(self) -> None:
            headers = {name.lower(): text for name, text in self.headers.items()}
            length = int(headers.get("content-length", 0))
            body = self.rfile.read(length)
            if len(body) < length:  # the client has ended, and no store keeps half an object
                self.close_connection = True
                return
            status, more, data = store.answer(self.command, self.path, headers, body)
            lines = [f"HTTP/1.1 {status} Answer", *(f"{name}: {text}" for name, text in more.items())]
            if status not in (204, 304):
                lines.append(f"Content-Length: {len(data)}")
            shown = b"" if self.command == "HEAD" or status in (204, 304) else data
            self.wfile.write("\r\n".join([*lines, "", ""]).encode() + shown)

        do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _answer

        def log_message(self, *_: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    store.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield store
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
