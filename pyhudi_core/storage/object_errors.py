"""Interpret the errors of obstore, which are text: the request, the status and the store's answer, and the values of the Rust library.

Secrets in the text are masked before it is shown, because the address of a request may contain a signature.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError

from pyhudi_core.errors import StorageError, StorageStateUnknownError
from pyhudi_core.model.masking import masked_text
from pyhudi_core.storage.settling import AskedObject, RequestEnd

ERRORS = (BaseError, OSError)
BUSY = (429, 503)
_STATUS = re.compile(r"\bstatus: (\d{3})\b")
_KIND = re.compile(r"\bkind: ([A-Z]\w+)")
_CODE = re.compile(r"<Code>(\w{1,60})</Code>")
_MESSAGE = re.compile(r"<Message>([^<]{1,300})")
_PREFIX = re.compile(r"^Generic \w+ error: ")
_REASON = re.compile(r"status code: \d{3} ([A-Z][A-Za-z -]{1,60})")
_CAUSE = re.compile(r'(?:message|error): "([^"]{1,200})"')
_TLS = re.compile(r"\b(?:InvalidCertificate|InvalidMessage)\(\s*(?:Other\(\s*OtherError\(\s*)?(\w+)")
_REFUSED = {
    "UnknownIssuer": "no known authority has signed the server's certificate",
    "CaUsedAsEndEntity": "the server's certificate is one of an authority, which is to sign another one for the server",
    **dict.fromkeys(("NotValidForName", "NotValidForNameContext"), "the server's certificate is for another name"),
    **dict.fromkeys(("Expired", "ExpiredContext"), "the server's certificate has expired"),
    **dict.fromkeys(("NotValidYet", "NotValidYetContext"), "the server's certificate is not yet valid"),
    "InvalidContentType": "the server does not speak TLS (InvalidContentType)",
}
"""Maps the client's words for a refused TLS connection to their meaning."""
_CREDENTIALS = re.compile(
    r"Generic \w+ error: (?:Error performing token request|\w+ credential error|Invalid Access Key|Unable to (?!extract metadata))"
)
_NO_CONNECTION = "Connect"
_NO_ANSWER = (_NO_CONNECTION, "Timeout")
_NO_PLACE = ("NoSuchBucket", "ContainerNotFound", "InvalidBucketName", "InvalidResourceName", "AccountIsDisabled")
_SHOWN = 400


@dataclass(frozen=True, slots=True)
class Failure:
    """The content of an error: the status of the answer (0: no answer), the store's error code, its message, the kind of a broken connection, and why
    the client refused the server's TLS.
    """

    status: int
    code: str
    kind: str
    tls: str
    message: str
    about_credentials: bool
    condition: bool

    @property
    def is_busy(self) -> bool:
        """Whether the store asks for fewer requests."""
        return self.status in BUSY and not self.about_credentials

    @property
    def is_answer(self) -> bool:
        """Whether the store answered."""
        return self.status > 0 and not self.about_credentials

    @property
    def not_sent(self) -> bool:
        """Whether no request was sent, because there was no connection."""
        return self.kind == _NO_CONNECTION

    @property
    def is_unclear(self) -> bool:
        """Whether the request may have taken effect."""
        broken = self.status == 0 and bool(self.kind) and not self.not_sent
        return not self.about_credentials and (broken or self.status == 408 or self.status >= 500)

    @property
    def no_place(self) -> bool:
        """Whether the bucket or container is missing."""
        return self.code in _NO_PLACE

    @property
    def not_found(self) -> bool:
        """Whether the object is missing."""
        return self.status == 404 and not self.no_place and not self.about_credentials


def failure_of(error: Exception) -> Failure:
    """Return the content of an error."""
    text, _, debug = str(error).partition("\n\nDebug source:")
    found = _STATUS.search(debug)
    status = int(found[1]) if found else 404 if isinstance(error, FileNotFoundError) else 0
    refused = None if found else _TLS.search(debug)
    tls = _REFUSED.get(refused[1], f"the server's certificate is refused: {refused[1]}") if refused else ""
    code, kind = _CODE.search(text), None if found else _KIND.search(debug)
    said = _CAUSE.search(debug) if kind else _MESSAGE.search(text) or (_REASON.search(text) if found else None)
    is_late = kind is not None and kind[1] == "Timeout"
    late = "no answer in time (storage option timeout)" if is_late else ""
    message = tls or late or (said[1] if said else _PREFIX.sub("", text))
    return Failure(
        status=status,
        code=code[1] if code else "",
        kind=kind[1] if kind else "",
        tls=tls,
        message=masked_text(" ".join(message.split()), _SHOWN),
        about_credentials=_CREDENTIALS.match(text) is not None,
        condition=isinstance(error, PreconditionError | AlreadyExistsError),
    )


def verdict_on(found: Failure, *, reached: bool, creates: bool = False) -> RequestEnd:
    """Return what a failure means for the request. If the store has never answered, a missing answer is not temporary.

    ``creates``: the object does not exist yet, so its absence is no reason for an error.
    """
    if found.about_credentials or (found.kind in _NO_ANSWER and not reached):
        return RequestEnd.REFUSED
    if found.not_sent:
        return RequestEnd.NO_EFFECT
    if found.status == 429 or (found.status == 409 and found.code not in ("", "BlobAlreadyExists")):
        return RequestEnd.NO_EFFECT
    if found.condition or (found.not_found and not creates):
        return RequestEnd.FAILED
    return RequestEnd.UNCLEAR if found.is_unclear else RequestEnd.REFUSED


def error_of(found: Failure, target: AskedObject, server: str, hint: str, *, unclear: bool = False) -> StorageError:
    """Return the error of this package; ``server``: its address; ``unclear``: the request may have changed something."""
    kind = StorageStateUnknownError if unclear else StorageError
    place = f"{target.store} at {server}" if server else target.store
    if found.about_credentials:
        what = f"No credentials for {target.store}: {found.message}"
    elif found.is_answer:
        what = f"{place} refused: {found.status} {found.code} {found.message}".replace("  ", " ")
    elif found.not_sent or found.kind:
        what = f"{place} could not be reached: {found.message}"
    else:
        what = f"{target.store} did not do the request: {found.message}"
    return kind(what, table=target.table, path=target.path, hint=hint)
