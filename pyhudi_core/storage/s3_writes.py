"""Conditional writes to S3; `settling` finds out their outcome.

The responses "409 ConditionalRequestConflict" and "429 Too Many Requests" (which some stores send if one object is written more than once a second)
mean that the request had no effect.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError, ReadTimeoutError
from botocore.exceptions import ConnectionError as NotConnectedError
from botocore.parsers import ResponseParserError

from pyhudi_core.errors import PreconditionFailedError, StorageError
from pyhudi_core.runtime.base import Clock, Ids
from pyhudi_core.storage.s3_client import S3Clients, asked_wait, is_busy, may_have_happened, refused, status_of
from pyhudi_core.storage.settling import AskedObject, RequestEnd, Settler, failed, unknown

NONCE = "pyhudi-write"
NO_EFFECT = (409, 429)
"""Status codes of requests that had no effect and may be sent again."""


@dataclass(frozen=True, slots=True)
class S3Object:
    """The object that is written: bucket and key for S3, location and path for messages."""

    bucket: str
    key: str
    table: str
    path: str

    @property
    def store(self) -> str:
        """Return the kind of the store."""
        return "S3"

    def failed(self) -> PreconditionFailedError:
        """Return the error of a lost race."""
        return failed(self)


class ConditionalWriter:
    """Sends conditional requests, repeats them only if that is safe, and finds out their outcome.

    Args:
        clients: the clients; only the client without automatic retries is used.
        clock: waits between attempts.
        ids: gives nonces and jitter.
    """

    def __init__(self, clients: S3Clients, clock: Clock, ids: Ids) -> None:
        self._clients = clients
        self._ids = ids
        self.settler = Settler(clock, ids, clients.busy)

    def put(self, target: S3Object, data: bytes, etag: str | None) -> Any:
        """Put the object if its tag is ``etag``; if ``etag`` is None, put it if it does not exist. Returns a response that contains ``ETag``."""
        nonce = self._ids.uuid()
        condition = {"IfNoneMatch": "*"} if etag is None else {"IfMatch": etag}

        def send() -> Any:
            return self._clients.once.put_object(
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
            raise unknown(target)

        return self.settler.settle(target, _Judge(self._clients, creates=etag is None), send, find_own)

    def delete(self, target: S3Object, etag: str) -> None:
        """Remove the object if its tag is ``etag``."""

        def send() -> Any:
            return self._clients.once.delete_object(Bucket=target.bucket, Key=target.key, IfMatch=etag)

        def find_own() -> Any | None:
            found = self._head(target)
            if found is not None and found["ETag"].strip('"') == etag:
                return None
            raise unknown(target)

        self.settler.settle(target, _Judge(self._clients), send, find_own)

    def _head(self, target: S3Object) -> Any | None:
        try:
            return self._clients.once.head_object(Bucket=target.bucket, Key=target.key)
        except ClientError as error:
            if status_of(error) == 404:
                return None
            raise


@dataclass(frozen=True, slots=True)
class _Judge:
    """Reads the errors of boto3. ``creates``: the object does not exist yet, so its absence is no reason for an error."""

    clients: S3Clients
    creates: bool = False

    @property
    def errors(self) -> tuple[type[Exception], ...]:
        return (ClientError, BotoCoreError, ResponseParserError)

    def verdict(self, error: Exception) -> RequestEnd:
        if isinstance(error, NotConnectedError | ReadTimeoutError) and not self.clients.reached:
            return RequestEnd.REFUSED
        if may_have_happened(error):
            return RequestEnd.UNCLEAR
        status = status_of(error) if isinstance(error, ClientError) else 0
        if status in NO_EFFECT or isinstance(error, NotConnectedError):
            return RequestEnd.NO_EFFECT
        missing = status == 404 and not self.creates and _is_about_the_object(error)
        return RequestEnd.FAILED if status == 412 or missing else RequestEnd.REFUSED

    def is_busy(self, error: Exception) -> bool:
        return is_busy(error)

    def asked_wait(self, error: Exception) -> float:
        return asked_wait(error)

    def refusal(self, error: Exception, target: AskedObject) -> StorageError:
        return refused(error, target.table, target.path, unclear=may_have_happened(error))


def _is_about_the_object(error: Exception) -> bool:
    """Say whether the error concerns the object. A missing bucket is another error, not a lost race."""
    return not (isinstance(error, ClientError) and error.response.get("Error", {}).get("Code") == "NoSuchBucket")
