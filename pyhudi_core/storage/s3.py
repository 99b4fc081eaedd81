"""Storage in S3 and compatible stores, through boto3.

Invariants: conditional writes use If-None-Match and If-Match, and report their success even if a request is repeated (``s3_writes``). An opened
object does not change for its reader (``s3_files``). Tags are hashes of the content, so equal bytes have equal tags; bytes of a compare-and-swap must
contain a nonce. Keys that end with a slash (folder markers of other tools) are not objects.
"""

from __future__ import annotations

import builtins
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from typing import Any

import pyarrow as pa
from botocore.exceptions import ClientError

from pyhudi_core.errors import StorageError
from pyhudi_core.runtime.base import Clock, Ids
from pyhudi_core.runtime.system import RandomIds, SystemClock
from pyhudi_core.storage.base import Capabilities, Folder, ObjectInfo, Storage, StorageSpec, Waited, report_failed
from pyhudi_core.storage.paths import check_folder, check_path, check_prefix, parse_location, parse_sources
from pyhudi_core.storage.ranged import SmallFiles, open_ranged
from pyhudi_core.storage.s3_client import RepeatingClient, connect, s3_errors, status_of
from pyhudi_core.storage.s3_files import Body, S3OutputFile, range_reader, read_beginning, read_object, written_info
from pyhudi_core.storage.s3_options import S3Options
from pyhudi_core.storage.s3_writes import ConditionalWriter, S3Object
from pyhudi_core.storage.settling import ATTEMPTS

_AMAZON = re.compile(r"^https://[\w.-]+\.amazonaws\.com(?:\.cn)?/?$")
_CAPABILITIES = Capabilities(put_if_absent=True, put_if_match=True, parallel_calls=16)
"""A request waits tens of milliseconds for the network. The connection pool of `s3_client` is large enough for three callers with this number."""


class S3Storage(Storage):
    """A prefix of a bucket.

    Args:
        location: ``s3://bucket/prefix`` or ``s3a://bucket/prefix``.
        options: storage options, see `S3Options`.
        clock: waits between attempts.
        ids: gives nonces and jitter.
    """

    def __init__(
        self,
        location: str,
        options: Mapping[str, str] | None = None,
        clock: Clock | None = None,
        ids: Ids | None = None,
    ) -> None:
        parsed = parse_location(location)
        self._location = parsed.text
        self._bucket = parsed.bucket
        self._base = parsed.path + "/" if parsed.path else ""
        self._options = S3Options.parse(options or {}, parsed.text)
        self._ids = ids or RandomIds()
        self._clients = connect(self._options)
        self._writer = ConditionalWriter(self._clients, clock or SystemClock(), self._ids)
        self._client = RepeatingClient(self._clients, self._writer.settler)
        self._small: SmallFiles | None = None

    @property
    def location(self) -> str:
        return self._location

    @property
    def real_location(self) -> str:
        return parse_location(self._location).canonical

    def is_at(self, location: str) -> bool:
        return parse_location(self._location).may_be(parse_location(location))

    @property
    def store(self) -> str:
        address = str(self._clients.ordinary.meta.endpoint_url)
        return "" if _AMAZON.search(address) else address.rstrip("/").lower()

    @property
    def capabilities(self) -> Capabilities:
        return _CAPABILITIES

    @property
    def waited(self) -> Waited:
        return self._clients.busy.waited

    def busy_time(self, seconds: float) -> object:
        return self._writer.settler.busy_time(seconds)

    @property
    def unproved_server(self) -> str:
        address = str(self._clients.ordinary.meta.endpoint_url)
        return "" if _AMAZON.search(address) else f"{address}, bucket {self._bucket}"

    @property
    def allowed_sources(self) -> tuple[str, ...]:
        return parse_sources(self._options.allow_sources)

    def __repr__(self) -> str:
        return f"S3Storage({self._location!r})"

    def spec(self) -> StorageSpec:
        return StorageSpec(self._location, self._options.to_mapping())

    def get(self, path: str) -> bytes:
        found = read_object(self._client, self._target(path))
        assert found is not None, "no condition was set"
        return found.data

    def head(self, path: str) -> ObjectInfo | None:
        target = self._target(path)
        with s3_errors(self._location, path):
            try:
                found = self._client.head_object(Bucket=target.bucket, Key=target.key)
            except ClientError as error:
                # A HEAD response has no body, so a missing bucket looks like a missing object; the next write reports it.
                if status_of(error) == 404:
                    return None
                raise
        return ObjectInfo(path, found["ContentLength"], _ms(found["LastModified"]), found["ETag"].strip('"'))

    def get_tagged(self, path: str, unless: str = "") -> tuple[ObjectInfo, bytes] | None:
        condition = {"IfNoneMatch": f'"{unless}"'} if unless else {}
        found = read_object(self._client, self._target(path), **condition)
        return None if found is None else (_found_info(path, found), found.data)

    def list(self, prefix: str, start_after: str = "") -> builtins.list[ObjectInfo]:
        check_prefix(prefix, self._location)
        request = {"StartAfter": self._base + start_after} if start_after else {}
        found = [info for page in self._pages(prefix, **request) for info in self._objects(page)]
        # S3 sorts by bytes of the key's UTF-8, which is Python's order of texts; directory buckets do not sort at all.
        return sorted(found, key=lambda info: info.path)

    def list_folder(self, folder: str) -> Folder:
        return self._children(folder)

    def list_some(self, folder: str, most: int) -> builtins.list[ObjectInfo]:
        return list(self._children(folder, most).objects)

    def _children(self, folder: str, most: int = 0) -> Folder:
        """Return the children of a folder, or so many pages of them that there are at least ``most``."""
        prefix = check_folder(folder, self._location) + "/" if folder else ""
        objects: list[ObjectInfo] = []
        folders: set[str] = set()
        for page in self._pages(prefix, Delimiter="/"):
            objects.extend(self._objects(page))
            folders.update(p["Prefix"][len(self._base) : -1] for p in page.get("CommonPrefixes", ()))
            if 0 < most <= len(objects) + len(folders):
                break
        return Folder(tuple(sorted(objects, key=lambda info: info.path)), tuple(sorted(folders)))

    def put(self, path: str, data: bytes) -> ObjectInfo:
        target = self._target(path)
        with s3_errors(self._location, path, changes=True):
            answer = self._client.put_object(Bucket=target.bucket, Key=target.key, Body=data)
        return written_info(path, len(data), answer)

    def put_if_absent(self, path: str, data: bytes) -> ObjectInfo:
        return written_info(path, len(data), self._writer.put(self._target(path), data, None))

    def put_if_match(self, path: str, data: bytes, etag: str) -> ObjectInfo:
        return written_info(path, len(data), self._writer.put(self._target(path), data, etag))

    def delete(self, path: str) -> None:
        target = self._target(path)
        with s3_errors(self._location, path, changes=True):
            self._client.delete_object(Bucket=target.bucket, Key=target.key)

    def delete_many(self, paths: Iterable[str]) -> None:
        targets = [self._target(path) for path in paths]
        failed = BatchDeleter(self._client, self._writer.settler.pause).delete(targets)
        report_failed(failed, len(targets), self._location)

    def delete_if_match(self, path: str, etag: str) -> None:
        self._writer.delete(self._target(path), etag)

    def open_input(self, path: str) -> pa.NativeFile:
        target = self._target(path)
        known = None if self._small is None else self._small.opened(path)
        if known is not None:
            return known
        found = read_beginning(self._client, target)
        if self._small is not None:
            self._small.keep(path, found.size, found.data)
        return open_ranged(path, found.size, found.data, range_reader(self._client, target, found.etag))

    def opening_once(self) -> Storage:
        if self._small is not None:
            return self
        same = copy(self)
        same._small = SmallFiles()
        return same

    def open_output(self, path: str) -> S3OutputFile:
        return S3OutputFile(self._client, self._target(path), self._ids.uuid(), self._writer.settler.pause)

    def _target(self, path: str) -> S3Object:
        return S3Object(self._bucket, self._base + check_path(path, self._location), self._location, path)

    def _pages(self, prefix: str, **request: str) -> Iterator[Any]:
        while True:
            with s3_errors(self._location, prefix, of_object=False):
                page = self._client.list_objects_v2(Bucket=self._bucket, Prefix=self._base + prefix, **request)
            yield page
            if not page.get("IsTruncated"):
                return
            request["ContinuationToken"] = page["NextContinuationToken"]

    def _objects(self, page: Any) -> Iterator[ObjectInfo]:
        for found in page.get("Contents", ()):
            if not found["Key"].endswith("/"):
                path = found["Key"][len(self._base) :]
                yield ObjectInfo(path, found["Size"], _ms(found["LastModified"]), found["ETag"].strip('"'))


def _found_info(path: str, found: Body) -> ObjectInfo:
    return ObjectInfo(path, found.size, _ms(found.modified), found.etag)


def _ms(time: Any) -> int:
    return int(time.timestamp() * 1000)


# --- deletion of many objects: S3's DeleteObjects, up to 1,000 keys in one request
# The response has a result for each key. Keys with a temporary failure (throttling, an internal error) are sent again after a wait, as
# ``s3_writes`` does with conditional writes. It is safe to delete an object twice, so a lost response needs no check. Other failures are reported
# with S3's reason. If the store does not support DeleteObjects, or XML cannot represent a key, each object is deleted by a separate request.

BATCH = 1_000
"""Maximum number of keys in one request."""
_LATER = {"InternalError", "SlowDown", "ServiceUnavailable", "OperationAborted", "RequestTimeout", "503"}
_UNKNOWN_VERB = {"NotImplemented", "MethodNotAllowed", "MissingContentMD5"}
_NOT_IN_XML = re.compile("[\x00-\x1f\x7f-\x9f\ufffe\uffff]")


class BatchDeleter:
    """Deletes objects of one bucket.

    Args:
        client: a client that repeats requests by itself.
        pause: waits before the next attempt; takes its number.
    """

    def __init__(self, client: Any, pause: Callable[[int], None]) -> None:
        self._client = client
        self._pause = pause
        self._in_batches = True

    def delete(self, targets: Sequence[S3Object]) -> dict[str, str]:
        """Delete the objects. Returns the reasons, by path, for the objects that were not deleted. Stops if a complete request fails."""
        alone = [target for target in targets if _NOT_IN_XML.search(target.key)]
        together = [target for target in targets if not _NOT_IN_XML.search(target.key)]
        pieces = [together[start : start + BATCH] for start in range(0, len(together), BATCH)]
        failed: dict[str, str] = {}
        for number, piece in enumerate([*pieces, alone]):
            try:
                failed |= self._one_by_one(piece) if number == len(pieces) else self._delete_piece(piece)
            except StorageError as error:
                rest = [target for later in [*pieces, alone][number:] for target in later]
                return failed | {target.path: error.message for target in rest}
        return failed

    def _delete_piece(self, piece: Sequence[S3Object]) -> dict[str, str]:
        failed: dict[str, str] = {}
        left = {target.key: target for target in piece}
        for attempt in range(ATTEMPTS):
            if attempt:
                self._pause(attempt)
            if not self._in_batches:
                return failed | self._one_by_one(list(left.values()))
            errors = self._send(left)
            if errors is None:
                self._in_batches = False
                continue
            later = {error["Key"] for error in errors if error.get("Code") in _LATER}
            failed |= {left[e["Key"]].path: _reason(e) for e in errors if e["Key"] in left and e["Key"] not in later}
            last = {error["Key"]: _reason(error) for error in errors}
            left = {key: target for key, target in left.items() if key in later}
            if not left:
                return failed
        return failed | {target.path: last[key] for key, target in left.items()}

    def _send(self, left: dict[str, S3Object]) -> list[dict[str, str]] | None:
        """Return the errors of single keys; None if the store does not support the request."""
        first = next(iter(left.values()))
        wanted = {"Objects": [{"Key": key} for key in left], "Quiet": True}
        with s3_errors(first.table, first.path, changes=True):
            try:
                answer = self._client.delete_objects(Bucket=first.bucket, Delete=wanted)
            except ClientError as error:
                if error.response.get("Error", {}).get("Code") in _UNKNOWN_VERB:
                    return None
                raise
        return [error for error in answer.get("Errors", ()) if error.get("Code") != "NoSuchKey"]

    def _one_by_one(self, targets: Sequence[S3Object]) -> dict[str, str]:
        failed: dict[str, str] = {}
        for target in targets:
            try:
                with s3_errors(target.table, target.path, changes=True):
                    self._client.delete_object(Bucket=target.bucket, Key=target.key)
            except StorageError as error:
                failed[target.path] = error.message
        return failed


def _reason(error: dict[str, str]) -> str:
    return f"S3 refused: {error.get('Code', '')} {error.get('Message', '')}".strip()
