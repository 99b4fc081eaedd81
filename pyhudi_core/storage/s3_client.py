"""The connection to S3: boto3 clients, and the meaning of S3's errors.

There are two clients. One is for reads and idempotent writes; the SDK repeats their requests. The other is for conditional writes and sends each
request once: if the SDK repeated a successful write, the second request would fail with "412 Precondition Failed". ``s3_writes`` repeats conditional
writes, and reads the object before it does.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import boto3
import botocore.session
from botocore.config import Config
from botocore.credentials import AssumeRoleCredentialFetcher, DeferredRefreshableCredentials
from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError, NoCredentialsError
from botocore.utils import determine_content_length

from pyhudi_core.errors import (
    InvalidOptionError,
    ObjectNotFoundError,
    StorageError,
    StorageStateUnknownError,
)
from pyhudi_core.storage.clear_text import warn_of_clear_text
from pyhudi_core.storage.s3_options import S3Options

_READ_ATTEMPTS = 5
_ASK_ABOVE = 1 << 20
"""Bytes of an object above which the store is asked before they are sent: it may refuse the request, and then they were sent in vain."""
_RIGHTS = "Check the credentials, and that they may read and write below the table's prefix."
_HINTS = {
    "NoSuchBucket": "Check the bucket's name; buckets are not made here.",
    **dict.fromkeys(("403", "AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken"), _RIGHTS),
}
_ROOM = "Make room in the bucket or raise its quota, then write again: the next write removes what this one left."
_HINTS |= dict.fromkeys(
    ("507", "InsufficientStorage", "QuotaExceeded", "XMinioStorageFull", "XMinioAdminBucketQuotaExceeded"), _ROOM
)
_NO_CREDENTIALS = "Set AWS_PROFILE or AWS_ACCESS_KEY_ID, or give storage options."
_OTHER_HINT = "Check the endpoint, the region and the network, and try again."


@dataclass(frozen=True, slots=True)
class S3Clients:
    """The client that repeats requests, and the client that sends each request once."""

    patient: Any
    once: Any


def connect(options: S3Options) -> S3Clients:
    """Return the clients for the options; no request is sent. A client takes 0.1 s to create, so clients are cached."""
    surroundings = tuple(sorted((name, text) for name, text in os.environ.items() if name.startswith("AWS_")))
    # A client must not be used on both sides of a fork.
    return _connect(options, surroundings, os.getpid())


@lru_cache(maxsize=16)
def _connect(options: S3Options, surroundings: tuple[tuple[str, str], ...], pid: int) -> S3Clients:
    if options.ca_bundle and not os.path.isfile(options.ca_bundle):
        raise InvalidOptionError(
            f"The storage option 'ca_bundle' is no file: {options.ca_bundle}",
            hint="Give a file with the certificates of the authorities, in the format PEM.",
        )
    session = _session(options)
    region = session.region_name or ("us-east-1" if options.endpoint_url else None)

    def encrypted(params: dict[str, Any], **_: object) -> dict[str, Any]:
        return {**params, **options.encryption}

    def client(attempts: int) -> Any:
        own = {"s3": {"addressing_style": "path"}, "request_checksum_calculation": "when_required"}
        config = Config(
            retries={"total_max_attempts": attempts, "mode": "standard"},
            connect_timeout=10,
            read_timeout=60,
            max_pool_connections=50,
            # Other stores often know neither buckets as host names nor Amazon's newer checksums.
            **(own if options.endpoint_url else {}),
        )
        made = session.client(
            "s3",
            region_name=region,
            endpoint_url=options.endpoint_url or None,
            config=config,
            verify=options.ca_bundle or None,
        )
        made.meta.events.register("request-created.s3.PutObject", _send_at_once)
        for making in ("PutObject", "CreateMultipartUpload"):
            made.meta.events.register(f"provide-client-params.s3.{making}", encrypted)
        warn_of_clear_text(made.meta.endpoint_url, "S3")
        return made

    return S3Clients(client(_READ_ATTEMPTS), client(1))


def _session(options: S3Options) -> Any:
    """Return the session with the credentials of the options: the given ones, those that boto3 finds, or those of the role that these assume."""
    session = boto3.session.Session(
        aws_access_key_id=options.access_key_id or None,
        aws_secret_access_key=str(options.secret_access_key) or None,
        aws_session_token=str(options.session_token) or None,
        region_name=options.region or None,
    )
    if not options.role_arn:
        return session
    warn_of_clear_text(options.sts_endpoint_url, "STS")

    def sts(*given: Any, **named: Any) -> Any:
        endpoint, ca_bundle = options.sts_endpoint_url or None, options.ca_bundle or None
        return session.client(*given, endpoint_url=endpoint, verify=ca_bundle, region_name=session.region_name, **named)

    found = session.get_credentials()
    if found is None:
        raise StorageError("No credentials for S3 were found, with which the role is assumed", hint=_NO_CREDENTIALS)
    more = {"RoleSessionName": options.role_session_name, "ExternalId": options.external_id}
    assumed = AssumeRoleCredentialFetcher(
        sts, found, options.role_arn, extra_args={name: text for name, text in more.items() if text}
    )
    inner = botocore.session.Session()
    # botocore has no public name for credentials that a program gives and that are refreshed.
    inner._credentials = DeferredRefreshableCredentials(assumed.fetch_credentials, "assume-role")
    return boto3.session.Session(botocore_session=inner, region_name=session.region_name)


def _send_at_once(request: Any, **_: object) -> None:
    """Do not ask before a small object is sent."""
    # With Amazon's newer checksums the content is wrapped, and a header has its length.
    length = request.headers.get("X-Amz-Decoded-Content-Length")
    size = int(length) if length else determine_content_length(request.data)
    if size is not None and size <= _ASK_ABOVE and "Expect" in request.headers:
        del request.headers["Expect"]


def status_of(error: ClientError) -> int:
    """Return the HTTP status of an error response."""
    return int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))


def may_have_happened(error: Exception) -> bool:
    """Say whether a request that ended with this error may have taken effect."""
    if isinstance(error, ClientError):
        return status_of(error) >= 500 or status_of(error) == 0
    return isinstance(error, HTTPClientError | OSError)


@contextmanager
def s3_errors(table: str, path: str, *, changes: bool = False) -> Iterator[None]:
    """Convert errors of boto3 to errors of the package.

    Args:
        table: the storage's location.
        path: the object.
        changes: whether the request changes something; then the state is unknown if the response is lost.
    """
    try:
        yield
    except ClientError as error:
        code = _code(error)
        if code in ("NoSuchKey", "404", "NotFound"):
            raise ObjectNotFoundError("The object does not exist", table=table, path=path) from error
        raise _error(f"S3 refused: {code} {_text(error)}".strip(), error, (table, path), changes) from error
    except NoCredentialsError as error:
        raise StorageError(
            "No credentials for S3 were found",
            table=table,
            path=path,
            hint=_NO_CREDENTIALS,
        ) from error
    except (BotoCoreError, OSError) as error:
        raise _error(f"S3 could not be reached: {error}", error, (table, path), changes) from error


def _error(message: str, error: Exception, where: tuple[str, str], changes: bool) -> StorageError:
    kind = StorageStateUnknownError if changes and may_have_happened(error) else StorageError
    return kind(message, table=where[0], path=where[1], hint=_HINTS.get(_code(error), _OTHER_HINT))


def _code(error: Exception) -> str:
    return str(error.response.get("Error", {}).get("Code", "")) if isinstance(error, ClientError) else ""


def _text(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Message", ""))
