"""Locations are understood or refused, and no path leads out of the root."""

from __future__ import annotations

import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.samples import examples

from pyhudi_core.errors import ConfigError, InvalidOptionError, UnknownOptionError, UnsafePathError
from pyhudi_core.storage import LocalStorage, open_storage
from pyhudi_core.storage.paths import Location, check_path, check_prefix, parse_location


@pytest.mark.parametrize(
    ("location", "expected"),
    [
        ("/lake/orders/", Location("file", "", "/lake/orders", "/lake/orders")),
        ("file:/lake/orders", Location("file", "", "/lake/orders", "/lake/orders")),
        ("file:///lake/orders/", Location("file", "", "/lake/orders", "/lake/orders")),
        ("file://localhost/lake", Location("file", "", "/lake", "/lake")),
        ("/lake/a:b", Location("file", "", "/lake/a:b", "/lake/a:b")),
        ("s3://lake/a/orders/", Location("s3", "lake", "a/orders", "s3://lake/a/orders")),
        ("s3a://lake", Location("s3", "lake", "", "s3a://lake")),
        ("S3://lake/x", Location("s3", "lake", "x", "S3://lake/x")),
        ("gs://lake/a/orders/", Location("gs", "lake", "a/orders", "gs://lake/a/orders")),
        ("gcs://lake", Location("gs", "lake", "", "gcs://lake")),
        ("az://c/t", Location("azure", "c", "t", "az://c/t")),
        *(
            (
                f"{scheme}://c@acc.{host}.core.windows.net/t/",
                Location("azure", "c@acc.blob.core.windows.net", "t", f"{scheme}://c@acc.{host}.core.windows.net/t"),
            )
            for scheme, host in (
                ("abfss", "dfs"),
                ("abfs", "dfs"),
                ("wasbs", "blob"),
                ("wasb", "blob"),
                ("abfss", "blob"),
            )
        ),
        *(
            (
                f"https://acc.{host}.core.windows.net/c/t/x",
                Location("azure", "c@acc.blob.core.windows.net", "t/x", "abfss://c@acc.dfs.core.windows.net/t/x"),
            )
            for host in ("dfs", "blob")
        ),
        (
            "abfss://w@onelake.dfs.fabric.microsoft.com/l.Lakehouse/Tables/t",
            Location(
                "azure",
                "w@onelake.blob.fabric.microsoft.com",
                "l.Lakehouse/Tables/t",
                "abfss://w@onelake.dfs.fabric.microsoft.com/l.Lakehouse/Tables/t",
            ),
        ),
        ("memory://x", Location("memory", "x", "", "memory://x")),
        ("memory:x/y", Location("memory", "x", "y", "memory://x/y")),
    ],
)
def test_a_location_is_taken_apart(location: str, expected: Location) -> None:
    assert parse_location(location) == expected


def test_a_relative_folder_is_made_absolute() -> None:
    assert parse_location("lake").path == os.path.join(os.getcwd(), "lake")


@pytest.mark.parametrize(
    "location",
    [
        "",
        "a\0b",
        "gs:lake/x",
        "gs://u:p@lake/x",
        "abfss://c@acc/x",
        "abfss://@acc.dfs.core.windows.net/x",
        "az://u:p@acc.dfs.core.windows.net/x",
        "https://acc.example.com/c/x",
        "hdfs:/x",
        "foo:bar",
        "file:x",
        "file://host/x",
        "s3:/x",
        "s3://",
        "s3:///orders",
        "gs:////lake/orders",
        "az:///orders",
        " s3://lake/orders",
        "s3://lake/orders\n",
        "abfss://acc.dfs.core.windows.net/c/x",
        "memory://",
    ],
)
def test_a_location_that_cannot_be_understood_is_refused(location: str) -> None:
    with pytest.raises(ConfigError):
        parse_location(location)


@pytest.mark.parametrize("location", ["s3://lake/../x", "memory://a/../b", "s3://lake/a//b"])
def test_a_prefix_that_leads_elsewhere_is_refused(location: str) -> None:
    with pytest.raises(UnsafePathError):
        parse_location(location)


def test_unknown_storage_options_are_refused(tmp_path: os.PathLike[str]) -> None:
    with pytest.raises(UnknownOptionError, match="fsnyc"):
        open_storage(str(tmp_path), {"fsnyc": "false"})
    with pytest.raises(UnknownOptionError):
        open_storage("memory://x", {"fsync": "false"})
    with pytest.raises(InvalidOptionError):
        open_storage(str(tmp_path), {"fsync": "perhaps"})


@given(st.text(alphabet=st.sampled_from(list("./ab\\\0%:~\u00e9 ")), max_size=12) | st.text(max_size=30))
@settings(max_examples=examples(500), deadline=None)
def test_every_accepted_path_stays_below_the_root(path: str) -> None:
    for check in (check_path, check_prefix):
        try:
            check(path, "/lake/orders")
        except UnsafePathError:
            continue
        joined = os.path.normpath(os.path.join("/lake/orders", path))
        assert joined == "/lake/orders" or joined.startswith("/lake/orders/")
        assert "\0" not in path


def test_the_root_of_the_disk_works_as_a_root() -> None:
    assert LocalStorage("/").head("proc/version") is not None
