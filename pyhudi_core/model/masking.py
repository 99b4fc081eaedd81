"""Mask secrets in texts that are shown or stored: keys in addresses, values of secret options, AWS access keys.

Every secret character becomes a star. Lengths stay the same, so that binary formats stay readable.
"""

from __future__ import annotations

import re

_WORDS = (
    rb"(?:passwords?|passwd|pwd|secrets?|credentials?|access[._-]?key(?:[._-]?id)?|secret[._-]?key|account[._-]?key|"
    rb"session[._-]?token|sas[._-]?token|api[._-]?key|private[._-]?key|auth[._-]?token|bearer)"
)
_PARAMETERS = (
    rb"(?:sig|signature|x-amz-signature|x-amz-credential|x-amz-security-token|awsaccesskeyid|token|password|key)"
)
_ADDRESS = re.compile(rb"(?<=://)[^/\s:@\"'\\]{1,200}:[^/\s@\"'\\]{1,500}(?=@)")
_QUERY = re.compile(
    rb"((?:[?&;]|%3F|%26|\\u0026)" + _PARAMETERS + rb"(?:=|%3D))([^&\s\"'<>\\/]{1,2000})", re.IGNORECASE
)
_AMAZON = re.compile(rb"(?<![A-Z0-9])(?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Z0-9])(?::[^\s@/]{1,200}(?=@))?")
_OPTION = re.compile(
    rb"([\w.-]*" + _WORDS + rb"[\w.-]*[\"']?\s{0,8}[=:]\s{0,8}[\"']?)([^\s\"',;}\r\n]{1,2000})", re.IGNORECASE
)
_KEY = re.compile(rb"(?:^|[._-])" + _WORDS + rb"(?:$|[._-])", re.IGNORECASE)


def masked(data: bytes, *, options: bool = True) -> bytes:
    """Return bytes of the same length with secrets masked; ``options=False`` keeps the values of options (``key=value``)."""
    data = _ADDRESS.sub(_all, data)
    data = _QUERY.sub(_second, data)
    data = _AMAZON.sub(_all, data)
    return _OPTION.sub(_second, data) if options else data


def masked_text(text: str) -> str:
    """Return the text with secrets masked."""
    return masked(text.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogatepass")


def is_secret(key: str) -> bool:
    """Whether an option of this name holds a secret."""
    return _KEY.search(key.encode("utf-8", "surrogatepass")) is not None


def _all(found: re.Match[bytes]) -> bytes:
    return b"*" * len(found[0])


def _second(found: re.Match[bytes]) -> bytes:
    return found[1] + b"*" * len(found[2])
