"""Storage and commits in Azure (Azurite) and in Google Cloud Storage (fake-gcs-server): real servers behind the real client library.

fake-gcs-server keeps conditions only in Google's JSON interface, and the client library speaks the XML interface: `support.google_store` translates.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Iterator
from email.utils import formatdate
from itertools import count
from pathlib import Path
from urllib.request import Request, urlopen

import obstore
import pytest
from obstore.store import AzureStore
from reliability.test_two_processes import SHORT, all_commit, killed_writers_commit
from support.google_store import BUCKET, GoogleStore, JsonObjects, google_store
from support.tcp_proxy import TcpProxy

from locks.servers import azurite, fake_gcs, scratch
from pyhudi_core.errors import PreconditionFailedError, StorageError
from pyhudi_core.storage import open_storage
from pyhudi_core.storage.base import Storage
from pyhudi_core.testing.storage_kit import ODD_PATHS, StorageKit

pytestmark = pytest.mark.slow
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""The key that every Azurite has."""
_places = count()


def azure_at(port: int) -> dict[str, str]:
    return {"account_name": ACCOUNT, "account_key": KEY, "endpoint_url": f"http://127.0.0.1:{port}/{ACCOUNT}"}


@pytest.fixture(scope="module")
def azure_port() -> Iterator[int]:
    with scratch() as folder, azurite(folder).running() as running:
        make_container(running.port)
        yield running.port


def make_container(port: int) -> None:
    """The client library makes none: a signed address does."""
    date = formatdate(usegmt=True)
    signed = f"PUT{chr(10) * 12}x-ms-date:{date}\nx-ms-version:2021-08-06\n/{ACCOUNT}/{ACCOUNT}/lake\nrestype:container"
    signature = base64.b64encode(hmac.new(base64.b64decode(KEY), signed.encode(), hashlib.sha256).digest()).decode()
    headers = {"x-ms-date": date, "x-ms-version": "2021-08-06", "Content-Length": "0"}
    headers["Authorization"] = f"SharedKey {ACCOUNT}:{signature}"
    url = f"http://127.0.0.1:{port}/{ACCOUNT}/lake?restype=container"
    urlopen(Request(url, method="PUT", headers=headers)).close()


@pytest.fixture(scope="module")
def google() -> Iterator[GoogleStore]:
    with scratch() as folder, fake_gcs(folder).running() as running:
        objects = JsonObjects(running.port)
        objects.make_bucket()
        with google_store(objects) as store:
            yield store


@pytest.mark.row("O6")
class TestAzure(StorageKit):
    @pytest.fixture
    def storage(self, azure_port: int) -> Storage:
        return open_storage(f"az://lake/{next(_places)}/orders", azure_at(azure_port))

    @pytest.mark.parametrize("path", ODD_PATHS)
    def test_an_odd_but_safe_path_works(self, storage: Storage, path: str) -> None:
        """Azure takes a backslash for a slash, so a name with one is refused."""
        if "\\" in path:
            with pytest.raises(StorageError, match="no object of this name"):
                storage.put_if_absent(path, b"x")
            return
        super().test_an_odd_but_safe_path_works(storage, path)

    def test_delete_many_deletes_exactly_the_given_paths(self, storage: Storage) -> None:
        odd = [f"x/{path}" for path in ODD_PATHS if "\\" not in path]
        for path in ("a/1", "a/10", *odd):
            storage.put(path, b"x")
        storage.delete_many(["a/1", "never/there", "a/1", *odd])
        assert [info.path for info in storage.list("")] == ["a/10"]


@pytest.mark.row("O6")
class TestGoogle(StorageKit):
    @pytest.fixture
    def storage(self, google: GoogleStore) -> Storage:
        return open_storage(f"gs://{BUCKET}/{next(_places)}/orders", google.options)


def test_in_azure_a_success_whose_answer_is_lost_is_no_failure(azure_port: int) -> None:
    proxy = TcpProxy(azure_port)
    storage = open_storage(f"az://lake/{next(_places)}/orders", azure_at(proxy.port))
    storage.list("")
    proxy.drop_next_answer()
    info = storage.put_if_absent("once", b"first")
    proxy.drop_next_answer()
    assert storage.put_if_match("once", b"second", info.etag).etag != info.etag
    assert storage.get("once") == b"second"
    with pytest.raises(PreconditionFailedError):
        storage.put_if_match("once", b"third", info.etag)
    proxy.close()


def test_in_azure_a_large_file_goes_up_in_parts(azure_port: int) -> None:
    storage = open_storage(f"az://lake/{next(_places)}/orders", azure_at(azure_port))
    data = bytes(range(256)) * (20 << 12)
    output = storage.open_output("big")
    output.stream.write(data)
    assert output.close().size == len(data)
    assert storage.open_input("big").read() == data


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"account_key": "d3Jvbmc="}, "account_key"),
        ({"sas_token": "sv=2020-01-01&sig=d3Jvbmc"}, "sas_token"),
        ({"container": "nowhere"}, "container's name"),
    ],
)
def test_what_is_wrong_with_an_account_of_azure_is_said(azure_port: int, wrong: dict[str, str], says: str) -> None:
    options = {**azure_at(azure_port), **wrong}
    container = options.pop("container", "lake")
    if "sas_token" in wrong:
        del options["account_key"]
    with pytest.raises(StorageError, match="Azure storage at .* refused: 40") as caught:
        open_storage(f"az://{container}/t", options).get("a")
    assert says in str(caught.value.hint)


def test_the_metadata_of_an_object_holds_the_nonce_that_azure_takes(azure_port: int) -> None:
    options = azure_at(azure_port)
    open_storage("az://lake/nonce", options).put_if_absent("a", b"x")
    client = AzureStore(
        "lake",
        account_name=ACCOUNT,
        account_key=KEY,
        endpoint=options["endpoint_url"],
        client_options={"allow_http": True},
    )
    assert "pyhudi_write" in obstore.get(client, "nonce/a").attributes


def place_in(cloud: str, request: pytest.FixtureRequest) -> tuple[str, dict[str, str]]:
    """A new location in a cloud, and its storage options."""
    if cloud == "azure":
        return f"az://lake/{next(_places)}/orders", azure_at(request.getfixturevalue("azure_port"))
    return f"gs://{BUCKET}/{next(_places)}/orders", request.getfixturevalue("google").options


@pytest.mark.row("T4")
@pytest.mark.parametrize("commits", [10, 1_000])
@pytest.mark.parametrize("cloud", ["azure", "google"])
def test_two_processes_make_commits_in_a_cloud_at_the_same_time(
    cloud: str, commits: int, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    place = place_in(cloud, request)
    all_commit(place, tmp_path / "journal", 2, commits, True, 3_500, SHORT)


@pytest.mark.row("K11", "T4")
@pytest.mark.parametrize("cloud", ["azure", "google"])
def test_writers_that_are_killed_in_a_cloud_lose_nothing(
    cloud: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    verdict = killed_writers_commit(place_in(cloud, request), tmp_path / "journal", 2, 20, 3_500, SHORT)
    assert verdict.unheard + verdict.given_up > 0, "nobody was killed in the middle of a commit"


@pytest.mark.row("K11", "T4")
@pytest.mark.parametrize(("writers", "commits"), [(2, 1_000), (8, 250)])
@pytest.mark.parametrize("cloud", ["azure", "google"])
def test_writers_that_are_killed_in_a_cloud_lose_nothing_in_more_than_1000_commits(
    cloud: str, writers: int, commits: int, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    killed_writers_commit(place_in(cloud, request), tmp_path / "journal", writers, commits, 3_500, SHORT)
