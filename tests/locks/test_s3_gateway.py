"""Storage, lock and commits in S3 on a real gateway (versitygw): what moto, which runs in this process, cannot show."""

from __future__ import annotations

import logging
import os
import pickle
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import boto3
import pyarrow as pa
import pytest
from reliability.test_two_processes import SHORT, all_commit, killed_writers_commit
from support.tcp_proxy import TcpProxy

import pyhudi_core as hudi
from locks.server_cases import SECRET
from locks.servers import Server, gateway, scratch
from pyhudi_core.errors import HudiError, InvalidOptionError, PreconditionFailedError, StorageError, UnknownOptionError
from pyhudi_core.lock.base import LockProvider
from pyhudi_core.lock.storage_based import StorageBasedLockProvider
from pyhudi_core.runtime.system import system_runtime
from pyhudi_core.storage import open_storage
from pyhudi_core.storage.s3 import S3Storage
from pyhudi_core.testing.lock_kit import LockKit
from pyhudi_core.testing.storage_kit import StorageKit

pytestmark = pytest.mark.slow
ACCESS_KEY = "AKIDEXAMPLE"
SCHEMA = pa.schema([("id", pa.int64()), ("n", pa.int64())])
_places = count()


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with scratch() as folder, gateway(folder, ACCESS_KEY, SECRET).running() as running:
        client = boto3.client(
            "s3", endpoint_url=f"http://127.0.0.1:{running.port}", region_name="us-east-1",
            aws_access_key_id=ACCESS_KEY, aws_secret_access_key=SECRET,
        )  # fmt: skip
        client.create_bucket(Bucket="lake")
        yield running


@pytest.fixture
def options(server: Server) -> dict[str, str]:
    return options_at(server.port)


def options_at(port: int) -> dict[str, str]:
    return {
        "endpoint_url": f"http://127.0.0.1:{port}",
        "region": "us-east-1",
        "access_key_id": ACCESS_KEY,
        "secret_access_key": SECRET,
    }


@pytest.fixture
def place() -> str:
    return f"s3://lake/{next(_places)}/orders"


@pytest.mark.row("O6")
class TestStorage(StorageKit):
    @pytest.fixture
    def storage(self, place: str, options: dict[str, str]) -> S3Storage:
        return S3Storage(place, options)

    def test_delete_if_match_spares_a_newer_object(self, storage: S3Storage) -> None:  # type: ignore[override]
        """This gateway calls the deletion of a missing object a success, with a condition as without one; nothing here depends on it."""
        first = storage.put("a", b"one")
        second = storage.put("a", b"other")
        with pytest.raises(PreconditionFailedError):
            storage.delete_if_match("a", first.etag)
        assert storage.get("a") == b"other"
        storage.delete_if_match("a", second.etag)
        assert storage.head("a") is None


@pytest.mark.row("O6")
class TestStorageBasedLock(LockKit):
    @pytest.fixture
    def providers(self, place: str, options: dict[str, str]) -> Callable[[], LockProvider]:
        return lambda: StorageBasedLockProvider(S3Storage(place, options), system_runtime(1), retry_wait_ms=(5, 100))


def test_an_object_above_the_size_of_a_part_is_written_in_parts(place: str, options: dict[str, str]) -> None:
    storage = S3Storage(place, options)
    data = os.urandom(1 << 20) * 20
    sink = storage.open_output("big.bin")
    for start in range(0, len(data), 1 << 20):
        sink.stream.write(data[start : start + (1 << 20)])
    sink.close()
    assert storage.get("big.bin") == data
    info = storage.head("big.bin")
    assert info is not None
    assert "-" in info.etag, "it was not a multipart upload"
    assert storage.open_input("big.bin").read() == data


def test_a_folder_with_more_objects_than_a_page_is_listed_and_deleted(place: str, options: dict[str, str]) -> None:
    storage = S3Storage(place, options)
    names = [f"many/{n:04}" for n in range(1_100)]
    system_runtime(8).executor.map(lambda name: storage.put(name, b""), names)
    assert [info.path for info in storage.list("many/")] == names
    storage.delete_many(names)
    assert storage.list("many/") == []


def test_a_success_whose_answer_is_lost_is_no_failure(place: str, server: Server) -> None:
    proxy = TcpProxy(server.port)
    storage = S3Storage(place, options_at(proxy.port))
    proxy.drop_next_answer()
    info = storage.put_if_absent("once", b"first")
    proxy.drop_next_answer()
    assert storage.put_if_match("once", b"second", info.etag).etag != info.etag
    assert storage.get("once") == b"second"
    proxy.close()


@pytest.mark.row("O6")
def test_profiles_and_environment_variables_count_as_in_boto3(
    place: str, server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    url = f"http://127.0.0.1:{server.port}"
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(StorageError, match="No credentials"):
        S3Storage(place, {"endpoint_url": url}).put("a", b"x")
    with monkeypatch.context() as environment:
        environment.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
        environment.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
        S3Storage(place, {"endpoint_url": url}).put("from environment", b"x")
        environment.setenv("AWS_ENDPOINT_URL_S3", url)
        environment.setenv("AWS_REGION", "us-east-1")
        assert S3Storage(place, {"region": "us-east-1"}).get("from environment") == b"x"
    (tmp_path / "config").write_text(f"[profile shop]\nregion=us-east-1\nendpoint_url={url}\n")
    (tmp_path / "credentials").write_text(f"[shop]\naws_access_key_id={ACCESS_KEY}\naws_secret_access_key={SECRET}\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_PROFILE", "shop")
    assert S3Storage(place).get("from environment") == b"x"


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"endpoint": "http://h"}, UnknownOptionError),
        ({"access_key_id": "x"}, InvalidOptionError),
    ],
)
def test_storage_options_are_checked_before_a_request(
    wrong: dict[str, str], error: type[HudiError], place: str
) -> None:
    with pytest.raises(error):
        open_storage(place, wrong)


def test_no_secret_is_in_a_log_a_representation_an_error_or_the_table(
    place: str, options: dict[str, str], caplog: pytest.LogCaptureFixture, server: Server
) -> None:
    for name in ("pyhudi_core", "pyhudi_dagster"):
        caplog.set_level(logging.DEBUG, name)
    hudi.create_table(place, SCHEMA, "id", storage_options=options)
    table = hudi.open_table(place, options)
    result = table.upsert(pa.table({"id": [1], "n": [1]}, SCHEMA))
    storage = S3Storage(place, options)
    shown: list[Any] = [table, result, storage, storage.spec(), table.info() if hasattr(table, "info") else ""]
    with pytest.raises(HudiError) as refused:
        S3Storage(place, {**options, "secret_access_key": f"{SECRET}x"}).put("a", b"x")
    shown += [refused.value, refused.value.__cause__]
    with pytest.raises(HudiError) as missing:
        hudi.create_table("s3://no-such-bucket/t", SCHEMA, "id", storage_options=options)
    shown.append(missing.value)
    text = "\n".join([*(f"{value} {value!r}" for value in shown), caplog.text])
    assert SECRET not in text
    for info in storage.list(""):
        assert SECRET.encode() not in storage.get(info.path)
    assert pickle.loads(pickle.dumps(storage.spec())).options["secret_access_key"] == SECRET


@pytest.mark.row("T4")
@pytest.mark.parametrize("commits", [25, 1_000])
def test_two_processes_make_commits_at_the_same_time(
    commits: int, place: str, options: dict[str, str], tmp_path: Path
) -> None:
    all_commit((place, options), tmp_path / "journal", 2, commits, True, 3_500, SHORT)


@pytest.mark.row("K11", "T4")
def test_writers_that_are_killed_lose_nothing(place: str, options: dict[str, str], tmp_path: Path) -> None:
    verdict = killed_writers_commit((place, options), tmp_path / "journal", 2, 40, 3_500, SHORT)
    assert verdict.unheard + verdict.given_up > 0, "nobody was killed in the middle of a commit"


@pytest.mark.row("K11", "T4")
@pytest.mark.parametrize(("writers", "commits"), [(2, 1_000), (8, 250)])
def test_writers_that_are_killed_lose_nothing_in_more_than_1000_commits(
    writers: int, commits: int, place: str, options: dict[str, str], tmp_path: Path
) -> None:
    killed_writers_commit((place, options), tmp_path / "journal", writers, commits, 3_500, SHORT)
