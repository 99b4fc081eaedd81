"""The storages on which conditional writes are tested: simulated ones, and S3 over real sockets."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from reliability.storages import KINDS, EchoingProxy, Place, S3Place, place_of, s3_behind_a_proxy


@pytest.fixture(scope="module")
def s3_proxy() -> Iterator[EchoingProxy]:
    """S3 behind a proxy that can lose responses."""
    with s3_behind_a_proxy() as proxy:
        yield proxy


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest) -> Place:
    """Each kind of storage in turn."""
    return place_of(request.param, request)


@pytest.fixture
def bucket(s3_proxy: EchoingProxy) -> S3Place:
    """S3 with the real client library."""
    return S3Place(s3_proxy)
