"""Storage in S3 keeps the promises of every storage, and its options and secrets are handled with care."""

from __future__ import annotations

import pickle
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import count
from typing import Any

import boto3
import pytest
from botocore.awsrequest import AWSRequest
from botocore.exceptions import ClientError
from moto import mock_aws
from moto.s3.models import S3Backend
from support.emulated_s3 import one_request_at_a_time

from pyhudi_core.errors import (
    InvalidOptionError,
    ObjectNotFoundError,
    PreconditionFailedError,
    StorageError,
    UnknownOptionError,
)
from pyhudi_core.storage import open_storage, s3_client, s3_files, storage_from_spec
from pyhudi_core.storage.s3 import S3Storage
from pyhudi_core.testing.storage_kit import StorageKit

OPTIONS = {
    "region": "us-east-1",
    "access_key_id": "AKIDEXAMPLE",
    "secret_access_key": "very-secret",
    "session_token": "token-secret",
}

_teams = count()


@pytest.fixture(scope="module")
def bucket() -> Iterator[None]:
    with mock_aws(), one_request_at_a_time():
        boto3.client("s3", region_name="us-east-1").create_bucket(Bucket="lake")
        yield


@pytest.fixture
def storage(bucket: None) -> S3Storage:
    return S3Storage(f"s3://lake/{next(_teams)}/orders", OPTIONS)


class TestS3Storage(StorageKit):
    pass


@pytest.mark.parametrize(("size", "asks_first"), [(0, False), (1 << 20, False), ((1 << 20) + 1, True)])
def test_a_small_object_is_sent_without_asking_first_which_would_cost_a_second_wait_for_the_network(
    size: int, asks_first: bool, storage: S3Storage
) -> None:
    sent: list[bool] = []
    for client in (storage._clients.first, storage._clients.ordinary):
        client.meta.events.register(
            "before-send.s3.PutObject", lambda request, **_: sent.append("Expect" in request.headers)
        )
    data = b"x" * size
    storage.put("put", data)
    seen = storage.put_if_absent("absent", data)
    storage.put_if_match("absent", data + b"y", seen.etag)
    output = storage.open_output("file")
    output.stream.write(data)
    output.close()
    assert sent[:2] == [asks_first] * 2
    assert len(sent) == 4
    assert storage.get("put") == storage.get("file") == data


def test_the_prefix_keeps_neighbours_apart(storage: S3Storage) -> None:
    storage.put("a", b"x")
    S3Storage(storage.location + "2", OPTIONS).put("b", b"y")
    assert [o.path for o in storage.list("")] == ["a"]
    assert S3Storage("s3a://lake", OPTIONS).get(storage.location.removeprefix("s3://lake/") + "/a") == b"x"


def test_folder_marks_of_other_tools_are_no_objects(storage: S3Storage) -> None:
    client = boto3.client("s3", region_name="us-east-1")
    client.put_object(Bucket="lake", Key=storage.location.removeprefix("s3://lake/") + "/day=1/", Body=b"")
    assert storage.list("") == []
    assert storage.list_folder("").folders == ("day=1",)
    assert storage.list_folder("day=1").objects == ()


def test_a_large_file_goes_up_in_parts(storage: S3Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3_files, "PART_SIZE", 5 << 20)
    data = bytes(range(256)) * (52 << 10)
    output = storage.open_output("big")
    for start in range(0, len(data), 1 << 20):
        output.stream.write(data[start : start + (1 << 20)])
    assert storage.head("big") is None
    info = output.close()
    assert (info.size, info.etag.partition("-")[2]) == (len(data), "3")
    assert storage.get("big") == data
    with storage.open_input("big") as file:
        assert file.read_at(10, 11 << 20) == data[11 << 20 :][:10]


def test_an_aborted_upload_leaves_no_parts(storage: S3Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3_files, "PART_SIZE", 5 << 20)
    output = storage.open_output("big")
    output.stream.write(b"x" * (11 << 20))
    client = boto3.client("s3", region_name="us-east-1")
    assert len(client.list_multipart_uploads(Bucket="lake")["Uploads"]) == 1
    output.abort()
    assert "Uploads" not in client.list_multipart_uploads(Bucket="lake")


def test_a_reader_never_mixes_two_objects(storage: S3Storage) -> None:
    storage.put("a", b"x" * 3_000_000)
    file = storage.open_input("a")
    assert file.read(10) == b"x" * 10
    storage.put("a", b"y" * 3_000_000)
    with pytest.raises(StorageError):
        file.read_at(10, 2_500_000)


def test_a_missing_bucket_is_an_error_and_no_lost_race(bucket: None) -> None:
    storage = S3Storage("s3://nowhere/orders", OPTIONS)
    for write in (storage.put, storage.put_if_absent):
        with pytest.raises(StorageError, match="NoSuchBucket") as caught:
            write("a", b"")
        assert type(caught.value) is StorageError
    with pytest.raises(StorageError, match="NoSuchBucket"):
        storage.list("")
    with pytest.raises(StorageError):
        storage.get("a")


def test_a_missing_object_says_where(storage: S3Storage) -> None:
    with pytest.raises(ObjectNotFoundError, match=f"{storage.location}, file a"):
        storage.get("a")


def test_secrets_show_nowhere_but_travel(storage: S3Storage) -> None:
    spec = storage.spec()
    for shown in (repr(spec), repr(storage), repr(storage._options), str(storage.spec().options)):
        assert "very-secret" not in shown
        assert "token-secret" not in shown
    storage.put("a", b"x")
    again = pickle.loads(pickle.dumps(spec))
    assert again.options["secret_access_key"] == "very-secret"
    assert "very-secret" not in repr(again)
    assert storage_from_spec(again).get("a") == b"x"


def test_unknown_and_half_given_options_are_refused() -> None:
    with pytest.raises(UnknownOptionError, match="regoin"):
        open_storage("s3://lake/x", {"regoin": "us-east-1"})
    for endpoint in ("localhost:9000", "ftp://h", "http://", "http://[", "http://u:s3cr3t@h:9000"):
        with pytest.raises(InvalidOptionError, match="not the address of a store") as refused:
            open_storage("s3://lake/x", {"endpoint_url": endpoint})
        assert "s3cr3t" not in str(refused.value)
    with pytest.raises(InvalidOptionError, match="only one"):
        open_storage("s3://lake/x", {"access_key_id": "a"})


def test_missing_credentials_are_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
    with pytest.raises(StorageError, match="No credentials"):
        S3Storage("s3://lake/x", {"region": "us-east-1"}).get("a")


@pytest.mark.parametrize("verb", ["put_if_match", "delete_if_match"])
def test_of_several_swaps_at_one_moment_the_emulator_lets_one_win(
    storage: S3Storage, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    """Else tests that run several writers beside each other would see what no object store does."""
    look = S3Backend.get_object

    def slow(*arguments: Any, **named: Any) -> Any:
        found = look(*arguments, **named)
        time.sleep(0.05)
        return found

    tag = storage.put("record", b"0").etag
    monkeypatch.setattr(S3Backend, "get_object", slow)
    won: list[int] = []

    def swap(number: int) -> None:
        with suppress(PreconditionFailedError):
            getattr(storage, verb)(*(("record", b"%d" % number, tag) if verb == "put_if_match" else ("record", tag)))
            won.append(number)

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(swap, range(1, 5)))
    assert len(won) == 1


@pytest.mark.parametrize(
    ("status", "may"), [(0, True), (404, False), (412, False), (499, False), (500, True), (503, True)]
)
def test_a_request_may_have_happened_if_the_server_does_not_know_its_end(status: int, may: bool) -> None:
    error = ClientError({"Error": {"Code": "x"}, "ResponseMetadata": {"HTTPStatusCode": status}}, "PutObject")
    assert s3_client.may_have_happened(error) == may
    assert s3_client.may_have_happened(ConnectionResetError())
    assert not s3_client.may_have_happened(ValueError())


@pytest.mark.parametrize(
    ("size", "asks"), [(0, False), (1, False), (s3_client._ASK_ABOVE, False), (s3_client._ASK_ABOVE + 1, True)]
)
@pytest.mark.parametrize("wrapped", [False, True])
def test_only_before_a_large_object_the_server_is_asked_whether_it_takes_it(
    size: int, asks: bool, wrapped: bool
) -> None:
    request = AWSRequest("PUT", "http://x/y", {"Expect": "100-continue"}, b"" if wrapped else bytes(size))
    if wrapped:
        request.headers["X-Amz-Decoded-Content-Length"] = str(size)
    s3_client._send_at_once(request)
    assert ("Expect" in request.headers) == asks
