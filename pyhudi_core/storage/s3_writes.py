"""Conditional writes to S3 that never hide a first success.

Every write stores a unique nonce in the object's metadata. If a response is lost, the writer reads the object: the nonce shows whether its write
succeeded. If the outcome remains unknown, it raises `StorageStateUnknownError`. The responses "409 ConditionalRequestConflict" and "429 Too Many
Requests" (which some stores send if one object is written more than once a second) mean that the request had no effect. It is repeated, and does not
count as a lost race.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError
from botocore.exceptions import ConnectionError as NotConnectedError

from pyhudi_core.errors import PreconditionFailedError, StorageError, StorageStateUnknownError
from pyhudi_core.runtime.base import Clock, Ids
from pyhudi_core.storage.s3_client import may_have_happened, s3_errors, status_of

NONCE = "pyhudi-write"
ATTEMPTS = 8
"""Maximum number of times that a request is sent."""
_FIRST_WAIT_MS = 50
_LONGEST_WAIT_MS = 2000
NO_EFFECT = (409, 429)
"""Status codes of requests that had no effect and may be sent again."""


@dataclass(frozen=True, slots=True)
class S3Object:
    """The object that is written: bucket and key for S3, location and path for messages."""

    bucket: str
    key: str
    table: str
    path: str

    def failed(self) -> PreconditionFailedError:
        """Return the error of a lost race."""
        return PreconditionFailedError("The object is not in the expected state", table=self.table, path=self.path)

    def unknown(self) -> StorageStateUnknownError:
        """Return the error of a write whose outcome is unknown."""
        return StorageStateUnknownError(
            "S3 did not confirm the write, and the object does not show whether it succeeded",
            table=self.table,
            path=self.path,
            hint="Read the table's state before you try again.",
        )

    def gave_up(self, last: Exception | None) -> StorageError:
        """Return the error of a write that certainly had no effect in all attempts."""
        return StorageError(
            f"S3 did not accept the write in {ATTEMPTS} attempts: {last}",
            table=self.table,
            path=self.path,
            hint="Nothing was written; try again later.",
        )


class ConditionalWriter:
    """Sends conditional requests, repeats them only if that is safe, and finds out their outcome.

    Args:
        once: a client that does not repeat requests by itself.
        clock: waits between attempts.
        ids: gives nonces and jitter.
    """

    def __init__(self, once: Any, clock: Clock, ids: Ids) -> None:
        self._once = once
        self._clock = clock
        self._ids = ids

    def put(self, target: S3Object, data: bytes, etag: str | None) -> Any:
        """Put the object if its tag is ``etag``; if ``etag`` is None, put it if it does not exist. Returns a response that contains ``ETag``."""
        nonce = self._ids.uuid()
        condition = {"IfNoneMatch": "*"} if etag is None else {"IfMatch": etag}

        def send() -> Any:
            return self._once.put_object(
                Bucket=target.bucket, Key=target.key, Body=data, Metadata={NONCE: nonce}, **condition
            )

        def find_own() -> Any | None:
            """Return the object if this write created it; None if the condition still holds, so that the write may be repeated."""
            found = self._head(target)
            if found is not None and found.get("Metadata", {}).get(NONCE) == nonce:
                return found
            still = found is None if etag is None else found is not None and found["ETag"].strip('"') == etag
            if still:
                return None
            raise target.unknown()

        return self._repeat(target, send, find_own)

    def delete(self, target: S3Object, etag: str) -> None:
        """Remove the object if its tag is ``etag``."""

        def send() -> Any:
            return self._once.delete_object(Bucket=target.bucket, Key=target.key, IfMatch=etag)

        def find_own() -> Any | None:
            found = self._head(target)
            if found is not None and found["ETag"].strip('"') == etag:
                return None
            raise target.unknown()

        self._repeat(target, send, find_own)

    def _repeat(self, target: S3Object, send: Callable[[], Any], find_own: Callable[[], Any | None]) -> Any:
        in_doubt = False
        last: Exception | None = None
        for attempt in range(ATTEMPTS):
            if attempt:
                self.pause(attempt)
            try:
                if in_doubt:
                    ours = find_own()
                    if ours is not None:
                        return ours
                return send()
            except (ClientError, BotoCoreError) as error:
                in_doubt = self._judge(target, error, in_doubt)
                last = error
        raise target.unknown() if in_doubt else target.gave_up(last)

    def _judge(self, target: S3Object, error: ClientError | BotoCoreError, in_doubt: bool) -> bool:
        """Say whether the write may have succeeded by now. Raises if another attempt cannot succeed."""
        if may_have_happened(error):
            return True
        status = status_of(error) if isinstance(error, ClientError) else 0
        if status in NO_EFFECT or isinstance(error, NotConnectedError):
            return in_doubt
        if status in (404, 412) and _is_about_the_object(error):
            if not in_doubt:
                raise target.failed() from error
            # An earlier request of ours may have succeeded, so that this one failed its condition: the object shows it.
            return True
        if in_doubt:
            raise target.unknown() from error
        with s3_errors(target.table, target.path):
            raise error
        raise target.gave_up(error)

    def _head(self, target: S3Object) -> Any | None:
        try:
            return self._once.head_object(Bucket=target.bucket, Key=target.key)
        except ClientError as error:
            if status_of(error) == 404:
                return None
            raise

    def pause(self, attempt: int) -> None:
        """Wait before the next attempt, longer each time, with jitter."""
        bound_ms = min(_LONGEST_WAIT_MS, _FIRST_WAIT_MS << attempt)
        self._clock.sleep((1 + self._ids.below(bound_ms)) / 1000)


def _is_about_the_object(error: Exception) -> bool:
    """Say whether the error concerns the object. A missing bucket is another error, not a lost race."""
    return not (isinstance(error, ClientError) and error.response.get("Error", {}).get("Code") == "NoSuchBucket")
