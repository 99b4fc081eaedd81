"""The catalogs of tests as fixtures."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from moto import mock_aws
from support.catalog_places import HIVE, Place
from support.thrift_metastore import Metastore, serving


@pytest.fixture
def hms() -> Iterator[Place]:
    metastore = Metastore()
    with serving(metastore) as port:
        yield Place({f"{HIVE}metastore.uris": f"thrift://127.0.0.1:{port}", f"{HIVE}database": "lake"}, metastore)


@pytest.fixture
def glue(monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    for name, text in (("ACCESS_KEY_ID", "test"), ("SECRET_ACCESS_KEY", "test"), ("DEFAULT_REGION", "eu-west-1")):
        monkeypatch.setenv(f"AWS_{name}", text)
    with mock_aws():
        yield Place({f"{HIVE}mode": "glue", f"{HIVE}database": "lake"})


@pytest.fixture(params=["hms", "glue"])
def place(request: pytest.FixtureRequest) -> Place:
    found: Place = request.getfixturevalue(request.param)
    return found
