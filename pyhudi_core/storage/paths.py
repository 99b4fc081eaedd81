"""Check object paths, and parse locations.

Every adapter checks each path here before it calls the disk or the network, so a path in a table's own metadata can never lead out of the table's
folder.
"""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pyhudi_core.errors import ConfigError, InvalidOptionError, UnsafePathError
from pyhudi_core.model.masking import masked, masked_text
from pyhudi_core.model.safe_path import way_out

Place = str | os.PathLike[str]
"""A location as users give it."""

Scheme = Literal["file", "memory", "s3", "gs", "azure"]

LAKE_DEPTH = 6
"""The number of folder levels that are searched for tables of a lake, and the maximum number of levels in a table's name."""
ALLOW_SOURCES = "allow_sources"
"""The storage option with the folders outside a table that its readers may open (``storage/sources.py``): one line of CSV."""

_SCHEMES: dict[str, Scheme] = {
    "file": "file",
    "memory": "memory",
    "s3": "s3",
    "s3a": "s3",
    "gs": "gs",
    "gcs": "gs",
    **dict.fromkeys(("abfs", "abfss", "adl", "az", "azure", "wasb", "wasbs"), "azure"),
}
_STORES = {
    **dict.fromkeys(("hdfs", "viewfs", "webhdfs"), "HDFS"),
    **dict.fromkeys(("http", "https", "ftp"), "A web or FTP server"),
}
_SPEAK_S3 = ("s3n", "arn", "minio", "oss", "r2", "cos", "cosn", "obs", "ks3")
"""Other beginnings of locations in S3, and in stores that also speak S3."""
_CATALOGS = ("thrift", "glue")
_CLOUDS: dict[str, str] = {
    "s3": "s3://bucket/prefix",
    "gs": "gs://bucket/prefix",
    "azure": "abfss://container@account.dfs.core.windows.net/folder",
}
_KEYS = {"s3": " (access_key_id, secret_access_key), or let boto3 find them"}
_HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]*(?:\.[A-Za-z0-9-]+)+")
_AZURE_ADDRESS = re.compile(
    r"^https://([a-z0-9-]{3,})\.(?:dfs|blob)\.([a-z0-9.-]+\.[a-z]+)/([^/@:?#]+)(/[^?#]*)?$", re.IGNORECASE
)
"""An address of Azure as the portal shows it."""
_CONTAINER = re.compile(r"[^.]+|[^@]+@.+")
"""A container, and perhaps its account: no container has a dot in its name."""
_WEB = re.compile(
    r"^https://(?:(?:[a-z0-9.-]+\.)?s3[.-][a-z0-9.-]*amazonaws\.com|storage\.(?:googleapis|cloud\.google)\.com|[a-z0-9-]+\.(?:dfs|blob)\.[a-z0-9.-]+)/",
    re.IGNORECASE,
)
"""An address of an object in a browser."""
_NO_NAME = re.compile("[\\0\\ud800-\\udc7f\\udd00-\\udfff]")
"""Characters that no file name contains. The other surrogates stand for bytes that are not UTF-8."""
_SCHEME = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]+):")


@dataclass(frozen=True, slots=True)
class Location:
    """A parsed location.

    Attributes:
        scheme: the kind of storage.
        bucket: the bucket (S3, Google), the container and, if the location has one, ``@`` and its host (Azure), or the name (memory); empty for
            disks.
        path: the absolute folder (disks), or the key prefix without slashes at its ends.
        text: the location as shown to users, without a trailing slash.
    """

    scheme: Scheme
    bucket: str
    path: str
    text: str

    @property
    def canonical(self) -> str:
        """The location with one spelling of its scheme, and without the host of an account."""
        return (
            self.path
            if self.scheme == "file"
            else f"{self.scheme}://{self.bucket.partition('@')[0]}/{self.path}".rstrip("/")
        )

    @property
    def host(self) -> str:
        """Return the host of an Azure account, if the location names it."""
        return self.bucket.partition("@")[2].lower()

    def may_be(self, other: Location) -> bool:
        """Return whether two locations can mean one folder: they are spellings of one location, and do not name two accounts."""
        return self.canonical == other.canonical and (not self.host or not other.host or self.host == other.host)

    def in_store_of(self, other: Location) -> str:
        """Return the location of a folder with this path and container. If the other location names an account, the result names the same account."""
        if self.scheme != "azure" or self.host == other.host:
            return self.text
        account = f"@{other.host}" if other.host else ""
        return f"azure://{self.bucket.partition('@')[0]}{account}/{self.path}"


def is_catalog_address(location: object) -> bool:
    """Return whether a text is the address of a table or a database in a catalog (``catalog/addresses.py``), and not a folder."""
    return isinstance(location, str) and location.lower().startswith(tuple(f"{one}://" for one in _CATALOGS))


def parse_location(location: Place) -> Location:
    """Parse a location: a plain path, as text or as a ``pathlib.Path``, ``file:``, ``memory:``, ``s3:`` or ``s3a:``, ``gs:``; for Azure
    ``abfss://container@account.dfs.core.windows.net/folder``, ``az://container/folder`` and their other spellings.

    Raises:
        ConfigError: the scheme is unknown, or a part is missing.
        UnsafePathError: the key prefix contains ``..`` or another unsafe part.
    """
    if isinstance(location, os.PathLike):
        location = os.fspath(location)
    if not isinstance(location, str):
        raise ConfigError(
            f"The location is a {type(location).__name__}, not a path",
            hint="Give a folder as text or Path, or an s3:// location.",
        )
    if not location or _NO_NAME.search(location):
        raise ConfigError(
            "The location is empty, or contains a NUL or an incomplete character",
            hint="Give a folder or an s3:// location.",
        )
    if location.startswith("~"):
        raise ConfigError(
            f"The location '{location}' begins with '~', which is not replaced by the home folder",
            hint=f"Write the full path, or ./{location} if the folder has this name.",
        )
    if location != location.strip() and _SCHEME.match(location.strip()):
        raise ConfigError(
            f"The location {masked_text(location)!r} begins or ends with a blank",
            hint="Remove it; perhaps it is from a file or a variable with a line break.",
        )
    address = _AZURE_ADDRESS.match(location)
    if address is not None:
        account, cloud, container, key = address.groups()
        location = f"abfss://{container}@{account}.dfs.{cloud}{key or ''}"
    found = _SCHEME.match(location)
    if found is None:
        folder = os.path.abspath(location)
        return Location("file", "", folder, folder)
    scheme = _SCHEMES.get(found.group(1).lower())
    rest = location[found.end() :]
    location = masked_text(location)  # from here on the text is only shown in messages, and it may contain a password
    if scheme is None:
        raise ConfigError(
            f"The location '{location}' has the unknown scheme '{found.group(1)}'",
            hint=_elsewhere(location, found.group(1), rest),
        )
    return (
        _file_location(location, rest) if scheme == "file" else _bucket_location(location, scheme, found.group(1), rest)
    )


def _elsewhere(location: str, scheme: str, rest: str) -> str:
    if is_catalog_address(f"{scheme}:{rest}"):
        return "hudi.open_table, hudi.lake and pyhudi tables take an address in a catalog. Here give the folder: open_table(address).location."
    known = f"Known schemes: {', '.join(sorted(_SCHEMES))}."
    if scheme.lower() in _SPEAK_S3:
        return f"Write {_CLOUDS['s3']}; the address of another store than Amazon's is the storage option endpoint_url."
    if _WEB.match(location):
        cloud = "gs" if ".google" in location.lower() else "s3" if "amazonaws.com" in location.lower() else "azure"
        return f"Write {_CLOUDS[cloud]}; keys and signatures are storage options."
    if not rest.startswith("//"):
        return f"{known} Write ./{location} for a relative path with a colon."
    store = _STORES.get(scheme.lower(), "Such a storage")
    return f"{known} {store} is not supported: keep the table on a disk, in S3 or a store that speaks it, in Google Cloud Storage or in Azure."


def _file_location(location: str, rest: str) -> Location:
    if rest.startswith("//"):
        host, slash, path = rest[2:].partition("/")
        if host not in ("", "localhost") or not slash:
            raise ConfigError(f"The location '{location}' names a host", hint="Write file:/folder or a plain path.")
        rest = slash + path
    if not rest.startswith("/"):
        raise ConfigError(f"The location '{location}' is not absolute", hint="Write file:/folder or a plain path.")
    folder = os.path.normpath("/" + rest.lstrip("/"))
    return Location("file", "", folder, folder)


def _bucket_location(location: str, scheme: Scheme, written: str, rest: str) -> Location:
    if scheme in _CLOUDS and not rest.startswith("//"):
        raise ConfigError(f"The location '{location}' has no bucket", hint=f"Write {_CLOUDS[scheme]}.")
    bucket, _, key = (rest.lstrip("/") if scheme == "memory" else rest.removeprefix("//")).partition("/")
    key = key.strip("/")
    if not bucket:
        raise ConfigError(
            f"The location '{location}' has no bucket", hint=f"Write {_CLOUDS.get(scheme, 'memory://name')}."
        )
    container, at, host = bucket.rpartition("@")
    if at and (scheme != "azure" or not container or ":" in container or not _HOST.fullmatch(host)):
        raise ConfigError(
            f"The location '{location}' contains credentials, which would appear in messages and logs"
            if scheme != "azure" or ":" in container
            else f"The location '{location}' has no container or no host of an account",
            hint=f"Give them as storage options{_KEYS.get(scheme, '')}."
            if scheme != "azure"
            else f"Write {_CLOUDS[scheme]}.",
        )
    if scheme == "azure" and not _CONTAINER.fullmatch(bucket):
        raise ConfigError(f"The location '{location}' has no container", hint=f"Write {_CLOUDS[scheme]}.")
    if "?" in key and masked(key.encode(), options=False) != key.encode():
        raise ConfigError(
            f"The location '{location}' contains credentials, which would appear in messages and logs",
            hint=f"Give them as storage options{_KEYS.get(scheme, '')}.",
        )
    if key:
        check_path(key, location)
    shown = f"{written}://{bucket}/{key}" if key else f"{written}://{bucket}"
    return Location(scheme, bucket.replace(".dfs.", ".blob.") if at else bucket, key, shown)


def parse_sources(given: object) -> tuple[str, ...]:
    """Return the folders of the option ``allow_sources``, each as its full location. Raises `ConfigError` for a location that is not valid."""
    if not isinstance(given, str):
        raise InvalidOptionError(
            f"The storage option '{ALLOW_SOURCES}' is a {type(given).__name__}",
            hint="Give folders as text, separated by commas; in quotes if they have commas.",
        )
    folders = next(csv.reader([given]), [])
    return tuple(parse_location(folder.strip()).text for folder in folders if folder.strip())


def sources_text(folders: Iterable[str]) -> str:
    """Return the value of the option ``allow_sources`` for these folders; empty for none."""
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(folder for folder in folders if folder)
    return line.getvalue()


def allowing(options: Mapping[str, str] | None, sources: Place | Sequence[Place]) -> Mapping[str, str]:
    """Return storage options that also allow these folders."""
    if not sources:
        return options or {}
    given = dict(options or {})
    more = [sources] if isinstance(sources, str | os.PathLike) else sources
    folders = [*parse_sources(given.get(ALLOW_SOURCES, "")), *(os.fspath(folder) for folder in more)]
    return {**given, ALLOW_SOURCES: sources_text(folders)}


def name_in_lake(name: object) -> str:
    """Return a name without slashes around it. Raises `InvalidOptionError` if it cannot name a table of a lake."""
    text = name.strip("/") if isinstance(name, str) else ""
    problem = ""
    if not isinstance(name, str) or not text:
        problem = "is no name"
    elif "://" in name or name.startswith(("/", "~")):
        problem = "is a location"
    elif way_out(text):
        problem = str(way_out(text))
    elif any(part.startswith(".") for part in text.split("/")):
        problem = "has a part that begins with '.', where nobody looks for tables"
    elif text.count("/") >= LAKE_DEPTH:
        problem = f"has more than {LAKE_DEPTH} parts, where nobody looks for tables"
    if problem:
        raise InvalidOptionError(
            f"{name!r} names no table of a lake: it {problem}",
            hint="Give the folder of the table below the lake, such as 'sales/orders'; open_table takes locations.",
        )
    return text


def options_in_lake(options: Mapping[str, str] | None, lake: str, name: str) -> Mapping[str, str]:
    """Return the storage options of a table of a lake, by its name, such as ``sales/orders``.

    The caller named the lake, so the table may take part in transactions with all tables there, also with those above its parent folder.
    """
    return allowing(options, lake) if "/" in name and not is_catalog_address(lake) else options or {}


def check_path(path: str, table: str) -> str:
    """Return an object's path if it is safe (`way_out`) and not empty.

    Raises:
        UnsafePathError: the path is not safe.
    """
    if not path or way_out(path):
        raise _unsafe(path, table)
    return path


def check_prefix(prefix: str, table: str) -> str:
    """Return a listing's prefix if it is safe; it may be empty, end with a slash, or end inside a name."""
    if way_out(prefix.removesuffix("/")) or prefix == "/":
        raise _unsafe(prefix, table)
    return prefix


def check_folder(folder: str, table: str) -> str:
    """Return a folder's path if it is safe; ``""`` is the root."""
    return folder if folder == "" else check_path(folder, table)


def _unsafe(path: str, table: str) -> UnsafePathError:
    shown = path if len(path) <= 200 else path[:200] + "..."
    return UnsafePathError(
        f"The path {shown!r} {way_out(path) or 'names nothing'}",
        table=table,
        path=path[:200],
        hint="Nothing was read or written. If the path is from a file of the table, this file is damaged or hostile.",
    )
