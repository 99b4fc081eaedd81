"""Azure Blob Storage and Data Lake Storage as a kind of storage: its options, which need neither obstore nor a store, and its opening."""

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

_EXTRA = "azure"
_NAMES = OtherNames(
    ("azure_storage_", "azure_"),
    {
        "account": "account_name",
        "access_key": "account_key",
        "master_key": "account_key",
        "authority_id": "tenant_id",
        "sas_key": "sas_token",
        "token": "bearer_token",
        "endpoint": "endpoint_url",
        "identity_endpoint": "msi_endpoint",
        "anonymous": "skip_signature",
        "anon": "skip_signature",
    },
)
_CLIENT = {"sas_token": "sas_key", "bearer_token": "token", "endpoint_url": "endpoint"}
"""Options that have another name in the client library."""
_SECRETS = ("account_key", "sas_token", "client_secret", "bearer_token", "connection_string")
_ORDER = (
    "bearer_token",
    "account_key",
    "federated_token_file",
    "client_secret",
    "sas_token",
    "use_azure_cli",
    "msi_endpoint",
    "object_id",
    "msi_resource_id",
)
"""The options that say who asks, as the client library prefers them."""
_FIXED = {"bearer_token": "token", "account_key": "access_key", "sas_token": "sas_token"}
_FLAGS = ("use_azure_cli", "skip_signature")
_ACCOUNTS = ("AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_ACCOUNT")
_ENDPOINTS = ("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT")
_CONNECTION_STRING = "AZURE_STORAGE_CONNECTION_STRING"
_PUBLIC = "core.windows.net"


@dataclass(frozen=True, slots=True)
class AzureOptions:
    """Storage options of Azure. The client finds missing credentials in the environment, or from the machine's identity."""

    account_name: str = storage_option(
        "account_name", "", "The storage account, if the location does not name it (`AZURE_STORAGE_ACCOUNT_NAME`)."
    )
    account_key: Secret = secret_option("account_key", "A key of the account (`AZURE_STORAGE_ACCOUNT_KEY`).")
    sas_token: Secret = secret_option("sas_token", "A shared access signature (`AZURE_STORAGE_SAS_TOKEN`).")
    connection_string: Secret = secret_option(
        "connection_string",
        "Account, key or signature, and endpoint, as the portal shows them (`AZURE_STORAGE_CONNECTION_STRING`).",
    )
    client_id: str = storage_option(
        "client_id",
        "",
        "The application that signs in: with client_secret, or with federated_token_file (`AZURE_CLIENT_ID`).",
    )
    client_secret: Secret = secret_option("client_secret", "The secret of client_id (`AZURE_CLIENT_SECRET`).")
    tenant_id: str = storage_option("tenant_id", "", "The directory (tenant) of client_id (`AZURE_TENANT_ID`).")
    federated_token_file: str = storage_option(
        "federated_token_file",
        "",
        "The file with the token of workload identity (`AZURE_FEDERATED_TOKEN_FILE`, which AKS sets).",
    )
    authority_host: str = storage_option(
        "authority_host",
        "",
        "The address where client_id signs in, if not in Azure's public cloud (`AZURE_AUTHORITY_HOST`).",
    )
    bearer_token: Secret = secret_option("bearer_token", "A token, which is not renewed (`AZURE_STORAGE_TOKEN`).")
    use_azure_cli: bool = storage_option("use_azure_cli", False, "Ask `az` for tokens (`AZURE_USE_AZURE_CLI`).")
    msi_endpoint: str = storage_option(
        "msi_endpoint", "", "The address that gives tokens of the machine's managed identity (`AZURE_MSI_ENDPOINT`)."
    )
    object_id: str = storage_option("object_id", "", "The managed identity, by its object id.")
    msi_resource_id: str = storage_option("msi_resource_id", "", "The managed identity, by its resource id.")
    skip_signature: bool = storage_option("skip_signature", False, "Read a public container without credentials.")
    endpoint_url: str = storage_option(
        "endpoint_url",
        "",
        "Address of the account in another cloud or emulator, such as `http://localhost:10000/devstoreaccount1` (`AZURE_STORAGE_ENDPOINT`).",
    )
    ca_bundle: str = storage_option(
        "ca_bundle",
        "",
        "A file with authorities that may sign the server's certificate, in addition to the authorities of the machine.",
    )
    timeout: str = timeout()
    allow_sources: str = allow_sources()

    @classmethod
    def parse(cls, given: Mapping[str, str], location: str) -> AzureOptions:
        """Parse storage options. Raises `UnknownOptionError` and `InvalidOptionError`."""
        given = in_own_names(cls, given, location, _NAMES)
        for name in ("endpoint_url", "authority_host", "msi_endpoint"):
            refuse_bad_address(given, name, "a server", location)
        seconds_of(str(given.get("timeout", "")) or "20s")
        rest = (*_SECRETS, *_FLAGS, ALLOW_SOURCES)
        texts: dict[str, Any] = {name: str(text) for name, text in given.items() if name not in rest and str(text)}
        return cls(
            **texts,
            **{name: Secret(given.get(name, "")) for name in _SECRETS},  # type: ignore[arg-type]
            **{name: read_flag(given, name, False) for name in _FLAGS},  # type: ignore[arg-type]
            allow_sources=sources_text(parse_sources(given.get(ALLOW_SOURCES, ""))),
        )


def _open(location: Location, given: Mapping[str, str]) -> Storage:
    options = AzureOptions.parse(given, location.text)
    with from_extra(_EXTRA, f"A table in Azure storage ({location.text})"):
        from pyhudi_core.storage.object_clients import Account, Provider  # noqa: PLC0415
        from pyhudi_core.storage.object_store import ObjectStorage  # noqa: PLC0415

    values = given_options(options)
    container, _, host = location.bucket.partition("@")
    config = {name: text for name, text in values.items() if name != "connection_string"}
    if options.connection_string:
        config = _joined(config, _connection(str(options.connection_string), location.text), location.text)
    hidden = hidden_by_environment(config, _ORDER, _FIXED, _NAMES, location.text)
    config = {**_connection_of_environment(config, host, location.text), **config}
    name = _account(host, config, location.text)
    endpoint = str(config.get("endpoint_url", "")) or _from_environment(_ENDPOINTS) or _endpoint(name, host)
    config |= {"account_name": name, "endpoint_url": endpoint}
    kept = {
        _CLIENT.get(key, key): text
        for key, text in config.items()
        if key not in ("ca_bundle", "timeout", ALLOW_SOURCES)
    }
    provider = Provider(
        title="Azure storage",
        client="AzureStore",
        place="container",
        versions=False,
        lists_after=False,
        environment="AZURE_",
        rights="Check account_key, sas_token, the client_id with its secret, or the identity, and that it may read and write the blobs.",
        address=f"Check the account's name, {name!r}, the storage option endpoint_url, and the network.",
        hosts=(
            "core.windows.net",
            "core.chinacloudapi.cn",
            "core.usgovcloudapi.net",
            "core.cloudapi.de",
            "fabric.microsoft.com",
        ),
        refused_letter="\\",
    )
    account = Account(
        provider,
        container,
        tuple(sorted(kept.items())),
        endpoint,
        options.ca_bundle,
        seconds_of(options.timeout),
        hidden,
    )
    return ObjectStorage(location.text, location.path, account, values, parse_sources(options.allow_sources))


def _account(host: str, config: Mapping[str, str], location: str) -> str:
    """Return the account of a location: from its host, the options or the environment."""
    named = host.partition(".")[0]
    given = config.get("account_name", "")
    if named and given and named != given:
        raise InvalidOptionError(
            f"The location names the account '{named}', and the storage options name '{given}'",
            table=location,
            hint="Omit account_name, or correct the location.",
        )
    found = named or given or _from_environment(_ACCOUNTS)
    if not found:
        raise InvalidOptionError(
            "The location names no storage account",
            table=location,
            hint="Write abfss://container@account.dfs.core.windows.net/folder, or set the storage option account_name or AZURE_STORAGE_ACCOUNT_NAME.",
        )
    return str(found)


def _endpoint(account: str, host: str) -> str:
    """Return the address of an account in the cloud of its host."""
    rest = host.partition(".")[2].removeprefix("dfs.").removeprefix("blob.") or _PUBLIC
    return f"https://{account}.blob.{rest}"


def _connection(text: str, location: str) -> dict[str, str]:
    """Return the options in a connection string."""
    if not text:
        return {}
    parts = {name: Secret(part) for name, _, part in (each.partition("=") for each in text.split(";"))}
    names = {"AccountName": "account_name", "AccountKey": "account_key", "BlobEndpoint": "endpoint_url"}
    found: dict[str, str] = {own: parts[name] for name, own in names.items() if parts.get(name)}
    if parts.get("SharedAccessSignature"):
        found["sas_token"] = Secret(parts["SharedAccessSignature"].lstrip("?"))
    if "account_name" not in found and "endpoint_url" not in found:
        raise InvalidOptionError(
            "The connection string names no account",
            table=location,
            hint="Copy it as the portal shows it: AccountName=...;AccountKey=...",
        )
    if "endpoint_url" not in found and parts.get("EndpointSuffix"):
        found["endpoint_url"] = f"https://{found['account_name']}.blob.{parts['EndpointSuffix']}"
    return found


def _joined(given: Mapping[str, str], connection: Mapping[str, str], location: str) -> dict[str, str]:
    """Return the storage options with the options of their connection string. Raises `InvalidOptionError` if the two contradict each other."""
    for name in sorted(given.keys() & connection.keys()):
        if str(given[name]) != str(connection[name]):
            raise InvalidOptionError(
                f"The storage options 'connection_string' and '{name}' have two values for {name}",
                table=location,
                hint=f"Omit {name}, or the connection string.",
            )
    return {**connection, **given}


def _connection_of_environment(given: Mapping[str, str], host: str, location: str) -> dict[str, str]:
    """Return the options in the environment's connection string. It is for one account and says who asks, so it is for nobody who says another."""
    if any(given.get(name) for name in (*_ORDER, "client_id", "endpoint_url", "skip_signature")):
        return {}
    found = _connection(os.environ.get(_CONNECTION_STRING, ""), location)
    named = host.partition(".")[0] or given.get("account_name", "")
    return {} if named and found.get("account_name", named) != named else found


def _from_environment(names: tuple[str, ...]) -> str:
    return next((os.environ[name] for name in names if os.environ.get(name)), "")


STORAGE = StorageKind("azure", "Azure", AzureOptions, _open, _EXTRA)
