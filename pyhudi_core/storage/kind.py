"""What a kind of storage is (`StorageKind`), and how its options are read.

A class of options declares each one where its value is (`storage_option`), for the code and for the page of options.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any

from pyhudi_core.errors import InvalidOptionError, UnknownOptionError
from pyhudi_core.model.masking import Secret
from pyhudi_core.model.option import Option, Scope, declared, options_of
from pyhudi_core.storage.base import Storage
from pyhudi_core.storage.paths import ALLOW_SOURCES, Location

storage_option = partial(declared, scope=Scope.STORAGE)
"""A field of the options of a storage, with its option: see `declared`. Its key is the name of the field."""


def secret_option(key: str, doc: str) -> Any:
    """As `storage_option`, for a value that is a credential."""
    return field(default=Secret(""), metadata=storage_option(key, "", doc, secret=True).metadata)


allow_sources = partial(
    storage_option,
    ALLOW_SOURCES,
    "",
    "Folders outside a table that its readers may open if the table's files name them, as one line of CSV.",
)
_OTHER_NAMES = {
    "access_key": "access_key_id",
    "assumed_role_arn": "role_arn",
    "assumed_role_session_name": "role_session_name",
    "assumed_role_sts_endpoint": "sts_endpoint_url",
    "cafile": "ca_bundle",
    "ca_certificate": "ca_bundle",
    "encryption_algorithm": "server_side_encryption",
    "encryption_key": "sse_kms_key_id",
    "default_region": "region",
    "endpoint": "endpoint_url",
    "endpoint_region": "region",
    "iam_role_arn": "role_arn",
    "iam_role_external_id": "external_id",
    "iam_role_session_name": "role_session_name",
    "key": "access_key_id",
    "kms_key_id": "sse_kms_key_id",
    "region_name": "region",
    "secret": "secret_access_key",
    "secret_key": "secret_access_key",
    "security_token": "session_token",
    "server_side_encryption_algorithm": "server_side_encryption",
    "server_side_encryption_key": "sse_kms_key_id",
    "session_name": "role_session_name",
    "ssekmskeyid": "sse_kms_key_id",
    "serversideencryption": "server_side_encryption",
    "verify": "ca_bundle",
    "token": "session_token",
}
"""Names of these options in other libraries, without the prefixes ``AWS_`` and ``fs.s3a.``."""


@dataclass(frozen=True, slots=True, eq=False)
class StorageKind:
    """A kind of storage: all that the package knows of it beside its class.

    Attributes:
        scheme: the scheme of its locations, as `parse_location` gives it.
        title: what it is, for the page of options.
        values: the class of its options, which `storage_option` declares; its ``parse`` reads them, and needs neither the storage nor its package.
        open: the storage at a location, with its options.
        extra: the extra with its package; empty if it needs none.
    """

    scheme: str
    title: str
    values: Any
    open: Callable[[Location, Mapping[str, str]], Storage]
    extra: str = ""

    def options(self) -> tuple[Option, ...]:
        """Its options."""
        return options_of(self.scheme, self.values)


def refuse_unknown(values: type, given: Mapping[str, str], location: str) -> None:
    """Raise `UnknownOptionError` for a storage option that this kind of storage does not have, with what was meant."""
    known = [each.name for each in fields(values)]
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise _unknown(unknown[0], known, location)


def read_flag(given: Mapping[str, str], name: str, default: bool) -> bool:
    """Say whether an option is true. Raises `InvalidOptionError` for other words than true and false."""
    text = str(given.get(name, default)).lower()
    if text not in ("true", "false"):
        raise InvalidOptionError(f"The storage option '{name}' is '{text}'", hint="Use true or false.")
    return text == "true"


def _unknown(name: str, known: Sequence[str], location: str) -> UnknownOptionError:
    hint = f"Known for this location: {', '.join(known)}."
    plain = name.lower().removeprefix("fs.s3a.").removeprefix("aws_").replace(".", "_").replace("-", "_")
    meant = _OTHER_NAMES.get(plain, plain)
    if name.startswith(("hoodie.", "pyhudi.")):
        hint = f"It is an option of the table: options={{{name!r}: ...}}."
    elif meant in known:
        hint = f"Did you mean {meant!r}? {hint}"
    return UnknownOptionError(f"Unknown storage option '{name}'", table=location, hint=hint)
