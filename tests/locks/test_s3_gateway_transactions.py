"""The commit protocol on a real gateway, with every possible response to a conditional write: the cases that the quick suite runs on moto.

One case is left out: this gateway calls the deletion of a missing object a success, with a condition as without one, so
`test_put_404_on_if_match_is_loss` does not hold there. Nothing in the commit protocol depends on it.
"""

from __future__ import annotations

from collections.abc import Iterator

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


test_put_412_first_try_is_loss = conditional.test_put_412_first_try_is_loss
test_a_decision_that_lost_is_taken_again_from_the_state_of_the_winner = (
    conditional.test_a_decision_that_lost_is_taken_again_from_the_state_of_the_winner
)
test_put_409_retries_and_does_not_count_as_conflict = conditional.test_put_409_retries_and_does_not_count_as_conflict
test_a_record_that_somebody_removed_costs_a_decision_and_no_commit = (
    conditional.test_a_record_that_somebody_removed_costs_a_decision_and_no_commit
)
test_etag_aba_same_payload = conditional.test_etag_aba_same_payload
test_sdk_retry_is_disabled = conditional.test_sdk_retry_is_disabled
test_multipart_completed_conditionally = conditional.test_multipart_completed_conditionally
test_the_store_itself_completes_parts_only_once = conditional.test_the_store_itself_completes_parts_only_once
test_put_412_after_success_completed_instant_reads_back = lost.test_put_412_after_success_completed_instant_reads_back
test_put_412_after_success_decision_reads_back = lost.test_put_412_after_success_decision_reads_back
test_put_412_after_success_requested_instant = lost.test_put_412_after_success_requested_instant
test_put_412_after_success_lock_trylock = lost.test_put_412_after_success_lock_trylock
test_put_412_after_success_lock_renew = lost.test_put_412_after_success_lock_renew
test_put_412_after_success_lock_unlock = lost.test_put_412_after_success_lock_unlock
test_timeout_after_success_everywhere_at_once = lost.test_timeout_after_success_everywhere_at_once
