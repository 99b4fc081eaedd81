"""Mask secrets in texts that are shown or stored: keys in addresses, values of secret options, AWS access keys.

Every secret character becomes a star. Lengths stay the same, so that binary formats stay readable.

A name that columns have, too, such as ``token``, is one of a secret only if the value looks like one: it has 16 characters or more, and is no part of
a path. So ``token=5`` and ``token=abc/f.parquet`` stay readable. A value behind a space is masked after an argument of a command
(``--password x``), not in a sentence; ``-p x`` is not masked, because ``-p`` is a port or a folder for most programs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from pyhudi_core.naming import explains_arguments

_T = TypeVar("_T")
_F = TypeVar("_F", bound=Callable[..., Any])

_WORDS = (
    rb"(?:passwords?|passwd|pwd|passphrase|passcode|secrets?|credentials?|access[._-]?key(?:[._-]?id)?|secret[._-]?key|account[._-]?key|"
    rb"master[._-]?key|connection[._-]?string|(?:session|access|refresh|security|auth|vault|api|(?<![a-z])id)[._-]?token|sas[._-]?(?:token|key)|azure[._]sas|api[._-]?key|private[._-]?key|bearer)"
)
_PARAMETERS = (
    rb"(?:sig|signature|x-(?:amz|goog)-(?:signature|credential)|x-amz-security-token|awsaccesskeyid|token|password|key)"
)
# Time is linear in the text: a pattern starts only where a piece begins (the lookbehinds), and no two starts read the same piece to its end.
# A group is never repeated possessively: Python 3.11 then keeps what the failed last attempt has read.
_ADDRESS = re.compile(rb"(?<=://)[^/\s:@\"'\\]*:[^/\s\"'\\]+(?=@)")
_TOKEN = re.compile(
    rb"(?:(?<=http://)|(?<=https://))[^/\s:@\"'\\]++(?=@)"  # alone before the host
    rb"|(?<![\w-])eyJ[\w-]++\.eyJ[\w-]++\.[\w-]++"  # of JSON (JWT)
    rb"|(?<![\w-])(?:gh[pousr]_|github_pat_|glpat-|xox[abprs]-|hf_|dapi)[\w-]{20,}",  # of a service, by how they begin
    re.ASCII,
)
_ENCODED = re.compile(rb"((?:://|%3A%2F%2F)[\w.~-]*+%3A)((?:[^\s\"'/%]|%(?!40|2F))+)(?=%40)", re.IGNORECASE | re.ASCII)
_ORACLE = re.compile(rb"(jdbc:oracle:\w{1,8}:[^\s/@:\"']*+/)([^\s:\"']+(?=@))", re.IGNORECASE | re.ASCII)
_DIGEST = re.compile(
    rb"((?<![\w.-])digest(?:[\"'],\s{0,4}b?[\"']|:)(?!sha\d)[^\s:/\"']*+:)([^\s\"',;)]+)", re.IGNORECASE
)
_QUERY = re.compile(rb"((?:[?&;]|%3F|%26|\\u0026)" + _PARAMETERS + rb"(?:=|%3D))([^&\s\"'<>\\/]+)", re.IGNORECASE)
_AMAZON = re.compile(rb"(?<![A-Z0-9])(?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Z0-9])(?::[^\s@/]{1,200}(?=@))?")
_LIST = rb"\[(?:[^\]\"'\\]++|\\[\s\S]?|\"[^\"\\]*+(?:\\[\s\S]?[^\"\\]*+)*\"?|'[^'\\]*+(?:\\[\s\S]?[^'\\]*+)*'?)*\]?"
_YAML = (
    rb"[|>][-+0-9]{0,2}[ \t]{0,8}(?:[\r\n]++[ \t]++[^\r\n]*+)+|-[ \t]++[^\r\n]*+(?:[\r\n]++[ \t]*+-[ \t]++[^\r\n]*+)*"
)
_QUOTED = (
    rb"b?\"[^\"\\\x00-\x1f]*(?:\\[^\x00-\x1f][^\"\\\x00-\x1f]*)*|b?'[^'\\\x00-\x1f]*(?:\\[^\x00-\x1f][^'\\\x00-\x1f]*)*"
)
_OPTION = re.compile(
    rb"((?<![\w.-])(?=[\w.-])(?=[\w.-]*"
    + _WORDS
    + rb")[\w.-]++(?:%22|\\{0,8}[\"']?)(?:\s{0,8}(?:=>|:=|[=:]|%(?:25)?3[AD])\s{0,8}|>))"
    rb"(" + _QUOTED + rb"|\\{1,8}[\"'][^\"'\\\x00-\x1f]*|" + _LIST + rb"|" + _YAML + rb"|[^\s\"',;}\r\n]+)",
    re.IGNORECASE,
)
_ARGUMENT = re.compile(
    rb"((?<![\w.-])-{1,2}+(?=\w)(?=[\w.-]{0,80}"
    + _WORDS
    + rb"(?![\w.-]))[\w.-]++(?:[\"'],\s{0,8}|[\"']?\s{1,8})|(?<![\w.-])pass:(?=\S))"
    rb"(" + _QUOTED + rb"|[^\s\"',;-][^\s\"',;]*)",
    re.IGNORECASE,
)
_USUAL_NAME = re.compile(
    rb"((?<![\w./-])(?:token|oauth|pass|sig|signature)[\"']?(?:\s{0,2}[=:]\s{0,2}|>)[\"']?)([\w.~+=%-]{16,}+)(?!/)",
    re.IGNORECASE | re.ASCII,
)
_AUTHORIZATION = re.compile(
    rb"((?<![\w.])authorization[\"']?\s{0,4}[:=]\s{0,4}[\"']?)"
    rb"((?:token|digest|basic|bearer|negotiate|apikey|aws4[\w-]{0,20})\s[^\r\n\"']{4,}|[\w.~+/=-]{16,})",
    re.IGNORECASE | re.ASCII,
)
_HEADER = re.compile(rb"((?<![\w.-])(?:bearer|basic)\s{1,4})([\w.~+/=-]{16,})", re.IGNORECASE | re.ASCII)
_PRIVATE_KEY = re.compile(rb"(-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----)([^-]*(?:-(?!----)[^-]*)*)")
_QUOTES = re.compile(rb"b?\\*[\"']")
_KEY = re.compile(rb"(?:^|[._-])" + _WORDS + rb"(?:$|[._-])", re.IGNORECASE)

_SHORT_NAMES = ("key", "token", "access_key_id")
"""Names of secrets, only among options."""


def masked(data: bytes, *, options: bool = True) -> bytes:
    """Return bytes of the same length with masked secrets; ``options=False`` does not mask the values of options (``key=value``)."""
    data = _PRIVATE_KEY.sub(_second, data)
    data = _ADDRESS.sub(_all, data)
    data = _ENCODED.sub(_second, data)
    data = _TOKEN.sub(_all, data)
    data = _ORACLE.sub(_second, data)
    data = _DIGEST.sub(_second, data)
    data = _QUERY.sub(_second, data)
    data = _AMAZON.sub(_all, data)
    data = _AUTHORIZATION.sub(_second, data)
    data = _HEADER.sub(_second, data)
    if options:
        for pattern in (_OPTION, _ARGUMENT, _USUAL_NAME):
            data = pattern.sub(_second, data)
    return data


def masked_text(text: str, most: int | None = None) -> str:
    """Return the text with masked secrets, cut to ``most`` letters. A secret at the cut is masked, too."""
    if most is not None and len(text) > most:
        return masked_text(text[:most] + "@")[:most]  # the cut end of an address with a password
    return masked(text.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogatepass")


class Secret(str):
    """A text whose value `repr` does not show. So logs, error messages and tracebacks with variables do not show the value."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "Secret('***')"


def concealed(given: _T) -> _T:
    """Return a copy of options in which secrets, and addresses with a password, are `Secret` texts. A value that is not a mapping is returned
    unchanged.
    """
    if not isinstance(given, Mapping):
        return given
    return {key: _concealed(str(key), value) for key, value in given.items()}  # type: ignore[return-value]  # the callers' types are protocols


def _concealed(key: str, value: object) -> object:
    if isinstance(value, Mapping):
        return concealed(value)
    if not isinstance(value, str) or isinstance(value, Secret):
        return value
    return Secret(value) if holds_secret(key, value) else value


def holds_secret(key: str, value: str) -> bool:
    """Return whether an option is secret by its name or by its value, such as an address with a password."""
    return is_secret(key) or key.lower() in _SHORT_NAMES or masked_text(value) != value


def takes_options(function: _F) -> _F:
    """Decorate a public function with `explains_arguments`, and replace secrets among the options by texts that ``repr`` does not show.

    So a traceback with local variables shows no secret in a frame of this package.
    """
    return explains_arguments(function, concealed)


def is_secret(key: str) -> bool:
    """Return whether the value of an option of this name is secret."""
    return _KEY.search(key.encode("utf-8", "surrogatepass")) is not None


def _all(found: re.Match[bytes]) -> bytes:
    return b"*" * len(found[0])


def _second(found: re.Match[bytes]) -> bytes:
    opening = _QUOTES.match(found[2])
    quote = b"" if opening is None else opening[0]
    return found[1] + quote + b"*" * (len(found[2]) - len(quote))
