"""A lost answer never makes a first success look like a lost race, over real sockets and the real client library."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from email.utils import formatdate
from itertools import count
from types import SimpleNamespace
from typing import Any

import boto3
import pyarrow as pa
import pytest
from botocore.exceptions import ClientError
from moto.server import ThreadedMotoServer

import pyhudi_core as hudi
from pyhudi_core.errors import PreconditionFailedError, StorageError, StorageStateUnknownError
from pyhudi_core.lock.file_system import FileSystemLockProvider
from pyhudi_core.runtime import RandomIds, SystemClock
from pyhudi_core.storage import s3_files, settling
from pyhudi_core.storage.s3 import S3Storage
from pyhudi_core.storage.s3_client import asked_wait
from pyhudi_core.storage.settling import ATTEMPTS, BUSY_FOR_S, Busy, BusyTime, RequestEnd, Settler
from pyhudi_core.testing.lost_ack_proxy import LostAckProxy

CREDENTIALS = {"access_key_id": "AKIDEXAMPLE", "secret_access_key": "secret"}
_tables = count()


class NoWaiting(SystemClock):
    """Waits between attempts cost no time here, and are counted."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def monotonic(self) -> float:
        return sum(self.seconds)

    def sleep(self, seconds: float) -> None:
        self.seconds.append(seconds)


@pytest.fixture(scope="module")
def store() -> Iterator[str]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    _, port = server.get_host_and_port()
    url = f"http://127.0.0.1:{port}"
    storage_client(url).create_bucket(Bucket="lake")
    yield url
    server.stop()


def storage_client(url: str) -> Any:
    return boto3.client(
        "s3", endpoint_url=url, region_name="us-east-1", aws_access_key_id="AKIDEXAMPLE", aws_secret_access_key="secret"
    )


@pytest.fixture(scope="module")
def running_proxy(store: str) -> Iterator[LostAckProxy]:
    with LostAckProxy(store) as proxy:
        yield proxy


@pytest.fixture
def proxy(running_proxy: LostAckProxy) -> LostAckProxy:
    running_proxy.clear()
    return running_proxy


@pytest.fixture
def clock() -> NoWaiting:
    return NoWaiting()


@pytest.fixture
def storage(proxy: LostAckProxy, clock: NoWaiting) -> S3Storage:
    return S3Storage(f"s3://lake/table{next(_tables)}", {"endpoint_url": proxy.url, **CREDENTIALS}, clock, RandomIds())


def puts(proxy: LostAckProxy) -> int:
    return sum(method == "PUT" for method, _ in proxy.seen)


def test_the_client_library_alone_hides_a_first_success(proxy: LostAckProxy) -> None:
    """Why the adapter has a client that sends once; should this fail one day, the library has learnt it."""
    proxy.plan("lost_ack", "PUT", "/lake/naive")
    with pytest.raises(ClientError, match="PreconditionFailed"):
        storage_client(proxy.url).put_object(Bucket="lake", Key="naive", Body=b"x", IfNoneMatch="*")


@pytest.mark.parametrize("kind", ["lost_ack", "cut", "503_after"])
def test_put_if_absent_that_won_says_so(storage: S3Storage, proxy: LostAckProxy, kind: str) -> None:
    proxy.plan(kind, "PUT", "/once")  # type: ignore[arg-type]
    info = storage.put_if_absent("once", b"ours")
    assert puts(proxy) == 1
    assert storage.head("once") is not None
    assert info.etag == storage.head("once").etag  # type: ignore[union-attr]
    with pytest.raises(PreconditionFailedError):
        storage.put_if_absent("once", b"ours")


@pytest.mark.parametrize("kind", ["refused", "503_before", "409", "429"])
def test_put_if_absent_that_did_not_happen_is_repeated(storage: S3Storage, proxy: LostAckProxy, kind: str) -> None:
    proxy.plan(kind, "PUT", "/once", times=2)  # type: ignore[arg-type]
    storage.put_if_absent("once", b"ours")
    assert puts(proxy) == 3
    assert storage.get("once") == b"ours"


@pytest.mark.parametrize("kind", ["lost_ack", "cut", "503_after", "refused", "503_before", "409"])
def test_put_if_match_survives_every_loss(storage: S3Storage, proxy: LostAckProxy, kind: str) -> None:
    seen = storage.put("record", b"old")
    proxy.plan(kind, "PUT", "/record")  # type: ignore[arg-type]
    info = storage.put_if_match("record", b"new", seen.etag)
    assert storage.get("record") == b"new"
    with pytest.raises(PreconditionFailedError):
        storage.put_if_match("record", b"newer", seen.etag)
    storage.put_if_match("record", b"newer", info.etag)


def test_a_write_that_arrives_after_the_look_and_before_the_second_try_is_our_own(
    storage: S3Storage, proxy: LostAckProxy
) -> None:
    """The look sees nothing, so the write is sent again and fails its condition: the one that failed it was the first try."""
    proxy.plan("late", "PUT", "/once")
    info = storage.put_if_absent("once", b"ours")
    assert [method for method, path in proxy.seen if path.endswith("/once")] == ["PUT", "HEAD", "PUT", "HEAD"]
    assert storage.get("once") == b"ours"
    proxy.plan("late", "PUT", "/once")
    replaced = storage.put_if_match("once", b"newer", info.etag)
    assert storage.get("once") == b"newer"
    found = storage.head("once")
    assert found is not None and found.etag == replaced.etag


def test_a_first_try_that_lost_is_a_plain_loss_with_one_request(storage: S3Storage, proxy: LostAckProxy) -> None:
    storage.put_if_absent("once", b"theirs")
    proxy.clear()
    with pytest.raises(PreconditionFailedError):
        storage.put_if_absent("once", b"ours")
    assert puts(proxy) == 1
    with pytest.raises(PreconditionFailedError):
        storage.put_if_match("missing", b"ours", "0" * 32)


def test_a_conflict_answer_is_no_lost_race(storage: S3Storage, proxy: LostAckProxy) -> None:
    proxy.plan("409", "PUT", "/once", times=100)
    with pytest.raises(StorageError, match="Nothing was written") as caught:
        storage.put_if_absent("once", b"ours")
    assert type(caught.value) is StorageError


def test_in_doubt_and_then_somebody_elses_is_said_to_be_unknown(storage: S3Storage, proxy: LostAckProxy) -> None:
    storage.put_if_absent("once", b"theirs")
    proxy.plan("503_after", "PUT", "/once")
    with pytest.raises(StorageStateUnknownError):
        storage.put_if_absent("once", b"ours")
    seen = storage.put("record", b"old")
    storage.put("record", b"theirs")
    proxy.plan("lost_ack", "PUT", "/record")
    with pytest.raises(StorageStateUnknownError):
        storage.put_if_match("record", b"ours", seen.etag)


def test_equal_bytes_of_somebody_else_are_not_taken_for_ours(storage: S3Storage, proxy: LostAckProxy) -> None:
    storage.put_if_absent("empty", b"")
    proxy.plan("refused", "PUT", "/empty")
    with pytest.raises(StorageStateUnknownError):
        storage.put_if_absent("empty", b"")


def test_a_store_that_stays_silent_leaves_the_state_unknown(storage: S3Storage, proxy: LostAckProxy) -> None:
    proxy.plan("refused", "PUT", "/once", times=100)
    with pytest.raises(StorageStateUnknownError):
        storage.put_if_absent("once", b"ours")


def test_an_unreachable_store_has_certainly_not_written() -> None:
    storage = S3Storage("s3://lake/x", {"endpoint_url": "http://127.0.0.1:1", **CREDENTIALS}, NoWaiting(), RandomIds())
    with pytest.raises(StorageError, match="Nothing was written") as caught:
        storage.put_if_absent("once", b"ours")
    assert type(caught.value) is StorageError


def test_delete_if_match_with_a_lost_answer_is_unknown_and_done(storage: S3Storage, proxy: LostAckProxy) -> None:
    seen = storage.put("a", b"x")
    proxy.plan("lost_ack", "DELETE", "/a")
    with pytest.raises(StorageStateUnknownError):
        storage.delete_if_match("a", seen.etag)
    assert storage.head("a") is None
    seen = storage.put("b", b"x")
    proxy.plan("refused", "DELETE", "/b")
    storage.delete_if_match("b", seen.etag)
    assert storage.head("b") is None


def test_a_multipart_upload_whose_completion_got_lost_is_found(
    storage: S3Storage, proxy: LostAckProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(s3_files, "PART_SIZE", 5 << 20)
    output = storage.open_output("big")
    output.stream.write(b"x" * (6 << 20))
    proxy.plan("lost_ack", "POST", "uploadId")
    assert output.close().size == 6 << 20
    assert storage.head("big") is not None


@pytest.mark.parametrize(("method", "path", "size"), [("PUT", "/data", 100), ("POST", "uploadId", 6 << 20)])
def test_publishing_a_file_beside_another_request_for_it_is_tried_again(
    storage: S3Storage, proxy: LostAckProxy, monkeypatch: pytest.MonkeyPatch, method: str, path: str, size: int
) -> None:
    """The library's own repetition meets its first request this way, which the store may still be working on."""
    monkeypatch.setattr(s3_files, "PART_SIZE", 5 << 20)
    output = storage.open_output("data")
    output.stream.write(b"x" * size)
    proxy.plan("409", method, path, times=3)
    assert output.close().size == size
    assert storage.head("data") is not None
    stubborn = storage.open_output("data2")
    stubborn.stream.write(b"x" * size)
    proxy.plan("409", method, path, times=100)
    with pytest.raises(StorageError):
        stubborn.close()
    proxy.clear()
    assert storage.head("data2") is None


@pytest.mark.parametrize("part", [1, 4])
def test_a_large_file_of_which_a_part_is_refused_is_an_error_and_leaves_nothing(
    storage: S3Storage, proxy: LostAckProxy, store: str, monkeypatch: pytest.MonkeyPatch, part: int
) -> None:
    monkeypatch.setattr(s3_files, "PART_SIZE", 5 << 20)
    proxy.plan("409", "PUT", f"partNumber={part}")
    output = storage.open_output("big")
    output.stream.write(bytes(20 << 20))
    with pytest.raises(StorageError, match="S3 refused: ConditionalRequestConflict"):
        output.close()
    assert storage.list("") == []
    assert "Uploads" not in storage_client(store).list_multipart_uploads(Bucket="lake")


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_an_answer_that_ends_within_its_headers_is_no_empty_object_and_no_empty_folder(
    storage: S3Storage, proxy: LostAckProxy, method: str
) -> None:
    storage.put("folder/a", b"bytes")
    read: dict[str, Callable[[], object]] = {
        "get": lambda: storage.get("folder/a"),
        "tagged": lambda: storage.get_tagged("folder/a"),
        "whole": lambda: storage.open_input("folder/a").read(),
        "head": lambda: storage.head("folder/a"),
        "list": lambda: storage.list("folder/"),
        "folder": lambda: storage.list_folder("folder"),
    }
    for door, ask in read.items():
        wanted = ask()
        proxy.plan("cut", method, "lake")
        assert ask() == wanted, door
        proxy.clear()


def test_a_large_object_whose_answers_end_within_their_headers_is_whole(
    storage: S3Storage, proxy: LostAckProxy
) -> None:
    storage.list("")
    for method in ("POST", "PUT", "POST", "PUT"):
        proxy.plan("cut", method, "/big")
    output = storage.open_output("big")
    output.stream.write(bytes(20 << 20))
    assert output.close().size == 20 << 20
    assert storage.get("big") == bytes(20 << 20)


def test_half_a_request_of_a_client_that_has_ended_is_not_passed_on(proxy: LostAckProxy) -> None:
    host, _, port = proxy.url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port))) as client:
        client.sendall(b"PUT /lake/half HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\nhalf")
        client.shutdown(socket.SHUT_WR)
        assert client.recv(1) == b""
    assert proxy.seen == []


def test_reads_are_repeated(storage: S3Storage, proxy: LostAckProxy) -> None:
    storage.put("a", b"x" * 100)
    proxy.plan("refused", "GET", "/a", times=2)
    assert storage.get("a") == b"x" * 100


def test_a_lock_taken_with_a_lost_answer_is_held_and_given_back(storage: S3Storage, proxy: LostAckProxy) -> None:
    proxy.plan("lost_ack", "PUT", "/.hoodie/lock")
    provider = FileSystemLockProvider(storage, SystemClock(), RandomIds())
    session = provider.acquire(0)
    assert session.still_held()
    proxy.plan("lost_ack", "DELETE", "/.hoodie/lock")
    session.release()
    assert storage.head(".hoodie/lock") is None
    provider.acquire(0).release()


@pytest.mark.parametrize("kind", ["503_before", "429"])
def test_a_busy_store_is_waited_for_with_jitter_and_said(
    storage: S3Storage, proxy: LostAckProxy, clock: NoWaiting, kind: Any
) -> None:
    storage.put("a", b"x")
    before = storage.waited
    calls: list[tuple[str, Callable[[], object]]] = [
        ("GET", lambda: storage.get("a")),
        ("GET", lambda: storage.list("")),
        ("HEAD", lambda: storage.head("a")),
        ("PUT", lambda: storage.put("c", b"x")),
        ("PUT", lambda: storage.put_if_absent("b", b"x")),
        ("POST", lambda: storage.delete_many(["b", "c"])),
        ("DELETE", lambda: storage.delete("a")),
    ]
    for method, call in calls:
        clock.seconds.clear()
        proxy.plan(kind, method, "", times=9)
        call()
        assert len(clock.seconds) == 9, method
        assert len(set(clock.seconds)) > 6
        assert 0 < sum(clock.seconds) <= BUSY_FOR_S
    waited = storage.waited.since(before)
    assert waited.times == 9 * len(calls)
    assert waited.ms > 9 * len(calls)


@pytest.mark.parametrize("kind", ["503_before", "429"])
@pytest.mark.parametrize("as_time", [False, True])
def test_a_busy_store_that_says_how_long_to_wait_is_not_asked_before(
    storage: S3Storage, proxy: LostAckProxy, clock: NoWaiting, kind: Any, as_time: bool
) -> None:
    storage.put("a", b"x")
    before = storage.waited
    proxy.retry_after = formatdate(time.time() + 5, usegmt=True) if as_time else "5"
    for method, call in (("GET", lambda: storage.get("a")), ("PUT", lambda: storage.put_if_absent("b", b"x"))):
        clock.seconds.clear()
        proxy.plan(kind, method, "", times=4)
        call()
        assert len(clock.seconds) == 4, method
        assert min(clock.seconds) > (2 if as_time else 5)
        assert len(set(clock.seconds)) == 4, "with jitter"
    assert storage.waited.since(before).ms > 8 * (2_000 if as_time else 5_000)


@pytest.mark.parametrize("call", ["get", "put_if_absent"])
def test_a_store_that_asks_for_hours_is_asked_once_more_after_a_minute(
    storage: S3Storage, proxy: LostAckProxy, clock: NoWaiting, call: str
) -> None:
    storage.list("")
    proxy.retry_after = "7200"
    proxy.plan("429", "GET" if call == "get" else "PUT", "", times=1_000)
    with pytest.raises(StorageError, match="TooManyRequests|asked too often"):
        storage.get("a") if call == "get" else storage.put_if_absent("a", b"x")
    assert clock.seconds == [BUSY_FOR_S]


@pytest.mark.parametrize("call", ["get", "put_if_absent"])
def test_a_request_waits_no_longer_than_its_write_may(
    storage: S3Storage, proxy: LostAckProxy, clock: NoWaiting, call: str
) -> None:
    def wait() -> float:
        clock.seconds.clear()
        proxy.plan("503_before", "GET" if call == "get" else "PUT", "", times=1_000)
        with pytest.raises(StorageError, match="SlowDown" if call == "get" else "did not confirm"):
            storage.get("a") if call == "get" else storage.put_if_absent("a", b"x")
        proxy.clear()
        return sum(clock.seconds)

    storage.list("")
    assert BUSY_FOR_S / 2 < wait() <= BUSY_FOR_S
    time = storage.busy_time(0)
    assert wait() < 13 and len(clock.seconds) == ATTEMPTS - 1, "a few attempts are always made"
    longer = storage.busy_time(1_000)
    assert wait() > BUSY_FOR_S / 2, "another write of this handle may wait"
    del time, longer
    assert wait() > BUSY_FOR_S / 2, "no write has a limit"


def test_waits_beside_each_other_count_once() -> None:
    time = BusyTime(10)
    assert time.take(0, 4) and time.take(0, 4) and time.take(1, 3)
    assert time.left_s == 6
    assert time.take(2, 4)
    assert time.left_s == 4
    assert not time.take(100, 5)
    assert time.take(100, 4) and time.take(101, 1)
    assert not time.take(104, 1)


@pytest.mark.parametrize("kind", ["503_before", "429"])
def test_a_commit_says_how_long_it_waited_for_a_busy_store(proxy: LostAckProxy, kind: Any) -> None:
    schema = pa.schema([("id", pa.int64())])
    options = {"endpoint_url": proxy.url, **CREDENTIALS}
    table = hudi.create_table(f"s3://lake/busy{next(_tables)}", schema, "id", storage_options=options)
    quiet = table.upsert(pa.table({"id": [1]}, schema))
    assert (quiet.stats.store_waits, quiet.stats.store_wait_ms) == (0, 0)
    proxy.plan(kind, "PUT", "busy", times=3)
    busy = table.upsert(pa.table({"id": [2]}, schema))
    assert busy.stats.store_waits == 3
    assert busy.stats.store_wait_ms > 0
    assert table.scan().count() == 2


def test_a_wait_that_is_no_time_of_a_clock_is_none() -> None:
    answer = {
        "ResponseMetadata": {
            "HTTPHeaders": {"retry-after": "Mon, 01 Jan 2024 00:00:00 +99999999999999999999", "date": "x"}
        }
    }
    assert asked_wait(ClientError(answer, "GetObject")) == 0.0  # type: ignore[arg-type]


def test_a_late_write_in_doubt_is_looked_at_before_it_is_called_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow upload takes longer than a silent answer may; its outcome is read back all the same."""
    monkeypatch.setattr(settling, "UNANSWERED_FOR_S", 0)
    settler, found = Settler(NoWaiting(), RandomIds(), Busy()), iter([None, "ours"])

    def send() -> str:
        raise ConnectionError

    class Judge:
        errors = (ConnectionError,)
        verdict = staticmethod(lambda error: RequestEnd.UNCLEAR)
        is_busy = staticmethod(lambda error: False)
        asked_wait = staticmethod(lambda error: 0.0)

    target = SimpleNamespace(store="a store", table="t", path="a")
    assert settler.settle(target, Judge(), send, lambda: next(found)) == "ours"  # type: ignore[arg-type]
