"""Kinds of storage (`StorageKind`), and their options.

A class of options declares each option at its field (`storage_option`), for the code and for the options page.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from pyhudi_core.errors import InvalidOptionError, UnknownOptionError
from pyhudi_core.model.masking import Secret
from pyhudi_core.model.option import Option, Scope, declared, options_of
from pyhudi_core.storage.base import Storage
from pyhudi_core.storage.paths import ALLOW_SOURCES, Location

storage_option = partial(declared, scope=Scope.STORAGE)
"""Returns a field of a class of storage options, with its option (`declared`). The key of the option is the name of the field."""


def secret_option(key: str, doc: str) -> Any:
    """Return a field as `storage_option`, for a credential."""
    return field(default=Secret(""), metadata=storage_option(key, "", doc, secret=True).metadata)


allow_sources = partial(
    storage_option,
    ALLOW_SOURCES,
    "",
    "Folders outside a table that its readers may open if the table's files name them, as one line of CSV.",
)
timeout = partial(
    storage_option,
    "timeout",
    "20s",
    "Seconds without data in an answer (`20s`) after which the request is repeated, for about 30 seconds in all.",
)
_DURATION = re.compile(r"(\d{1,6}(?:\.\d{1,3})?)\s*(ms|s|m)?", re.ASCII)
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, None: 1.0}
_PREFIX = re.compile(
    r"^(?:spark\.hadoop\.)?(?:fs\.s3a\.|s3\.|adls\.|gcs\.|aws_|azure_storage_|azure_|google_|s3_|oauth2\.)*"
)
_OTHER_NAMES = {
    "anon": "skip_signature",
    "anonymous": "skip_signature",
    "no_sign_request": "skip_signature",
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
    "endpoint_override": "endpoint_url",
    "account_host": "endpoint_url",
    "account_url": "endpoint_url",
    "service_host": "endpoint_url",
    "credential": "account_key",
    "credentials": "service_account",
    "key": "access_key_id account_key service_account_key",
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
    "read_timeout": "timeout",
    "request_timeout": "timeout",
    "token": "session_token bearer_token",
}
"""Names of options in other libraries, without prefixes such as ``AWS_`` and ``fs.s3a.``, for suggestions in messages: the options of all stores that
they mean.
"""


_NOT_HERE = {
    **dict.fromkeys(("allow_http",), "Omit it: an address with http:// says so."),
    **dict.fromkeys(
        ("allow_unsafe_rename", "locking_provider", "conditional_put", "copy_if_not_exists"),
        "Omit it: every write that has to be is on a condition.",
    ),
    **dict.fromkeys(
        ("connect_timeout", "max_retries", "retry_timeout"),
        "Omit it: requests are repeated as far as that is safe.",
    ),
    "allow_invalid_certificates": "Name the authority that signed the certificate: ca_bundle.",
    **dict.fromkeys(
        (
            "virtual_hosted_style_request",
            "force_path_style",
            "path_style_access",
            "addressing_style",
            "signature_version",
        ),
        "Omit it: it follows from endpoint_url.",
    ),
    **dict.fromkeys(("use_ssl", "scheme"), "Omit it: endpoint_url begins with https:// or http://."),
    **dict.fromkeys(
        ("client_kwargs", "config_kwargs", "additional_kwargs"),
        "Give what it holds as storage options of their own, such as endpoint_url and region.",
    ),
    **dict.fromkeys(("profile", "profile_name"), "Set the environment variable AWS_PROFILE."),
    **dict.fromkeys(
        (
            "config_file",
            "shared_credentials_file",
            "web_identity_token_file",
            "container_credentials_relative_uri",
            "container_credentials_full_uri",
            "ec2_metadata_disabled",
            "metadata_endpoint",
        ),
        "Set it as an environment variable.",
    ),
    **dict.fromkeys(
        ("proxies", "proxy_url", "proxy_options"), "Set the environment variable HTTPS_PROXY or HTTP_PROXY."
    ),
    **dict.fromkeys(("project", "project_id"), "Omit it: the bucket belongs to its project."),
    **dict.fromkeys(
        ("use_emulator", "azurite"),
        "Set account_name, account_key, and endpoint_url, such as http://localhost:10000/devstoreaccount1.",
    ),
    "use_fabric_endpoint": "Write the location as abfss://workspace@onelake.dfs.fabric.microsoft.com/folder.",
    **dict.fromkeys(("bucket", "bucket_name", "container", "container_name"), "The location names it."),
}
"""Options of other libraries that are not needed here, with advice."""


@dataclass(frozen=True, slots=True)
class OtherNames:
    """Names of the options of a kind of storage in other libraries (object_store, and so deltalake and Polars) and in the environment.

    Attributes:
        prefixes: possible prefixes of these names, in lower case; the longest first.
        same: other names, without a prefix, and the option for each.
        bare: whether names without a prefix are accepted, too.
    """

    prefixes: tuple[str, ...]
    same: Mapping[str, str]
    bare: bool = True

    def own(self, name: str, known: Collection[str]) -> str | None:
        """Return this package's option that a name means; None if there is none."""
        if name in known:
            return name
        lower = name.lower()
        prefix = next((each for each in self.prefixes if lower.startswith(each)), "")
        plain = lower.removeprefix(prefix)
        meant = self.same.get(plain, plain)
        return meant if meant in known and (prefix or self.bare) else None


def in_own_names(values: type, given: Mapping[str, str], location: str, names: OtherNames) -> dict[str, str]:
    """Return storage options under this package's names.

    Raises:
        UnknownOptionError: this kind of storage does not have an option; the error suggests one.
        InvalidOptionError: an option is given twice, under two names and with two values, or a value is no text.
    """
    known = [each.name for each in fields(values)]
    found: dict[str, str] = {}
    by: dict[str, str] = {}
    for name in sorted(given, key=str):
        own = names.own(name, known) if isinstance(name, str) else None
        if own is None:
            raise _unknown(str(name), known, location)
        if given[name] is None:
            continue  # such as a variable of the environment that is not set
        if not isinstance(given[name], str | int | os.PathLike):
            raise InvalidOptionError(
                f"The storage option '{name}' is a {type(given[name]).__name__}", table=location, hint="Give a text."
            )
        if found.get(own, given[name]) != given[name]:
            raise InvalidOptionError(
                f"The storage options '{by[own]}' and '{name}' are the same option, with two values",
                table=location,
                hint=f"Give only {own!r}.",
            )
        found[own], by[own] = given[name], name
    return found


def refuse_bad_address(given: Mapping[str, str], name: str, what: str, location: str) -> None:
    """Raise `InvalidOptionError` for an option that is not a valid address. The message does not show it, because it may contain a password."""
    if not _is_address(str(given.get(name, ""))):
        raise InvalidOptionError(
            f"The storage option '{name}' is not the address of {what}",
            table=location,
            hint="Write it as https://host:port, or http://host:port without TLS; credentials are options of their own.",
        )


def _is_address(url: str) -> bool:
    """Return whether a client accepts this address, and errors may show it. Empty means the cloud's own address."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return not url or (parts.scheme in ("http", "https") and bool(parts.hostname) and "@" not in url)


def given_options(values: Any) -> dict[str, str]:
    """Return the options that differ from their defaults, as text, for another process; secrets stay masked."""
    found = {each.name: (getattr(values, each.name), each.default) for each in fields(values)}
    return {name: "true" if value is True else value for name, (value, default) in found.items() if value != default}


@dataclass(frozen=True, slots=True, eq=False)
class StorageKind:
    """A kind of storage: all that the package knows about it, apart from its class.

    Attributes:
        scheme: the scheme of its locations, as `parse_location` gives it.
        title: its name, for the options page.
        values: the class of its options, which `storage_option` declares; its ``parse`` reads them, and needs neither the storage nor its package.
        open: opens the storage at a location, with its options.
        extra: the extra with its package; empty if it needs none.
    """

    scheme: str
    title: str
    values: Any
    open: Callable[[Location, Mapping[str, str]], Storage]
    extra: str = ""

    def options(self) -> tuple[Option, ...]:
        """Return the options of this kind."""
        return options_of(self.scheme, self.values)


def refuse_unknown(values: type, given: Mapping[str, str], location: str) -> None:
    """Raise `UnknownOptionError`, with a suggestion, for a storage option that this kind of storage does not have."""
    known = [each.name for each in fields(values)]
    unknown = sorted({*map(str, given)} - {*known})
    if unknown:
        raise _unknown(unknown[0], known, location)


def read_flag(given: Mapping[str, str], name: str, default: bool) -> bool:
    """Say whether an option is true. Raises `InvalidOptionError` for words other than true and false."""
    text = str(given.get(name, default)).lower()
    if text not in ("true", "false"):
        raise InvalidOptionError(f"The storage option '{name}' is '{text}'", hint="Use true or false.")
    return text == "true"


def seconds_of(timeout: str) -> float:
    """Return the seconds of the option `timeout`. Raises `InvalidOptionError` for a text that is not a time of at least a millisecond."""
    found = _DURATION.fullmatch(str(timeout).strip())
    seconds = 0.0 if found is None else float(found[1]) * _SECONDS[found[2]]
    if seconds < 0.001:
        raise InvalidOptionError(
            f"The storage option 'timeout' is '{timeout}'", hint="Write a time of at least 1ms, such as 20s or 500ms."
        )
    return seconds


def _unknown(name: str, known: Sequence[str], location: str) -> UnknownOptionError:
    hint = f"Known for this location: {', '.join(known)}."
    plain = _PREFIX.sub("", name.lower()).replace(".", "_").replace("-", "_")
    meant = next((each for each in _OTHER_NAMES.get(plain, plain).split() if each in known), "")
    if name.startswith(("hoodie.", "pyhudi.")):
        hint = f"It is an option of the table: options={{{name!r}: ...}}."
    elif plain in _NOT_HERE and plain not in known:
        hint = _NOT_HERE[plain]
    elif meant:
        hint = f"Did you mean {meant!r}? {hint}"
    return UnknownOptionError(f"Unknown storage option '{name}'", table=location, hint=hint)
