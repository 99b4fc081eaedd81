"""Deletion of many objects: S3's DeleteObjects, up to 1,000 keys in one request.

The response has a result for each key. Keys with a temporary failure (throttling, an internal error) are sent again after a wait, as ``s3_writes``
does with conditional writes. It is safe to delete an object twice, so a lost response needs no check. Other failures are reported with S3's reason.
If the store does not support DeleteObjects, or XML cannot represent a key, each object is deleted by a separate request.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from botocore.exceptions import ClientError

from pyhudi_core.errors import StorageError
from pyhudi_core.storage.s3_client import s3_errors
from pyhudi_core.storage.s3_writes import S3Object
from pyhudi_core.storage.settling import ATTEMPTS

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
