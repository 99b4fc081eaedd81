"""The storage options of S3. Parsing them needs neither boto3 nor a store, so a program can check them before it starts a job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from urllib.parse import urlsplit

from pyhudi_core.errors import InvalidOptionError
from pyhudi_core.model.masking import Secret
from pyhudi_core.storage.kind import allow_sources, refuse_unknown, secret_option, storage_option
from pyhudi_core.storage.paths import ALLOW_SOURCES, parse_sources, sources_text


@dataclass(frozen=True, slots=True)
class S3Options:
    """Storage options of S3. boto3 finds the options that are not given (environment, profile, role)."""

    endpoint_url: str = storage_option(
        "endpoint_url", "", "Address of another store than Amazon's, such as `https://store:9000`."
    )
    region: str = storage_option("region", "", "The bucket's region.")
    access_key_id: str = storage_option("access_key_id", "", "The access key. Without it boto3 finds the credentials.")
    secret_access_key: Secret = secret_option("secret_access_key", "The secret key.")
    session_token: Secret = secret_option("session_token", "The token of temporary credentials.")
    allow_sources: str = allow_sources()

    @classmethod
    def parse(cls, given: Mapping[str, str], location: str) -> S3Options:
        """Parse storage options. Raises `UnknownOptionError` and `InvalidOptionError`."""
        refuse_unknown(cls, given, location)
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
        return {each.name: getattr(self, each.name) for each in fields(self) if getattr(self, each.name)}


def _is_address(url: str) -> bool:
    """Whether boto3 takes this address, and errors may show it; empty is Amazon's own."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return not url or (parts.scheme in ("http", "https") and bool(parts.hostname) and "@" not in url)
