"""Random reads of an S3 object, and writes of a large object in parts.

Opening reads the first bytes, which often are the complete object. Further reads are range requests on condition of the object's tag, so a reader
never mixes two versions. A small file is one put; a large file is uploaded in concurrent parts, and a write has at most `PARTS_AT_ONCE` running parts
and the next part in memory. A file is published on condition that the object does not exist (If-None-Match), so a data file never replaces another
one, whatever names two writers choose.
"""

from __future__ import annotations

import io
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError, ResponseStreamingError

from pyhudi_core.errors import StorageError, StorageStateUnknownError
from pyhudi_core.storage.base import ObjectInfo
from pyhudi_core.storage.ranged import READ_AHEAD, ReadRange
from pyhudi_core.storage.refusals import refuse_large
from pyhudi_core.storage.s3_client import s3_errors, status_of
from pyhudi_core.storage.s3_writes import NO_EFFECT, NONCE, S3Object
from pyhudi_core.storage.settling import ATTEMPTS, UNANSWERED_FOR_S

PART_SIZE = 8 << 20
PARTS_AT_ONCE = 4
_BODY_ATTEMPTS = 4
_BROKEN_BODY = (ResponseStreamingError, OSError)


@dataclass(frozen=True, slots=True)
class Body:
    """Bytes of an object, from its beginning or from a range, and its facts; ``size`` is the size of the complete object."""

    data: bytes
    size: int
    etag: str
    modified: Any


def read_object(client: Any, target: S3Object, **condition: str) -> Body | None:
    """Get an object; None if a condition (If-None-Match) shows that the caller knows it."""
    try:
        return _read(client, target, **condition)
    except _NotModifiedError:
        return None


def read_beginning(client: Any, target: S3Object) -> Body:
    """Get the beginning of an object by one request; a small object completely."""
    try:
        return _read(client, target, Range=f"bytes=0-{READ_AHEAD - 1}")
    except _NoRangeError:  # the object is empty
        return _read(client, target)


class _NotModifiedError(Exception):
    """The object has not changed."""


class _NoRangeError(Exception):
    """The object ends before the range."""


_MEANINGS = {304: _NotModifiedError, 416: _NoRangeError}


def _read(client: Any, target: S3Object, **request: str) -> Body:
    """Get an object or a range of it; repeat the request if the connection breaks, or if the answer stalls."""
    begun = time.monotonic()
    for attempt in range(_BODY_ATTEMPTS):
        with s3_errors(target.table, target.path):
            try:
                answer = client.get_object(Bucket=target.bucket, Key=target.key, **request)
            except ClientError as error:
                meaning = _MEANINGS.get(status_of(error))
                if meaning is not None:
                    raise meaning from error
                raise
            if "Range" not in request:
                refuse_large(answer["ContentLength"], target.table, target.path)
            try:
                data: bytes = answer["Body"].read()
            except _BROKEN_BODY as error:
                if attempt == _BODY_ATTEMPTS - 1 or (attempt and time.monotonic() - begun >= UNANSWERED_FOR_S):
                    raise StorageError(
                        f"The connection to S3 broke {attempt + 1} times within an answer: {error}",
                        table=target.table,
                        path=target.path,
                        hint="Check the network. The storage option timeout says how long an answer may stall.",
                    ) from error
                continue
            complete = answer.get("ContentRange", "").rpartition("/")[2]
            size = int(complete) if complete.isdecimal() else len(data)
            return Body(data, size, answer["ETag"].strip('"'), answer["LastModified"])
    raise AssertionError("unreachable")


def range_reader(client: Any, target: S3Object, etag: str) -> ReadRange:
    """Return a reader for ranges of the object, valid as long as the object has this tag."""
    return lambda start, stop: _read(client, target, Range=f"bytes={start}-{stop - 1}", IfMatch=etag).data


class PartUploads:
    """The parts of one large object; at most `PARTS_AT_ONCE` are being sent."""

    def __init__(self, client: Any, target: S3Object, metadata: dict[str, str]) -> None:
        self._client = client
        self._target = target
        place = {"Bucket": target.bucket, "Key": target.key}
        with s3_errors(target.table, target.path):
            self.ids = {**place, "UploadId": client.create_multipart_upload(**place, Metadata=metadata)["UploadId"]}
        self._pool = ThreadPoolExecutor(PARTS_AT_ONCE, "pyhudi-part")
        self._under_way: deque[Future[str]] = deque()
        self._tags: list[str] = []

    def send(self, data: bytes) -> None:
        """Send the next part. If too many parts are being sent, wait for the oldest part. Raises the error of that part."""
        if len(self._under_way) >= PARTS_AT_ONCE:
            self._tags.append(self._under_way.popleft().result())
        number = len(self._tags) + len(self._under_way) + 1
        self._under_way.append(self._pool.submit(self._send, number, data))

    def sent(self) -> list[dict[str, object]]:
        """Wait for all parts, and return them in their order. Raises the first error."""
        while self._under_way:
            self._tags.append(self._under_way.popleft().result())
        self._pool.shutdown()
        return [{"ETag": tag, "PartNumber": number} for number, tag in enumerate(self._tags, 1)]

    def forget(self) -> None:
        """Abort the upload after all running parts have ended, because a part that arrives after the abort would stay in the store."""
        self._pool.shutdown(cancel_futures=True)
        with suppress(ClientError, BotoCoreError):
            self._client.abort_multipart_upload(**self.ids)

    def _send(self, number: int, data: bytes) -> str:
        with s3_errors(self._target.table, self._target.path):
            return str(self._client.upload_part(**self.ids, PartNumber=number, Body=data)["ETag"])


class UploadStream(io.RawIOBase):
    """Accepts bytes in order, and uploads a part as soon as enough bytes are buffered."""

    def __init__(self, client: Any, target: S3Object, nonce: str, pause: Callable[[int], None]) -> None:
        super().__init__()
        self._client = client
        self._target = target
        self._nonce = nonce
        self._pause = pause
        self._pending = bytearray()
        self._parts: PartUploads | None = None
        self._written = 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._written

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        self._written += len(view)
        for start in range(0, len(view), PART_SIZE):
            self._pending += view[start : start + PART_SIZE]
            if len(self._pending) > PART_SIZE:
                self._send_part(PART_SIZE)
        return len(view)

    def complete(self) -> Any:
        """Publish the written bytes if the object does not exist. Returns a response that contains ``ETag``."""
        parts = None
        if self._parts is not None:
            self._send_part(len(self._pending))
            parts = self._parts.sent()
        with s3_errors(self._target.table, self._target.path, changes=True):
            for attempt in range(1, ATTEMPTS):
                try:
                    return self._publish_or_find(parts)
                except ClientError as error:
                    if status_of(error) not in NO_EFFECT:
                        raise
                    # Another request for the object is still running, for example our own first one if the SDK repeated it.
                    self._pause(attempt)
            return self._publish_or_find(parts)

    def _publish_or_find(self, parts: list[dict[str, object]] | None) -> Any:
        try:
            return self._publish(parts)
        except (ClientError, BotoCoreError) as error:
            return self._find_own(error)

    def _publish(self, parts: list[dict[str, object]] | None) -> Any:
        if self._parts is not None:
            return self._client.complete_multipart_upload(
                **self._parts.ids, MultipartUpload={"Parts": parts}, IfNoneMatch="*"
            )
        return self._client.put_object(
            Bucket=self._target.bucket,
            Key=self._target.key,
            Body=bytes(self._pending),
            Metadata=self._metadata(),
            IfNoneMatch="*",
        )

    def forget(self) -> None:
        """Discard the written bytes, also on S3. An upload that cannot be aborted uses space until the bucket's rules remove it."""
        self._pending.clear()
        if self._parts is not None:
            self._parts.forget()

    def _metadata(self) -> dict[str, str]:
        return {NONCE: self._nonce}

    def _send_part(self, size: int) -> None:
        if self._parts is None:
            self._parts = PartUploads(self._client, self._target, self._metadata())
        with memoryview(self._pending) as pending:
            data = bytes(pending[:size])
        del self._pending[:size]
        self._parts.send(data)

    def _find_own(self, error: ClientError | BotoCoreError) -> Any:
        """Return the object if this upload created it.

        If the SDK repeated the request, the second request fails, because its first one succeeded.
        """
        try:
            found = self._client.head_object(Bucket=self._target.bucket, Key=self._target.key)
        except ClientError as missing:
            if status_of(missing) == 404:
                raise error from None
            raise
        if found.get("Metadata", {}).get(NONCE) == self._nonce:
            return found
        if isinstance(error, ClientError) and status_of(error) == 412:
            raise self._target.failed() from error
        raise StorageStateUnknownError(
            "S3 did not confirm whether the file was published", table=self._target.table, path=self._target.path
        ) from error


class S3OutputFile:
    """A data file that is being written."""

    def __init__(self, client: Any, target: S3Object, nonce: str, pause: Callable[[int], None]) -> None:
        self._target = target
        self._stream = UploadStream(client, target, nonce, pause)
        self._open = True

    @property
    def stream(self) -> UploadStream:
        return self._stream

    def close(self) -> ObjectInfo:
        if not self._open:
            raise StorageError("The file is already closed", table=self._target.table, path=self._target.path)
        self._open = False
        try:
            answer = self._stream.complete()
        except BaseException:
            self._stream.forget()
            raise
        return written_info(self._target.path, self._stream.tell(), answer)

    def abort(self) -> None:
        if self._open:
            self._open = False
            self._stream.forget()


def written_info(path: str, size: int, answer: Any) -> ObjectInfo:
    """Return the facts about a written object, from the response; S3's times are full seconds."""
    headers = answer.get("ResponseMetadata", {}).get("HTTPHeaders", {})
    return ObjectInfo(path, size, date_ms(headers), str(answer["ETag"]).strip('"'))


def date_ms(headers: Any) -> int:
    """Return the server's time in a response, in epoch milliseconds; 0 if it is missing."""
    text = headers.get("date")
    return int(parsedate_to_datetime(text).timestamp() * 1000) if text else 0
