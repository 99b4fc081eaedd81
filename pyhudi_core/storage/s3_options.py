"""The storage options of S3. Parsing them needs neither boto3 nor a store, so a program can check them before it starts a job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from pyhudi_core.errors import InvalidOptionError, UnknownOptionError
from pyhudi_core.model.masking import Secret
from pyhudi_core.storage.paths import ALLOW_SOURCES, parse_sources, sources_text

_OTHER_NAMES = {
    "access_key": "access_key_id",
    "default_region": "region",
    "endpoint": "endpoint_url",
    "endpoint_region": "region",
    "key": "access_key_id",
    "region_name": "region",
    "secret": "secret_access_key",
    "secret_key": "secret_access_key",
    "security_token": "session_token",
    "token": "session_token",
}
"""Names of these options in other libraries, without the prefixes ``AWS_`` and ``fs.s3a.``."""


@dataclass(frozen=True, slots=True)
class S3Options:
    """Storage options of S3. boto3 finds the options that are not given (environment, profile, role).

    Attributes:
        endpoint_url: address of an S3-compatible store; empty for Amazon S3.
        region: the bucket's region.
        access_key_id, secret_access_key, session_token: explicit credentials.
        allow_sources: folders outside a table that its readers may open if the table's files name them, as a line of CSV.
    """

    endpoint_url: str = ""
    region: str = ""
    access_key_id: str = ""
    secret_access_key: Secret = field(default=Secret(""))
    session_token: Secret = field(default=Secret(""))
    allow_sources: str = ""

    @classmethod
    def parse(cls, given: Mapping[str, str], location: str) -> S3Options:
        """Parse storage options. Raises `UnknownOptionError` and `InvalidOptionError`."""
        known = list(cls.__dataclass_fields__)
        unknown = sorted(set(given) - set(known))
        if unknown:
            raise unknown_storage_option(unknown[0], known, location)
        if bool(given.get("access_key_id")) != bool(given.get("secret_access_key")):
            raise InvalidOptionError(
                "Of 'access_key_id' and 'secret_access_key' only one is given",
                table=location,
                hint="Give both, or neither and let boto3 find the credentials.",
            )
        if not _is_address(str(given.get("endpoint_url", ""))):  # the message does not show it: it may have a password
            raise InvalidOptionError(
                "The storage option 'endpoint_url' is not the address of a store",
                table=location,
                hint="Write it as https://host:port, or http://host:port without TLS; credentials are options of their own.",
            )

        def text(name: str) -> str:
            return str(given.get(name, ""))

        return cls(
            text("endpoint_url"),
            text("region"),
            text("access_key_id"),
            Secret(text("secret_access_key")),
            Secret(text("session_token")),
            sources_text(parse_sources(given.get(ALLOW_SOURCES, ""))),
        )

    def to_mapping(self) -> dict[str, str]:
        """The given options; secrets stay masked."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__ if getattr(self, name)}


def _is_address(url: str) -> bool:
    """Whether boto3 takes this address, and errors may show it; empty is Amazon's own."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return not url or (parts.scheme in ("http", "https") and bool(parts.hostname) and "@" not in url)


def unknown_storage_option(name: str, known: Sequence[str], location: str) -> UnknownOptionError:
    """The error for a storage option that this kind of storage does not have, with what was meant."""
    hint = f"Known for this location: {', '.join(known) or 'none'}."
    plain = name.lower().removeprefix("fs.s3a.").removeprefix("aws_").replace(".", "_").replace("-", "_")
    meant = _OTHER_NAMES.get(plain, plain)
    if name.startswith(("hoodie.", "pyhudi.")):
        hint = f"It is an option of the table: options={{{name!r}: ...}}."
    elif meant in known:
        hint = f"Did you mean {meant!r}? {hint}"
    return UnknownOptionError(f"Unknown storage option '{name}'", table=location, hint=hint)
