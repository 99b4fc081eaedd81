"""Google Cloud Storage as a kind of storage: its options, which need neither obstore nor a store, and its opening."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyhudi_core.errors import InvalidOptionError, from_extra
from pyhudi_core.model.masking import Secret
from pyhudi_core.storage.base import Storage
from pyhudi_core.storage.given_credentials import hidden_by_environment
from pyhudi_core.storage.kind import (
    OtherNames,
    StorageKind,
    allow_sources,
    given_options,
    in_own_names,
    read_flag,
    refuse_bad_address,
    seconds_of,
    secret_option,
    storage_option,
    timeout,
)
from pyhudi_core.storage.paths import ALLOW_SOURCES, Location, parse_sources, sources_text

_EXTRA = "gcs"
_NAMES = OtherNames(
    ("google_",),
    {
        "service_account_path": "service_account",
        "base_url": "endpoint_url",
        "endpoint": "endpoint_url",
        "token": "bearer_token",
        "anonymous": "skip_signature",
    },
)
_ORDER = ("bearer_token", "service_account", "service_account_key", "application_credentials")
"""The options that say who asks, as the client library prefers them."""
_MACHINE = ("google_default", "cloud", "cache", "browser")
"""How gcsfs spells that it looks for credentials."""
_CLIENT = {"endpoint_url": "base_url"}
"""Options that have another name in the client library."""
_ENDPOINTS = ("GOOGLE_BASE_URL", "GOOGLE_ENDPOINT_URL")


@dataclass(frozen=True, slots=True)
class GoogleOptions:
    """Storage options of Google Cloud Storage. The client finds missing credentials in the environment, or from the machine's account."""

    service_account: str = storage_option(
        "service_account", "", "A file with the key of a service account (`GOOGLE_SERVICE_ACCOUNT`)."
    )
    service_account_key: Secret = secret_option(
        "service_account_key", "The key of a service account, as JSON (`GOOGLE_SERVICE_ACCOUNT_KEY`)."
    )
    application_credentials: str = storage_option(
        "application_credentials",
        "",
        "A file with application default credentials (`GOOGLE_APPLICATION_CREDENTIALS`); without any of these options the account of"
        " the machine is used, as on GKE with workload identity.",
    )
    bearer_token: Secret = secret_option(
        "bearer_token", "An OAuth token, which is not renewed (`GOOGLE_BEARER_TOKEN`)."
    )
    skip_signature: bool = storage_option("skip_signature", False, "Read a public bucket without credentials.")
    endpoint_url: str = storage_option(
        "endpoint_url",
        "",
        "Address of another server than Google's, such as `http://localhost:4443` (`GOOGLE_BASE_URL`).",
    )
    ca_bundle: str = storage_option(
        "ca_bundle",
        "",
        "A file with authorities that may sign the server's certificate, in addition to the authorities of the machine.",
    )
    timeout: str = timeout()
    allow_sources: str = allow_sources()

    @classmethod
    def parse(cls, given: Mapping[str, str], location: str) -> GoogleOptions:
        """Parse storage options. Raises `UnknownOptionError` and `InvalidOptionError`."""
        given = in_own_names(cls, given, location, _NAMES)
        _refuse_no_token(given.get("bearer_token", ""), location)
        refuse_bad_address(given, "endpoint_url", "a store", location)
        seconds_of(str(given.get("timeout", "")) or "20s")
        rest = ("skip_signature", ALLOW_SOURCES, "service_account_key", "bearer_token")
        texts: dict[str, Any] = {name: str(text) for name, text in given.items() if name not in rest and str(text)}
        return cls(
            **texts,
            service_account_key=Secret(given.get("service_account_key", "")),
            bearer_token=Secret(given.get("bearer_token", "")),
            skip_signature=read_flag(given, "skip_signature", False),
            allow_sources=sources_text(parse_sources(given.get(ALLOW_SOURCES, ""))),
        )


def _refuse_no_token(token: str, location: str) -> None:
    """Raise `InvalidOptionError` for a token that gcsfs takes, and Google does not."""
    if token == "anon":  # noqa: S105  (a word)
        hint = "Use skip_signature=true."
    elif token in _MACHINE:
        hint = "Omit it: the credentials of the machine are found without it."
    elif token.startswith(("/", "{", "~", ".")) or token.endswith(".json"):
        hint = "Give a file as service_account, and its content as service_account_key."
    else:
        return
    raise InvalidOptionError("The storage option 'bearer_token' ('token') is no OAuth token", table=location, hint=hint)


def _open(location: Location, given: Mapping[str, str]) -> Storage:
    options = GoogleOptions.parse(given, location.text)
    with from_extra(_EXTRA, f"A table in Google Cloud Storage ({location.text})"):
        from pyhudi_core.storage.object_clients import Account, Provider  # noqa: PLC0415
        from pyhudi_core.storage.object_store import ObjectStorage  # noqa: PLC0415

    values = given_options(options)
    hidden = hidden_by_environment(values, _ORDER, {}, _NAMES, location.text)
    endpoint = options.endpoint_url or next((os.environ[name] for name in _ENDPOINTS if os.environ.get(name)), "")
    config = {**values, **({"endpoint_url": endpoint} if endpoint else {})}
    kept = {
        _CLIENT.get(name, name): text
        for name, text in config.items()
        if name not in ("ca_bundle", "timeout", ALLOW_SOURCES)
    }
    provider = Provider(
        title="Google Cloud Storage",
        client="GCSStore",
        place="bucket",
        versions=True,
        lists_after=True,
        environment="GOOGLE_",
        rights="Check GOOGLE_APPLICATION_CREDENTIALS or the storage options service_account and service_account_key, and that this account may"
        " read and write objects of the bucket.",
        address="Check the storage option endpoint_url (or GOOGLE_BASE_URL) and the network.",
        hosts=("googleapis.com",),
    )
    account = Account(
        provider,
        location.bucket,
        tuple(sorted(kept.items())),
        endpoint,
        options.ca_bundle,
        seconds_of(options.timeout),
        hidden,
    )
    allowed = parse_sources(options.allow_sources)
    return ObjectStorage(location.text, location.path, account, values, allowed)


STORAGE = StorageKind("gs", "Google Cloud Storage", GoogleOptions, _open, _EXTRA)
