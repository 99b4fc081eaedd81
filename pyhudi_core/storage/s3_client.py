"""The connection to S3: boto3 clients, and the meaning of S3's errors.

The SDK sends each request once: if it repeated a successful conditional write, the second request would fail with "412 Precondition Failed".
``s3_writes`` repeats conditional writes, and reads the object before it does. `RepeatingClient` repeats all other requests. Until the store has
answered once, requests go through a client that soon gives up, so a wrong address is an error within seconds.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import Any

import boto3
import botocore.session
from botocore import UNSIGNED
from botocore.config import Config
from botocore.credentials import AssumeRoleCredentialFetcher, DeferredRefreshableCredentials
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectionClosedError,
    ConnectTimeoutError,
    EndpointConnectionError,
    HTTPClientError,
    NoCredentialsError,
    ReadTimeoutError,
    SSLError,
)
from botocore.exceptions import ConnectionError as NotConnectedError
from botocore.parsers import ResponseParserError
from botocore.utils import determine_content_length

from pyhudi_core.errors import (
    HudiError,
    ObjectNotFoundError,
    StorageError,
    StorageStateUnknownError,
)
from pyhudi_core.model.masking import masked_text
from pyhudi_core.storage.certificates import CA_BUNDLE, advice, checking
from pyhudi_core.storage.clear_text import warn_of_clear_text
from pyhudi_core.storage.kind import seconds_of
from pyhudi_core.storage.s3_options import S3Options
from pyhudi_core.storage.settling import BUSY_HINT, Busy, Settler, Silence

_FIRST_ATTEMPTS = 2
_CONNECT_S, _FIRST_ANSWER_S = 3.5, 7
_BUSY = (429, 503)
_REDIRECTS = (301, 302, 307, 308)
_BUCKET_REGION = "x-amz-bucket-region"
_SAID_BY_S3 = {
    **dict.fromkeys(("PutObject", "UploadPart", "CompleteMultipartUpload"), (("ETag",),)),
    **dict.fromkeys(("GetObject", "HeadObject"), (("ETag",), ("LastModified",))),
    "CreateMultipartUpload": (("UploadId",),),
    "ListObjectsV2": (("Name", "IsTruncated", "KeyCount"),),
}
"""By operation, the fields of an answer of every such store: of each group at least one."""
_LENGTHS = ("content-length", "transfer-encoding")
_PASSING = (408, 429, 500, 502, 503, 504)
_PASSING_CODES = ("RequestTimeout", "PriorRequestNotComplete", "SlowDown", "InternalError")
_ASK_ABOVE = 1 << 20
"""For larger objects, the client asks the store before it sends the bytes, because the store may refuse the request."""
_RIGHTS = "Check the credentials, and that they have the right {} for the table's prefix."
_RIGHT_TO = {
    "ListObjectsV2": "s3:ListBucket",
    "HeadObject": "s3:GetObject (and s3:ListBucket: without it Amazon refuses a missing object, too)",
    "GetObject": "s3:GetObject (and s3:ListBucket: without it Amazon refuses a missing object, too)",
    **dict.fromkeys(("DeleteObject", "DeleteObjects"), "s3:DeleteObject"),
}
"""By operation, the right that it needs; all others write: ``s3:PutObject``."""
_REGION = "Set the storage option region (or AWS_REGION) to the bucket's region."
_ELSEWHERE = f"The bucket has another address. {_REGION} If endpoint_url is given, check it, and whether it begins with http or https."
_NOWHERE = "This server has no such bucket, or is no such store: check endpoint_url (or AWS_ENDPOINT_URL) and the bucket's name."
_NO_KEY = "The store does not know this key: check access_key_id (or AWS_ACCESS_KEY_ID), and that endpoint_url is the key's store."
_ROOM = "Make room in the bucket or raise its quota, then write again: the next write removes what this one left."
_HINTS = {
    "NoSuchBucket": "Check the bucket's name in the location; buckets are not made here.",
    "InvalidBucketName": "Check the bucket's name in the location.",
    **dict.fromkeys(("403", "AccessDenied", "AllAccessDisabled"), _RIGHTS),
    **dict.fromkeys(("InvalidAccessKeyId", "XAdminUserNotFound"), _NO_KEY),
    "SignatureDoesNotMatch": "The secret key is not that of the access key: check secret_access_key (or AWS_SECRET_ACCESS_KEY).",
    **dict.fromkeys(
        ("ExpiredToken", "InvalidToken"), "Get new temporary credentials: check session_token (or AWS_SESSION_TOKEN)."
    ),
    **dict.fromkeys(("AuthorizationHeaderMalformed", "IllegalLocationConstraintException"), _REGION),
    **dict.fromkeys(("301", "302", "307", "308", "PermanentRedirect", "TemporaryRedirect"), _ELSEWHERE),
    "RequestTimeTooSkewed": "Set the clock of this machine: the store refuses requests of another time.",
    "KeyTooLongError": "Choose a shorter location, or shorter values of the partition columns.",
    "404": _NOWHERE,
    "400": "Check the bucket's name, the region, and whether temporary credentials have expired: the store gives no reason.",
    **dict.fromkeys(
        ("507", "InsufficientStorage", "QuotaExceeded", "XMinioStorageFull", "XMinioAdminBucketQuotaExceeded"), _ROOM
    ),
}
_NO_CREDENTIALS = "Set AWS_PROFILE or AWS_ACCESS_KEY_ID, or give storage options."
_SETTINGS = "Check the storage options, the environment variables AWS_* (profile, region, endpoint, credentials) and the files of AWS."
_ENDPOINT = "Check the storage option endpoint_url (or AWS_ENDPOINT_URL), the region, of which Amazon's address is made, and the network."
_ROLE = "Check role_arn, external_id, sts_endpoint_url, and that the role trusts the credentials that assume it."
_OTHER_HINT = "Check the endpoint, the region and the credentials, and try again."


@dataclass(slots=True)
class S3Clients:
    """The client that sends each request once, and a client for a store that has not answered yet, with a time limit of seconds."""

    ordinary: Any
    first: Any
    busy: Busy = field(default_factory=Busy)
    reached: bool = False
    """Whether the store has ever answered."""

    proved: bool = False
    """Whether an answer has shown that the server speaks S3."""

    silence: Silence = field(default_factory=Silence)

    @property
    def once(self) -> Any:
        """Return the client for the next request. Raises the error of an earlier request if the store has never answered."""
        if self.reached:
            return self.ordinary
        self.silence.raise_if_silent()
        return self.first

    def watch(self) -> None:
        """Watch for the first answer, and for answers that do not come from S3."""
        for client in (self.ordinary, self.first):
            client.meta.events.register_first("needs-retry.s3", self._notice)
            client.meta.events.register("after-call.s3", self._refuse_other_answers)

    def _refuse_other_answers(self, http_response: Any, parsed: Any, model: Any, **_: object) -> None:
        """Raise an error for a page of another server that answers everything with success, and for an answer that ended within its headers.

        Python's HTTP client takes the headers of a broken connection for all of them: a read would be empty, and a write would have no tag.
        """
        if http_response.status_code >= 300:
            return
        groups = _SAID_BY_S3.get(model.name, ())
        missing = [group[0] for group in groups if not any(name in parsed for name in group)]
        has_length = any(name in http_response.headers for name in _LENGTHS)
        if not missing and (has_length or model.name != "GetObject"):
            self.proved = self.proved or bool(groups)
        elif self.proved or not has_length:
            raise ConnectionClosedError(endpoint_url=http_response.url)
        else:
            raise ResponseParserError(f"a success without {missing[0]}")

    def _notice(self, response: Any, caught_exception: Any, operation: Any, **_: object) -> None:
        if response is not None and response[0].status_code in _REDIRECTS and _BUCKET_REGION not in response[0].headers:
            # The SDK would ask for the bucket's region, be redirected again, and never end.
            raise ClientError(response[1], operation.name)
        self.reached = self.reached or response is not None
        if not self.reached and isinstance(caught_exception, ReadTimeoutError | ConnectTimeoutError):
            self.silence.note(caught_exception)


class RepeatingClient:
    """A boto3 client for requests that are safe to repeat. Repeats each request until it succeeds, or until a repetition does not help.

    Args:
        clients: send each request once.
        settler: controls the waits.
    """

    def __init__(self, clients: S3Clients, settler: Settler) -> None:
        self._clients = clients
        self._settler = settler

    @property
    def meta(self) -> Any:
        """The metadata of boto3's client."""
        return self._clients.ordinary.meta if self._clients.reached else self._clients.first.meta

    def __getattr__(self, name: str) -> Any:
        def ask(**request: Any) -> Any:
            patience = self._settler.patience()
            attempts = 0
            while True:
                attempts += 1
                try:
                    return getattr(self._clients.once, name)(**request)
                except StorageError as error:
                    self._note_silence(error, error.__cause__)
                    raise
                except (ClientError, BotoCoreError) as error:
                    self._note_silence(error, error)
                    if not self._again(error, attempts) or not patience.again(is_busy(error), asked_wait(error)):
                        raise

        return ask

    def _note_silence(self, error: Exception, cause: object) -> None:
        """Note that no answer came in time. The silent server may be the store, or a server of credentials, which another client asks."""
        if not self._clients.reached and isinstance(cause, ReadTimeoutError | ConnectTimeoutError):
            self._clients.silence.note(error)

    def _again(self, error: Exception, attempts: int) -> bool:
        if isinstance(error, ClientError):
            return status_of(error) in _PASSING or _code(error) in _PASSING_CODES
        if not self._clients.reached and isinstance(error, NotConnectedError | ReadTimeoutError):
            return isinstance(error, NotConnectedError) and attempts < _FIRST_ATTEMPTS
        return isinstance(error, NotConnectedError | HTTPClientError) and not isinstance(error, SSLError)


def connect(options: S3Options) -> S3Clients:
    """Return the clients for the options; no request is sent. A client takes 0.1 s to create, so clients are cached."""
    surroundings = tuple(sorted((name, text) for name, text in os.environ.items() if name.startswith("AWS_")))
    try:
        # A client must not be used on both sides of a fork.
        return _connect(options, surroundings, os.getpid())
    except HudiError:
        raise
    except (BotoCoreError, ClientError, ResponseParserError, ValueError) as error:
        raise StorageError(f"No connection to S3 can be made: {masked_text(str(error), 400)}", hint=_SETTINGS) from None


@lru_cache(maxsize=16)
def _connect(options: S3Options, surroundings: tuple[tuple[str, str], ...], pid: int) -> S3Clients:
    if options.ca_bundle:
        checking(options.ca_bundle, CA_BUNDLE.capitalize())
    session = session_of(options)
    region = session.region_name or ("us-east-1" if options.endpoint_url else None)

    def encrypted(params: dict[str, Any], **_: object) -> dict[str, Any]:
        return {**params, **options.encryption}

    def client(answer_s: float) -> Any:
        own = {"s3": {"addressing_style": "path"}, "request_checksum_calculation": "when_required"}
        config = Config(
            retries={"total_max_attempts": 1, "mode": "standard"},
            connect_timeout=_CONNECT_S,
            read_timeout=answer_s,
            max_pool_connections=50,
            signature_version=UNSIGNED if options.skip_signature else None,
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

    clients = S3Clients(client(seconds_of(options.timeout)), client(_FIRST_ANSWER_S))
    clients.watch()
    return clients


def session_of(options: S3Options) -> Any:
    """Return the session with the credentials: the given credentials, the credentials that boto3 finds, or the credentials of the assumed role."""
    session = boto3.session.Session(
        aws_access_key_id=options.access_key_id or None,
        aws_secret_access_key=str(options.secret_access_key) or None,
        aws_session_token=str(options.session_token) or None,
        region_name=options.region or _region_of_environment(),
        botocore_session=_impatient(),
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

    def fetched() -> dict[str, Any]:
        try:
            found: dict[str, Any] = assumed.fetch_credentials()
        except (ClientError, BotoCoreError, ResponseParserError, ValueError) as error:
            raise StorageError(
                f"The role {options.role_arn} could not be assumed: {error}",
                hint=advice(str(error), CA_BUNDLE) or _ROLE,
            ) from error
        return found

    inner = _impatient()
    # botocore has no public name for credentials that a program gives and that are refreshed.
    inner._credentials = DeferredRefreshableCredentials(fetched, "assume-role")
    return boto3.session.Session(botocore_session=inner, region_name=session.region_name)


def _region_of_environment() -> str | None:
    """Return the region under the name that all of Amazon's libraries but boto3 read; None if boto3 finds one itself."""
    return None if os.environ.get("AWS_DEFAULT_REGION") else os.environ.get("AWS_REGION") or None


def _impatient() -> Any:
    """Return a session of botocore whose own requests, for credentials, soon give up. It would ask a silent server for five minutes."""
    session = botocore.session.Session()
    attempts = {"total_max_attempts": _FIRST_ATTEMPTS, "mode": "standard"}
    session.set_default_client_config(Config(connect_timeout=_CONNECT_S, read_timeout=_CONNECT_S, retries=attempts))
    return session


def _send_at_once(request: Any, **_: object) -> None:
    """Send a small object without asking the store first."""
    # With Amazon's newer checksums the content is wrapped, and a header has its length.
    length = request.headers.get("X-Amz-Decoded-Content-Length")
    size = int(length) if length else determine_content_length(request.data)
    if size is not None and size <= _ASK_ABOVE and "Expect" in request.headers:
        del request.headers["Expect"]


def status_of(error: ClientError) -> int:
    """Return the HTTP status of an error response."""
    return int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))


def is_busy(error: Exception) -> bool:
    """Say whether the store asks for fewer requests."""
    return isinstance(error, ClientError) and (status_of(error) in _BUSY or _code(error) == "SlowDown")


def asked_wait(error: Exception) -> float:
    """Return the seconds that a busy store asks to wait (``Retry-After``: seconds, or a time of the store's clock); 0 if it does not say."""
    headers = (
        error.response.get("ResponseMetadata", {}).get("HTTPHeaders", {}) if isinstance(error, ClientError) else {}
    )
    text = str(headers.get("retry-after", "")).strip()
    if text.isascii() and text.isdigit():
        return float(text)
    try:
        wait = parsedate_to_datetime(text) - parsedate_to_datetime(headers["date"])
    except (KeyError, TypeError, ValueError, OverflowError):
        return 0.0
    return max(0.0, wait.total_seconds())


def may_have_happened(error: Exception) -> bool:
    """Say whether a request that ended with this error may have taken effect."""
    if isinstance(error, ClientError):
        return status_of(error) >= 500 or status_of(error) == 0
    return isinstance(error, HTTPClientError | OSError)


@contextmanager
def s3_errors(table: str, path: str, *, changes: bool = False, of_object: bool = True) -> Iterator[None]:
    """Convert errors of boto3 to errors of the package.

    Args:
        table: the storage's location.
        path: the object.
        changes: whether the request changes something; then the state is unknown if the response is lost.
        of_object: whether the request reads one object, which may be missing. A listing does not.
    """
    try:
        yield
    except HudiError:
        raise
    except ClientError as error:
        # A change or a listing that says 404 without S3's code was sent to another server.
        if _code(error) == "NoSuchKey" or (_code(error) in ("404", "NotFound") and of_object and not changes):
            raise ObjectNotFoundError("The object does not exist", table=table, path=path) from error
        raise refused(error, table, path, unclear=changes and may_have_happened(error)) from error
    except (BotoCoreError, OSError, ResponseParserError, ValueError) as error:
        raise refused(error, table, path, unclear=changes and may_have_happened(error)) from error


def refused(error: Exception, table: str, path: str, *, unclear: bool = False) -> StorageError:
    """Return this package's error for an error of boto3. It says whether the bucket, region, endpoint or credentials are wrong."""
    what, hint = _said(error)
    kind = StorageStateUnknownError if unclear else StorageError
    return kind(what, table=table, path=path, hint=hint)


def _said(error: Exception) -> tuple[str, str]:
    if isinstance(error, ClientError):
        other = BUSY_HINT if is_busy(error) else _OTHER_HINT
        code = _code(error) or str(status_of(error))
        hint = _HINTS.get(code, other).format(_RIGHT_TO.get(error.operation_name, "s3:PutObject"))
        return f"S3 refused: {code} {_text(error)}".strip(), hint
    if isinstance(error, NoCredentialsError):
        return "No credentials for S3 were found", _NO_CREDENTIALS
    if isinstance(error, SSLError):
        return f"S3 could not be asked by TLS: {error}", advice(str(error), CA_BUNDLE) or _ENDPOINT
    if isinstance(error, ResponseParserError):
        return f"The server at this address does not answer as S3 does: {error}", _ENDPOINT
    unsent = "Nothing was written. " if isinstance(error, EndpointConnectionError | ConnectTimeoutError) else ""
    return f"S3 could not be reached: {error}", unsent + _ENDPOINT


def _code(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))


def _text(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Message", ""))
