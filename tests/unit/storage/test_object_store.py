"""Storage in Google Cloud Storage and Azure keeps the promises of every storage, over the real client library and real sockets."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path

import pyarrow as pa
import pytest
from support.google_store import BUCKET, GoogleStore, google_store
from support.speed import slowness

import pyhudi_core as hudi
from pyhudi_core.errors import (
    HudiError,
    InvalidOptionError,
    PreconditionFailedError,
    StorageError,
    StorageStateUnknownError,
    UnknownOptionError,
)
from pyhudi_core.runtime.system import RandomIds, SystemClock
from pyhudi_core.storage import conditions, open_storage, ranged, storage_from_spec
from pyhudi_core.storage.azure import AzureOptions
from pyhudi_core.storage.base import Storage
from pyhudi_core.storage.google import GoogleOptions
from pyhudi_core.storage.object_files import PART_SIZE
from pyhudi_core.storage.opening import refuse_unfit_storage_options
from pyhudi_core.storage.s3_options import S3Options
from pyhudi_core.storage.settling import BUSY_FOR_S, Settler
from pyhudi_core.testing.lost_ack_proxy import LostAckProxy
from pyhudi_core.testing.storage_kit import StorageKit

_tables = count()


@pytest.fixture(scope="module")
def running() -> Iterator[GoogleStore]:
    with google_store() as store:
        yield store


@pytest.fixture
def store(running: GoogleStore) -> GoogleStore:
    running.refusals.clear()
    running.seen.clear()
    running.ignores_conditions = False
    return running


@pytest.fixture
def storage(store: GoogleStore) -> Storage:
    return open_storage(f"gs://{BUCKET}/{next(_tables)}/orders", store.options)


class TestGoogleStorage(StorageKit):
    pass


class Waits(SystemClock):
    """Waits cost no time here, and are counted."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.seconds.append(seconds)


@pytest.fixture(scope="module")
def running_proxy(running: GoogleStore) -> Iterator[LostAckProxy]:
    with LostAckProxy(running.url) as proxy:
        yield proxy


@pytest.fixture
def proxy(running_proxy: LostAckProxy) -> LostAckProxy:
    running_proxy.clear()
    return running_proxy


@pytest.fixture
def clock() -> Waits:
    return Waits()


@pytest.fixture
def shaky(proxy: LostAckProxy, clock: Waits) -> Storage:
    """The same store behind a proxy that loses answers; waits cost no time."""
    storage = open_storage(
        f"gs://{BUCKET}/{next(_tables)}/orders", {"endpoint_url": proxy.url, "bearer_token": GoogleStore.TOKEN}
    )
    storage._settler = Settler(clock, RandomIds(), storage._clients.busy)  # type: ignore[attr-defined]
    storage.list("")  # it has been reached
    proxy.clear()
    return storage


@pytest.mark.parametrize("kind", ["lost_ack", "503_after", "late"])
def test_a_first_success_whose_answer_is_lost_is_no_lost_race(shaky: Storage, proxy: LostAckProxy, kind: str) -> None:
    proxy.plan(kind, "PUT", "once")  # type: ignore[arg-type]
    info = shaky.put_if_absent("once", b"ours")
    assert shaky.head("once") is not None
    with pytest.raises(PreconditionFailedError):
        shaky.put_if_absent("once", b"ours")
    proxy.plan(kind, "PUT", "once")  # type: ignore[arg-type]
    newer = shaky.put_if_match("once", b"newer", info.etag)
    found = shaky.head("once")
    assert found is not None and found.etag == newer.etag
    assert shaky.get("once") == b"newer"


@pytest.mark.parametrize("kind", ["refused", "503_before", "409", "429"])
def test_a_write_that_did_not_happen_is_repeated(shaky: Storage, proxy: LostAckProxy, kind: str) -> None:
    proxy.plan(kind, "PUT", "once", times=2)  # type: ignore[arg-type]
    info = shaky.put_if_absent("once", b"ours")
    proxy.plan(kind, "PUT", "once", times=2)  # type: ignore[arg-type]
    shaky.put_if_match("once", b"newer", info.etag)
    assert shaky.get("once") == b"newer"


def test_in_doubt_and_then_somebody_elses_is_said_to_be_unknown(shaky: Storage, proxy: LostAckProxy) -> None:
    shaky.put_if_absent("once", b"theirs")
    proxy.plan("lost_ack", "PUT", "once")
    with pytest.raises(StorageStateUnknownError):
        shaky.put_if_absent("once", b"theirs")
    seen = shaky.put("record", b"old")
    shaky.put("record", b"theirs")
    proxy.plan("lost_ack", "PUT", "record")
    with pytest.raises((StorageStateUnknownError, PreconditionFailedError)):
        shaky.put_if_match("record", b"ours", seen.etag)
    assert shaky.get("record") == b"theirs"


@pytest.mark.parametrize("kind", ["503_before", "429"])
def test_a_busy_store_is_waited_for_with_jitter_and_said(
    shaky: Storage, proxy: LostAckProxy, clock: Waits, kind: str
) -> None:
    before = shaky.waited
    for method, call in (
        ("GET", lambda: shaky.get("a")),
        ("PUT", lambda: shaky.put_if_absent("b", b"x")),
        ("PUT", lambda: shaky.put("c", b"x")),
    ):
        shaky.put("a", b"x")
        proxy.plan(kind, method, "orders", times=9)  # type: ignore[arg-type]
        call()
    waited = shaky.waited.since(before)
    assert waited.times == len(clock.seconds) == 27
    assert waited.ms == pytest.approx(1000 * sum(clock.seconds), abs=2)
    assert len(set(clock.seconds)) > 20
    proxy.plan(kind, "PUT", "orders", times=1_000)  # type: ignore[arg-type]
    clock.seconds.clear()
    with pytest.raises(StorageError):
        shaky.put_if_absent("never", b"x")
    assert BUSY_FOR_S / 2 < sum(clock.seconds) <= BUSY_FOR_S


def test_a_tag_is_compared_and_not_the_version_that_was_seen(storage: Storage, store: GoogleStore) -> None:
    seen = storage.put("a", b"one")
    store.objects.put(f"{storage.location.removeprefix(f'gs://{BUCKET}/')}/a", b"one", {}, None)
    storage.put_if_match("a", b"two", seen.etag)
    store.objects.put(f"{storage.location.removeprefix(f'gs://{BUCKET}/')}/a", b"theirs", {}, None)
    other = open_storage(storage.location, store.options)
    listed = other.list("")[0]
    other.put_if_match("a", b"three", listed.etag)
    assert storage.get("a") == b"three"
    with pytest.raises(PreconditionFailedError):
        storage.put_if_match("a", b"four", listed.etag)


def test_a_large_file_goes_up_and_down_in_parts_with_bounded_memory(storage: Storage, store: GoogleStore) -> None:
    data = bytes(range(256)) * (5 * PART_SIZE // 512)
    output = storage.open_output("big")
    for start in range(0, len(data), 3 << 20):
        output.stream.write(data[start : start + (3 << 20)])
    assert storage.head("big") is None
    assert output.close().size == len(data)
    parts = [path for method, path in store.seen if method == "PUT" and "partNumber" in path]
    assert len(parts) == 3
    store.seen.clear()
    with storage.open_input("big") as file:
        assert file.read() == data
    gets = [path for method, path in store.seen if method == "GET"]
    assert len(gets) == 1 + -(-(len(data) - ranged.READ_AHEAD) // ranged.PIECE)
    assert storage.get("big") == data
    again = storage.open_output("big")
    again.stream.write(data)
    with pytest.raises(PreconditionFailedError):
        again.close()
    assert store.uploads == {}


def test_an_aborted_upload_leaves_no_parts(storage: Storage, store: GoogleStore) -> None:
    output = storage.open_output("big")
    output.stream.write(b"x" * (2 * PART_SIZE + 1))
    assert len(store.uploads) == 1
    output.abort()
    assert store.uploads == {}
    assert storage.list("") == []


def test_a_reader_never_mixes_two_objects(storage: Storage) -> None:
    storage.put("a", b"x" * 3_000_000)
    file = storage.open_input("a")
    storage.put("a", b"y" * 3_000_000)
    with pytest.raises(StorageError):
        file.read_at(10, 2_500_000)


def test_folder_marks_of_other_tools_are_no_objects(storage: Storage, store: GoogleStore) -> None:
    base = storage.location.removeprefix(f"gs://{BUCKET}/")
    for key in (f"{base}/", f"{base}/day=1/", f"{base}/day=1/a"):
        store.objects.put(key, b"" if key.endswith("/") else b"x", {}, None)
    assert [info.path for info in storage.list("")] == ["day=1/a"]
    assert storage.list_folder("").folders == ("day=1",)
    assert storage.list_folder("").objects == ()


def test_secrets_show_nowhere_but_travel(store: GoogleStore) -> None:
    account = {"account_name": "lake", "endpoint_url": "http://127.0.0.1:1/lake"}
    key = "c2VjcmV0LXNlY3JldA=="
    for location, options in (
        (f"gs://{BUCKET}/t", store.options),
        (f"gs://{BUCKET}/t", {"service_account_key": '{"private_key": "good-token"}', "bearer_token": "good-token"}),
        ("az://c/t", {**account, "account_key": key}),
        ("az://c/t", {**account, "sas_token": f"sv=1&sig={key}"}),
        ("az://c/t", {"connection_string": f"AccountName=lake;AccountKey={key};BlobEndpoint=http://127.0.0.1:1/lake"}),
    ):
        try:
            storage = open_storage(location, options)
        except InvalidOptionError as error:
            assert "good-token" not in str(error)
            continue
        shown = [repr(storage), repr(storage.spec()), repr(storage.spec().options), repr(storage._clients.account)]  # type: ignore[attr-defined]
        if location.startswith("az"):
            with pytest.raises(StorageError) as caught:
                storage.get("a")
            shown += [str(caught.value), repr(caught.value.__cause__), repr(caught.value.__context__)]
        assert not [text for text in shown for secret in (key, "good-token") if secret in text]
        again = pickle.loads(pickle.dumps(storage.spec()))
        assert {**again.options} == {**storage.spec().options}
        assert storage_from_spec(again).location == storage.location


@pytest.mark.parametrize(
    ("location", "options", "meant"),
    [
        ("gs://lake/t", {"servce_account": "x"}, "servce_account"),
        ("gs://lake/t", {"allow_http": "true"}, "http://"),
        ("gs://lake/t", {"account_key": "x"}, "account_key"),
        ("az://lake/t", {"account_name": "a", "azure_storage_acount_key": "x"}, "azure_storage_acount_key"),
        ("az://lake/t", {"container_name": "x"}, "The location names it"),
        ("az://lake/t", {"fs.s3a.access.key": "x"}, "fs.s3a.access.key"),
    ],
)
def test_an_unknown_option_is_refused(location: str, options: dict[str, str], meant: str) -> None:
    with pytest.raises(UnknownOptionError) as caught:
        open_storage(location, options)
    assert meant in str(caught.value)


@pytest.mark.parametrize(
    ("location", "given", "own"),
    [
        ("gs://lake/t", {"GOOGLE_BEARER_TOKEN": "x"}, {"bearer_token": "x"}),
        ("gs://lake/t", {"google_service_account_path": "x"}, {"service_account": "x"}),
        ("gs://lake/t", {"base_url": "http://localhost:1", "token": "x"}, {"endpoint_url": "http://localhost:1"}),
        ("az://c/t", {"AZURE_STORAGE_ACCOUNT_NAME": "a", "azure_storage_account_key": "eA=="}, {"account_key": "eA=="}),
        ("az://c/t", {"account_name": "a", "AZURE_STORAGE_SAS_TOKEN": "x"}, {"sas_token": "x"}),
        ("az://c/t", {"account_name": "a", "access_key": "eA=="}, {"account_key": "eA=="}),
        (
            "az://c/t",
            {"account_name": "a", "azure_client_id": "x", "AUTHORITY_ID": "y"},
            {"client_id": "x", "tenant_id": "y"},
        ),
        ("s3://lake/t", {"AWS_ACCESS_KEY_ID": "a", "aws_secret_access_key": "b"}, {"secret_access_key": "b"}),
        (
            "s3://lake/t",
            {"AWS_CA_BUNDLE": "c", "aws_iam_role_arn": "x", "AWS_ROLE_SESSION_NAME": "y"},
            {"ca_bundle": "c", "role_arn": "x"},
        ),
        ("s3://lake/t", {"aws_server_side_encryption": "aws:kms", "aws_sse_kms_key_id": "k"}, {"sse_kms_key_id": "k"}),
        ("s3://lake/t", {"AWS_ENDPOINT_URL": "http://localhost:1", "aws_region": "r"}, {"region": "r"}),
    ],
)
def test_names_of_deltalake_polars_and_the_environment_are_taken(
    location: str, given: dict[str, str], own: dict[str, str]
) -> None:
    refuse_unfit_storage_options(location, given)
    values = {"gs": GoogleOptions, "az": AzureOptions, "s3": S3Options}[location[:2]]
    found = values.parse(given, location)
    assert {name: str(getattr(found, name)) for name in own} == own


def test_one_option_under_two_names_has_one_value() -> None:
    with pytest.raises(InvalidOptionError, match="'AZURE_STORAGE_ACCOUNT_KEY' and 'account_key' are the same option"):
        open_storage("az://c/t", {"account_name": "a", "account_key": "eA==", "AZURE_STORAGE_ACCOUNT_KEY": "eQ=="})


def test_all_clients_of_a_table_have_the_credentials_of_its_opening(
    store: GoogleStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = {**store.options, "timeout": "19s"}  # no client of other tests is used
    opened = open_storage(f"gs://{BUCKET}/environment", own)
    opened.put("small", b"x")
    monkeypatch.setenv("GOOGLE_SERVICE_ACCOUNT_KEY", "of another account")
    with pytest.raises(InvalidOptionError, match="GOOGLE_SERVICE_ACCOUNT_KEY") as caught:
        opened.get("small")
    assert "of another account" not in str(caught.value)
    assert "Open the table again" in str(caught.value.hint)


def test_a_missing_bucket_and_a_wrong_token_are_said(store: GoogleStore) -> None:
    nowhere = open_storage("gs://nowhere/t", store.options)
    wrong = open_storage(f"gs://{BUCKET}/t", {**store.options, "bearer_token": "other"})
    for storage, what, hint in ((nowhere, "404 NoSuchBucket", "the bucket's name"), (wrong, "401", "service_account")):
        for call in (
            lambda: storage.get("a"),  # noqa: B023
            lambda: storage.put("a", b""),  # noqa: B023
            lambda: storage.put_if_absent("a", b""),  # noqa: B023
            lambda: storage.list(""),  # noqa: B023
        ):
            with pytest.raises(StorageError, match=what) as caught:
                call()
            assert hint in str(caught.value.hint)


_CLOUDS = {
    "gs://lake/t": {"bearer_token": "x"},
    "az://lake/t": {"account_name": "lake", "account_key": "eA=="},
    "s3://lake/t": {"region": "r", "access_key_id": "a", "secret_access_key": "b"},
}


_SCHEMA = pa.schema([("id", pa.int64())])
_DOORS: dict[str, Callable[[str, dict[str, str]], object]] = {
    "read": lambda location, options: open_storage(location, options).get("a"),
    "write": lambda location, options: open_storage(location, options).put_if_absent("a", b""),
    "open": hudi.open_table,
    "create": lambda location, options: hudi.create_table(location, _SCHEMA, "id", storage_options=options),
}


@pytest.mark.parametrize("kind", ["refused", "silent", "unknown"])
def test_a_wrong_address_is_one_error_within_ten_seconds(kind: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = {
            "refused": "http://127.0.0.1:1",
            "silent": f"http://127.0.0.1:{silent.getsockname()[1]}",
            "unknown": "http://no-such-host.invalid",
        }[kind]

        def ask(cloud: tuple[str, str]) -> tuple[HudiError, float]:
            location, door = cloud
            options = {**_CLOUDS[location], "endpoint_url": url}
            begun = time.monotonic()
            with pytest.raises(StorageError, match="could not be reached") as caught:
                _DOORS[door](location, options)
            return caught.value, time.monotonic() - begun

        slow = slowness()  # of other work on the machine
        clouds = [(location, door) for location in _CLOUDS for door in _DOORS]
        with ThreadPoolExecutor(len(clouds)) as pool:
            for cloud, (error, seconds) in zip(clouds, pool.map(ask, clouds), strict=True):
                assert seconds < 10 * slow, cloud
                assert "endpoint_url" in str(error.hint), cloud
                assert isinstance(error, StorageStateUnknownError) is (cloud[1] == "write" and kind == "silent"), cloud


@pytest.mark.parametrize("location", ["gs://lake/t", "az://lake/t", "s3://lake/t"])
def test_missing_credentials_are_one_error_within_ten_seconds(
    location: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in [name for name in os.environ if name.startswith(("AWS_", "GOOGLE_", "AZURE_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    options = {"account_name": "lake"} if location.startswith("az") else {}
    begun = time.monotonic()
    with pytest.raises(StorageError, match="(?i)credentials") as caught:
        hudi.open_table(location, options)
    assert time.monotonic() - begun < 10 * slowness()
    assert (
        "account_key" in str(caught.value.hint)
        or "AWS_" in str(caught.value.hint)
        or "service_account" in str(caught.value.hint)
    )


@pytest.mark.parametrize("ignores", [False, True])
def test_a_table_is_refused_in_a_store_that_ignores_conditions(store: GoogleStore, ignores: bool) -> None:
    store.ignores_conditions = ignores
    place = f"gs://{BUCKET}/{next(_tables)}/orders"
    conditions._proved.clear()
    schema = pa.schema([("id", pa.int64())])
    if ignores:
        with pytest.raises(StorageError, match=f"{store.url}, bucket {BUCKET} ignores the condition"):
            hudi.create_table(place, schema, "id", storage_options=store.options)
        assert open_storage(place, store.options).list("") == []
        return
    hudi.create_table(place, schema, "id", storage_options=store.options)
    probes = [each for each in store.seen if "conditions-" in each[1]]
    assert [method for method, _ in probes].count("PUT") <= 3
    store.seen.clear()
    hudi.create_table(f"gs://{BUCKET}/{next(_tables)}/orders", schema, "id", storage_options=store.options)
    assert not [path for _, path in store.seen if "conditions-" in path]


@pytest.mark.parametrize("status", [429, 503])
def test_a_commit_says_how_long_it_waited_for_a_busy_store(store: GoogleStore, status: int) -> None:
    schema = pa.schema([("id", pa.int64())])
    table = hudi.create_table(f"gs://{BUCKET}/{next(_tables)}/orders", schema, "id", storage_options=store.options)
    quiet = table.upsert(pa.table({"id": [1]}, schema))
    assert (quiet.stats.store_waits, quiet.stats.store_wait_ms) == (0, 0)
    store.refuse("PUT", status, 3)
    busy = table.upsert(pa.table({"id": [2]}, schema))
    assert busy.stats.store_waits == 3
    assert busy.stats.store_wait_ms > 0
    assert "busy, 3 requests waited" in str(busy)
    assert table.scan().count() == 2


def _look(location: str, options: dict[str, str], found: object) -> None:
    try:
        open_storage(location, options).head("a")
        found.put("looked")  # type: ignore[attr-defined]
    except StorageError as error:
        found.put(str(error))  # type: ignore[attr-defined]


def test_a_forked_process_gets_an_error_and_does_not_hang(storage: Storage, store: GoogleStore) -> None:
    storage.head("a")
    for method, says in (("fork", "was forked"), ("spawn", "looked")):
        context = multiprocessing.get_context(method)
        found = context.SimpleQueue()
        process = context.Process(target=_look, args=(storage.location, store.options, found))
        process.start()
        process.join(60)
        assert process.exitcode == 0
        assert says in found.get()
