"""The commit protocol on a real gateway, with every possible response to a conditional write: the cases that the quick suite runs on moto.

One case is left out: this gateway calls the deletion of a missing object a success, with a condition as without one, so
`test_put_404_on_if_match_is_loss` does not hold there. Nothing in the commit protocol depends on it.
"""

from __future__ import annotations

from collections.abc import Iterator
from inspect import signature

import boto3
import pytest
from reliability import test_conditional_writes as conditional
from reliability import test_lost_answers as lost
from reliability.storages import CREDENTIALS, EchoingProxy, S3Place

from locks.servers import gateway, scratch

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def s3_proxy() -> Iterator[EchoingProxy]:
    """The gateway behind a proxy that can lose responses."""
    key, secret = CREDENTIALS["access_key_id"], CREDENTIALS["secret_access_key"]
    with scratch() as folder, gateway(folder, key, secret).running() as server:
        url = f"http://127.0.0.1:{server.port}"
        client = boto3.client(
            "s3", endpoint_url=url, region_name="us-east-1", aws_access_key_id=key, aws_secret_access_key=secret
        )
        client.create_bucket(Bucket="lake")
        with EchoingProxy(url) as proxy:
            yield proxy


@pytest.fixture(params=["gateway"])
def place(s3_proxy: EchoingProxy) -> S3Place:
    return S3Place(s3_proxy)


@pytest.fixture
def bucket(s3_proxy: EchoingProxy) -> S3Place:
    return S3Place(s3_proxy)


_NOT_HERE = "test_put_404_on_if_match_is_loss"

for _module in (conditional, lost):
    for _name, _case in vars(_module).items():
        # Cases without a store to talk to run in the simulated world, which is the same everywhere.
        if _name.startswith("test_") and _name != _NOT_HERE and {"place", "bucket"} & {*signature(_case).parameters}:
            globals()[_name] = _case
