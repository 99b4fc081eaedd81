"""One table by several spellings of its location: transactions over it wait for each other in one order, and it is given once."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import boto3
import pyarrow as pa
import pytest
from moto import mock_aws
from support.counted_s3 import BUCKET, counted_s3

import pyhudi as hudi
from pyhudi_core import table_transactions
from pyhudi_core.storage.local import LocalStorage
from pyhudi_core.storage.opening import open_storage
from pyhudi_core.storage.paths import parse_location
from pyhudi_core.table_transactions import refuse_apart

SCHEMA = pa.schema([("id", pa.int64()), ("value", pa.int64())])
CREDENTIALS = {"region": "us-east-1", "access_key_id": "AKIDEXAMPLE", "secret_access_key": "very-secret"}
_names = count()


def rows(*values: tuple[int, int]) -> pa.Table:
    return pa.table({"id": [key for key, _ in values], "value": [value for _, value in values]}, SCHEMA)


def spellings(folder: Path) -> list[str]:
    """Locations of the table ``a`` of a folder."""
    (folder / "link").symlink_to(folder / "a")
    (folder / "parent").symlink_to(folder)
    (folder / "b").mkdir(exist_ok=True)
    return [
        f"{folder}/a/",
        f"{folder}/./a",
        f"{folder}/b/../a",
        f"/{folder}/a",
        f"file:{folder}/a",
        f"file://{folder}/a",
        f"FILE://localhost{folder}/a/",
        f"{folder}/link",
        f"file://{folder}/parent/a",
    ]


def test_a_table_on_a_disk_is_one_table_however_its_location_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = hudi.create_table(str(tmp_path / "a"), SCHEMA, "id")
    monkeypatch.chdir(tmp_path)
    for text in [*spellings(tmp_path), "a", "./a", "link"]:
        other = hudi.open_table(text)
        with pytest.raises(hudi.errors.InvalidOptionError, match="given twice"):
            hudi.transaction([table, other])
        with pytest.raises(hudi.errors.InvalidOptionError, match="given twice"):
            hudi.snapshot([other, table])
        assert LocalStorage(str(tmp_path / "a")).is_at(text)
        with hudi.transaction([table]) as changes:
            changes.upsert(other, rows((1, 1)))
        assert hudi.snapshot([other]).scan(table).to_arrow()["value"].to_pylist() == [1]
    assert not LocalStorage(str(tmp_path / "a")).is_at(str(tmp_path / "b"))
    assert not LocalStorage(str(tmp_path / "a")).is_at(f"memory:/{tmp_path}/a")


def test_transactions_over_other_spellings_of_the_same_tables_take_their_locks_in_one_order(tmp_path: Path) -> None:
    """The link sorts after the other table, and what it leads to before it: by their texts, each transaction would hold what the other one waits for."""
    for name in ("a", "b"):
        hudi.create_table(str(tmp_path / name), SCHEMA, "id")
    (tmp_path / "z").symlink_to(tmp_path / "a")
    options = {"hoodie.write.lock.wait_time_ms": 20_000, "pyhudi.commit.retries": 100, "hoodie.clean.automatic": False}
    errors: list[BaseException] = []

    def transfer(first: str, second: str) -> None:
        try:
            both = [hudi.open_table(str(tmp_path / name), options=options) for name in (first, second)]
            for turn in range(4):
                with hudi.transaction(both) as changes:
                    for table in both:
                        changes.upsert(table, rows((1, turn)))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=transfer, args=names) for names in (("a", "b"), ("z", "b"))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    one, link, other = (hudi.open_table(str(tmp_path / name)) for name in ("a", "z", "b"))
    assert len(one.timeline.commits) == 8
    state = hudi.snapshot([link, other])
    assert [state.scan(table, ["value"]).to_arrow()["value"].to_pylist() for table in (link, other)] == [[3], [3]]
    assert {finding.kind for finding in one.check().findings} <= {"plan_names_other_place"}, "rollbacks name the link"


@pytest.fixture
def place() -> Iterator[str]:
    with mock_aws():
        boto3.client("s3", region_name="us-east-1").create_bucket(Bucket="tables")
        yield f"tables/{next(_names)}"


def test_a_table_in_a_bucket_is_one_table_however_its_location_is_written(place: str) -> None:
    table = hudi.create_table(f"s3://{place}/a", SCHEMA, "id", storage_options=CREDENTIALS)
    other = hudi.create_table(f"s3a://{place}/b", SCHEMA, "id", storage_options=CREDENTIALS)
    with hudi.transaction([table, other]) as changes:
        changes.upsert(table, rows((1, 1)))
        changes.upsert(other, rows((1, 1)))
    for text in (f"s3a://{place}/a", f"S3://{place}/a/", f"s3a://{place}/a//"):
        again = hudi.open_table(text, CREDENTIALS)
        with pytest.raises(hudi.errors.InvalidOptionError, match="given twice"):
            hudi.transaction([table, again])
        assert hudi.snapshot([again, other]).scan(table).to_arrow().num_rows == 1
        assert open_storage(text, CREDENTIALS).is_at(table.location)
    twice = [f"s3://{place}/new", f"s3a://{place}/new"]
    with pytest.raises(hudi.errors.InvalidOptionError, match="given twice"):
        refuse_apart(twice, ["UTC", "UTC"])


def test_tables_whose_options_lead_to_several_stores_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """An endpoint may be written in several ways, so the options are not compared as texts: the object says whether it is the same."""
    with counted_s3() as store:
        place, spelled = (
            f"s3://{BUCKET}/spelled",
            {**store.options, "endpoint_url": store.url.replace("127.0.0.1", "localhost")},
        )
        one, two = (hudi.create_table(f"{place}/{name}", SCHEMA, "id", storage_options=store.options) for name in "ab")
        again = hudi.open_table(f"{place}/b", spelled)
        with hudi.transaction([one, again]) as changes:
            for table in (one, again):
                changes.upsert(table, rows((1, 1)))
        with pytest.raises(hudi.errors.InvalidOptionError, match="given twice"):
            hudi.transaction([two, again])
        elsewhere = hudi.create_table(f"{place}-elsewhere/b", SCHEMA, "id", storage_options=store.options)
        monkeypatch.setattr(table_transactions, "open_storage", lambda *_: elsewhere._opened.storage)
        with pytest.raises(hudi.errors.InvalidOptionError, match="several stores"):
            hudi.transaction([one, again])


def test_locations_have_one_spelling() -> None:
    same = {
        "s3://b/k": ("s3a://b/k", "S3://b/k/"),
        "gs://b/k": ("gcs://b/k",),
        "azure://c/k": ("az://c/k", "abfss://c@account.dfs.core.windows.net/k", "wasbs://c@account.blob.core.windows.net/k"),
        "/k": ("file:/k", "file:///k/", "/k"),
        "memory://m/k": ("memory://m/k/",),
    }  # fmt: skip
    for canonical, texts in same.items():
        assert {parse_location(text).canonical for text in texts} == {canonical}
