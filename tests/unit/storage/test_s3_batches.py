"""Many objects of S3 are deleted with few requests, and what a request leaves is known by its path."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any
from xml.sax.saxutils import escape

import boto3
import pytest
from botocore.awsrequest import AWSResponse
from moto import mock_aws
from moto.server import ThreadedMotoServer
from support.emulated_s3 import one_request_at_a_time

from pyhudi_core.errors import DeletesFailedError, UnsafePathError
from pyhudi_core.runtime import RandomIds, SystemClock
from pyhudi_core.storage.s3 import S3Storage
from pyhudi_core.testing.lost_ack_proxy import LostAckProxy

OPTIONS = {"region": "us-east-1", "access_key_id": "AKIDEXAMPLE", "secret_access_key": "secret"}
Answer = Callable[[int], tuple[int, str] | None]
_tables = count()


class NoWaiting(SystemClock):
    """Notes the waits between attempts, and does not wait."""

    def __init__(self) -> None:
        self.waits = 0

    def sleep(self, seconds: float) -> None:
        self.waits += 1


@pytest.fixture(scope="module")
def bucket() -> Iterator[None]:
    with mock_aws(), one_request_at_a_time():
        boto3.client("s3", region_name="us-east-1").create_bucket(Bucket="lake")
        yield


@pytest.fixture
def clock() -> NoWaiting:
    return NoWaiting()


@pytest.fixture
def storage(bucket: None, clock: NoWaiting) -> S3Storage:
    return S3Storage(f"s3://lake/table{next(_tables)}", OPTIONS, clock, RandomIds())


@contextmanager
def requests(
    storage: S3Storage, answer: Answer = lambda number: None, keys: list[int] | None = None
) -> Iterator[list[str]]:
    """The requests that delete, by the name of their kind. ``answer`` replaces the emulator's reply to a DeleteObjects (the emulator
    deletes all the same); None keeps it. ``keys`` takes the number of keys of each.
    """
    seen: list[str] = []
    events: Any = storage._client.meta.events

    def before(request: Any, event_name: str, **unused: object) -> AWSResponse | None:
        kind = event_name.rpartition(".")[2]
        seen.append(kind)
        if keys is not None:
            keys.append((request.body or b"").count(b"<Key>"))
        reply = answer(seen.count("DeleteObjects")) if kind == "DeleteObjects" else None
        if reply is None:
            return None
        status, body = reply
        raw = _Raw(body.encode())
        return AWSResponse(request.url, status, {"content-type": "application/xml"}, raw)

    names = ("before-send.s3.DeleteObjects", "before-send.s3.DeleteObject")
    for name in names:
        events.register_first(name, before)
    try:
        yield seen
    finally:
        for name in names:
            events.unregister(name, before)


class _Raw:
    def __init__(self, body: bytes) -> None:
        self._body = body

    def stream(self, **unused: object) -> Iterator[bytes]:
        yield self._body


def failing(storage: S3Storage, reasons: dict[str, str]) -> str:
    """The body of an answer that deletes all but some."""
    base = storage.location.removeprefix("s3://lake/")
    errors = "".join(
        f"<Error><Key>{escape(f'{base}/{path}')}</Key><Code>{code}</Code><Message>said so</Message></Error>"
        for path, code in reasons.items()
    )
    return f'<DeleteResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">{errors}</DeleteResult>'


def test_2500_objects_are_deleted_with_3_requests(storage: S3Storage) -> None:
    paths = [f"day={n % 7}/{n}.parquet" for n in range(2500)]
    there = paths[::100] + [paths[-1], paths[999], paths[1000]]
    for path in [*there, "kept"]:
        storage.put(path, b"")
    with requests(storage) as seen:
        storage.delete_many(paths)
    assert seen == ["DeleteObjects"] * 3
    assert [info.path for info in storage.list("")] == ["kept"]


@pytest.mark.parametrize(("number", "expected"), [(0, 0), (1, 1), (1000, 1), (1001, 2)])
def test_each_request_takes_a_thousand(storage: S3Storage, number: int, expected: int) -> None:
    with requests(storage) as seen:
        storage.delete_many(f"{n}" for n in range(number))
    assert seen == ["DeleteObjects"] * expected


def test_a_key_that_xml_cannot_hold_gets_a_request_of_its_own(storage: S3Storage) -> None:
    for path in ("a", "b\r", "c\x01", "d & <e>"):
        storage.put(path, b"")
    with requests(storage) as seen:
        storage.delete_many(["a", "b\r", "c\x01", "d & <e>"])
    assert seen == ["DeleteObjects", "DeleteObject", "DeleteObject"]
    assert storage.list("") == []


def test_what_s3_refuses_is_reported_by_path_and_the_rest_is_gone(storage: S3Storage, clock: NoWaiting) -> None:
    reply = failing(storage, {"x & y": "AccessDenied", "never": "NoSuchKey"})
    with requests(storage, lambda number: (200, reply)) as seen, pytest.raises(DeletesFailedError) as caught:
        storage.delete_many(["a", "x & y", "never"])
    assert caught.value.failed == {"x & y": "S3 refused: AccessDenied said so"}
    assert (caught.value.path, caught.value.table) == ("x & y", storage.location)
    assert "1 of 3 objects" in str(caught.value)
    assert (seen, clock.waits) == (["DeleteObjects"], 0)


def test_what_s3_could_not_do_just_now_is_sent_again_alone(storage: S3Storage, clock: NoWaiting) -> None:
    for path in ("a", "b", "c"):
        storage.put(path, b"")
    busy = failing(storage, {"b": "SlowDown", "c": "InternalError"})
    later = failing(storage, {"c": "InternalError"})

    def answer(number: int) -> tuple[int, str] | None:
        return {1: (200, busy), 2: (200, later)}.get(number)

    keys: list[int] = []
    with requests(storage, answer, keys) as seen:
        storage.delete_many(["a", "b", "c"])
    assert (seen, clock.waits, keys) == (["DeleteObjects"] * 3, 2, [3, 2, 1])
    assert storage.list("") == []


def test_a_store_that_stays_busy_is_given_up_with_its_reason(storage: S3Storage, clock: NoWaiting) -> None:
    busy = failing(storage, {"a": "SlowDown"})
    with requests(storage, lambda number: (200, busy)) as seen, pytest.raises(DeletesFailedError, match="SlowDown"):
        storage.delete_many(["a"])
    assert (len(seen), clock.waits) == (8, 7)


@pytest.mark.parametrize(
    ("status", "code"), [(501, "NotImplemented"), (405, "MethodNotAllowed"), (400, "MissingContentMD5")]
)
def test_a_store_without_the_request_gets_one_for_each_object(storage: S3Storage, status: int, code: str) -> None:
    for path in ("a", "b", "c"):
        storage.put(path, b"")
    body = f"<Error><Code>{code}</Code><Message>what is that?</Message></Error>"
    with requests(storage, lambda number: (status, body)) as seen:
        storage.delete_many(["a", "b"])
    assert seen.count("DeleteObject") == 2
    assert [info.path for info in storage.list("")] == ["c"]


def test_a_request_that_fails_as_a_whole_leaves_its_objects_and_the_later_ones(storage: S3Storage) -> None:
    body = "<Error><Code>AccessDenied</Code><Message>no</Message></Error>"

    def answer(number: int) -> tuple[int, str] | None:
        return (403, body) if number == 2 else None

    with requests(storage, answer) as seen, pytest.raises(DeletesFailedError, match="AccessDenied") as caught:
        storage.delete_many([f"{n}" for n in range(2500)])
    assert list(caught.value.failed) == [f"{n}" for n in range(1000, 2500)]
    assert seen == ["DeleteObjects"] * 2


def test_an_unsafe_path_deletes_nothing(storage: S3Storage) -> None:
    with requests(storage) as seen, pytest.raises(UnsafePathError):
        storage.delete_many(["a", "../b"])
    assert seen == []


def test_a_lost_answer_of_a_batch_is_sent_again_over_real_sockets() -> None:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        with LostAckProxy(f"http://{host}:{port}") as proxy:
            options = {**OPTIONS, "endpoint_url": proxy.url}
            storage = S3Storage("s3://lake/orders", options, NoWaiting(), RandomIds())
            storage._client.create_bucket(Bucket="lake")
            for n in range(20):
                storage.put(f"{n}", b"")
            proxy.clear()
            proxy.plan("lost_ack", "POST", "/lake")
            storage.delete_many(f"{n}" for n in range(2500))
            posts = [path for method, path in proxy.seen if method == "POST"]
            assert len(posts) == 4, "three batches, and one whose answer got lost"
            assert storage.list("") == []
    finally:
        server.stop()
