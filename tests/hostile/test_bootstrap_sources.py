"""The source of a bootstrapped table: readers open what the properties say and what they allow themselves, and nothing else with their rights."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import botocore.client
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from moto import mock_aws
from support.tables import FAST
from support.watching import untouched

import pyhudi_core as hudi
from pyhudi_core.doctor.kinds import FindingKind
from pyhudi_core.errors import CorruptBaseFileError, HudiError, UnsafePathError, UnsupportedTableError
from pyhudi_core.file_groups.skeletons import BY_FILE, INDEX_BY_FILE, INDEX_INFO, INFO, skeleton_key
from pyhudi_core.formats.avro.container import decode_record, encode_record
from pyhudi_core.formats.hfile import HFileReader, HFileWriter
from pyhudi_core.formats.hfile.data_block import Codec
from pyhudi_core.storage.opening import open_storage
from pyhudi_core.storage.paths import allowing, parse_sources, sources_text
from pyhudi_core.storage.sources import open_source

BASE = "hoodie.bootstrap.base.path"


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A folder of somebody who reads tables."""
    folder = tmp_path / "people" / "victim"
    folder.mkdir(parents=True)
    pq.write_table(pa.table({"id": ["x"], "salary": [100]}), folder / "salaries.parquet")
    return folder


@pytest.fixture
def shared(tmp_path: Path, victim: Path) -> Path:
    """A table in another folder, whose rows are in the victim's."""
    location = tmp_path / "lake" / "shared"
    assert hudi.bootstrap(str(victim), str(location), "id", mode="METADATA_ONLY", storage_options=FAST)
    return location


def _say(table: Path, source: str | None) -> None:
    """Let the properties say another source, or none."""
    file = table / ".hoodie/hoodie.properties"
    kept = [line for line in file.read_text().splitlines() if not line.startswith(BASE)]
    file.write_text("\n".join([*kept, *([] if source is None else [f"{BASE}={source}"]), ""]))


def _index(table: Path, base: str | None = None, uri: str | None = None, partition: str | None = None) -> None:
    """Let the index say another source, file or partition."""
    path = table / INDEX_BY_FILE
    with pa.OSFile(str(path)) as source:
        index = HFileReader(source, INDEX_BY_FILE)
        info = decode_record(index.info[INDEX_INFO], INFO, path="")
        (found,) = index.scan()
        key = skeleton_key("", next(table.glob("*.parquet")).name.partition("_")[0])
        entry = decode_record(bytes(found.data[found.value_starts[0] : found.value_ends[0]]), BY_FILE, path="")
    entry["bootstrapFileStatus"]["path"]["uri"] = uri or entry["bootstrapFileStatus"]["path"]["uri"]
    entry["bootstrapPartitionPath"] = partition or ""
    writer = HFileWriter("", Codec.NONE)
    writer.add(key, encode_record(BY_FILE, entry, sync_marker=bytes(16)))
    info["bootstrapBasePath"] = base or info["bootstrapBasePath"]
    path.write_bytes(writer.finish(info={INDEX_INFO: encode_record(INFO, info, sync_marker=bytes(16))}))


def _open(table: Path, **given: Any) -> hudi.HudiTable:
    return hudi.open_table(str(table), FAST, **given)


DOORS: dict[str, Callable[[hudi.HudiTable], object]] = {
    "scan": lambda table: table.scan().to_arrow(),
    "scan with a condition": lambda table: table.scan(where="salary = 100").to_arrow(),
    "head": lambda table: table.scan(meta=False).head(1),
    "lookup": lambda table: table.lookup(pa.table({"id": ["x"]})).to_arrow(),
    "upsert": lambda table: table.upsert(pa.table({"id": ["x"], "salary": [1]})),
    "delete": lambda table: table.delete(where="salary = 100"),
}


@pytest.mark.parametrize("door", list(DOORS))
def test_a_source_elsewhere_is_not_opened_unasked(shared: Path, victim: Path, door: str) -> None:
    with (
        untouched(victim),
        pytest.raises(UnsafePathError, match="outside of the folder that holds the table") as caught,
    ):
        DOORS[door](_open(shared))
    assert f"'allow_sources': '{victim}'" in (caught.value.hint or "")
    assert "hoodie.bootstrap.base.path in .hoodie/hoodie.properties says" in str(caught.value)


def test_check_says_what_a_table_names_elsewhere_and_how_it_is_allowed(shared: Path, victim: Path) -> None:
    with untouched(victim):
        report = hudi.check_table(str(shared))
    [found] = report.of(FindingKind.UNSAFE_PATH)
    assert (found.where, report.ok) == (str(victim), False)
    assert "allow_sources" in found.what_to_do
    assert hudi.check_table(str(shared), {"allow_sources": str(victim)}).ok


@pytest.mark.parametrize("door", list(DOORS))
@pytest.mark.parametrize("above", [False, True])
def test_a_source_that_the_caller_allows_is_read(shared: Path, victim: Path, door: str, above: bool) -> None:
    allowed = victim.parent if above else victim
    text = f"/nowhere,{allowed}/"
    assert len(hudi.open_table(str(shared), {**FAST, "allow_sources": text}).scan().to_arrow()) == 1
    DOORS[door](_open(shared, allow_sources=[allowed]))


def test_a_bootstrap_may_read_its_own_source_and_be_continued(shared: Path, victim: Path) -> None:
    again = hudi.bootstrap(str(victim), str(shared), "id", mode="METADATA_ONLY", storage_options=FAST)
    assert (again.loaded, again.done) == (1, True)


def test_what_is_allowed_is_no_prefix_of_names(shared: Path, victim: Path) -> None:
    near = victim.with_name("vic")
    with untouched(victim), pytest.raises(UnsafePathError):
        _open(shared, allow_sources=str(near)).scan().to_arrow()


def test_a_source_below_the_parent_of_the_table_needs_no_word(tmp_path: Path, victim: Path) -> None:
    beside = tmp_path / "lake" / "raw"
    shutil.copytree(victim, beside)
    location = tmp_path / "lake" / "table"
    assert hudi.bootstrap(str(beside), str(location), "id", mode="METADATA_ONLY")
    assert hudi.open_table(str(location)).scan().count() == len(hudi.open_table(str(location)).scan().to_arrow()) == 1


def test_a_link_below_the_parent_does_not_make_its_target_one(tmp_path: Path, victim: Path, shared: Path) -> None:
    for link in (shared / "inside", shared.parent / "beside"):
        link.symlink_to(victim)
        _say(shared, str(link))
        _index(shared, str(link), f"{link}/salaries.parquet")
        with untouched(victim), pytest.raises(UnsafePathError):
            _open(shared).scan().to_arrow()
        if link.parent == shared:
            link.unlink()
    file = tmp_path / "lake" / "raw" / "salaries.parquet"
    file.parent.mkdir()
    file.symlink_to(victim / "salaries.parquet")
    _say(shared, str(file.parent))
    _index(shared, str(file.parent), str(file))
    with untouched(victim), pytest.raises(UnsafePathError, match="symbolic link"):
        _open(shared).scan().to_arrow()


@pytest.mark.parametrize("said", [None, "", "/nowhere", "{victim}x", "{lake}"])
def test_an_index_that_names_another_source_than_the_properties_is_not_followed(
    shared: Path, victim: Path, said: str | None
) -> None:
    _say(shared, None if said is None else said.format(victim=victim, lake=shared.parent))
    with untouched(victim):
        for given in ({}, {"allow_sources": str(victim)}):
            with pytest.raises(UnsafePathError, match="bootstrap index says.*hoodie.bootstrap.base.path says"):
                _open(shared, **given).scan().to_arrow()
            report = hudi.check_table(str(shared), given)
            assert [found.where for found in report.of(FindingKind.UNSAFE_PATH)] == [INDEX_BY_FILE]


WAYS_OUT = {
    "partition with dots": {"partition": "../people/victim"},
    "partition with encoded dots": {"partition": "%2e%2e/people/victim"},
    "partition with backslashes": {"partition": "..\\home\\victim"},
    "absolute partition": {"partition": "{victim}"},
    "partition with a scheme": {"partition": "s3://other"},
    "partition with NUL": {"partition": "a\0b"},
    "absolute file": {"uri": "{victim}/salaries.parquet"},
    "file by its scheme": {"uri": "file:{victim}/salaries.parquet"},
    "file in a bucket": {"uri": "s3://other/salaries.parquet"},
    "file with dots": {"uri": "{source}/../people/victim/salaries.parquet"},
    "file with encoded dots": {"uri": "{source}/%2e%2e/people/victim/salaries.parquet"},
    "file named dots": {"uri": "{source}/.."},
    "source with dots": {"base": "{source}/../../people/victim"},
    "source with encoded dots": {"base": "{source}/%2e%2e/people/victim"},
    "source with a scheme": {"base": "s3://other/raw"},
    "source of another kind": {"base": "memory://other"},
    "relative source": {"base": "raw"},
    "source with NUL": {"base": "{source}\0"},
    "unknown scheme": {"base": "ftp://other/raw"},
}


@pytest.mark.parametrize("agreed", [False, True], ids=["index alone", "properties too"])
@pytest.mark.parametrize("way", list(WAYS_OUT))
def test_no_way_of_writing_a_path_in_the_index_leads_elsewhere(
    tmp_path: Path, shared: Path, victim: Path, way: str, agreed: bool
) -> None:
    source = shared.parent / "raw"
    shutil.copytree(victim, source)
    _say(shared, str(source))
    _index(shared, str(source), f"file:{source}/salaries.parquet")
    assert len(_open(shared).scan().to_arrow()) == 1, "the table is good"
    changes = {name: text.format(victim=victim, source=source) for name, text in WAYS_OUT[way].items()}
    _index(shared, **changes)
    if agreed and "base" in changes:
        _say(shared, changes["base"].replace("\0", "\\u0000"))
    with (
        untouched(victim, source),
        pytest.raises((UnsafePathError, CorruptBaseFileError, UnsupportedTableError)) as caught,
    ):
        _open(shared).scan().to_arrow()
    assert caught.value.hint
    assert not hudi.check_table(str(shared)).ok


# --- buckets


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """A store in this process with two buckets; the buckets that requests ask for."""
    buckets: list[str] = []
    send = botocore.client.BaseClient._make_api_call

    def recorded(self: Any, operation: str, arguments: dict[str, Any]) -> Any:
        buckets.append(arguments.get("Bucket", ""))
        return send(self, operation, arguments)

    with mock_aws():
        client = boto3.client("s3", region_name="us-east-1")
        for name in ("lake", "salaries"):
            client.create_bucket(Bucket=name)
        monkeypatch.setattr(botocore.client.BaseClient, "_make_api_call", recorded)
        yield buckets


S3 = {"region": "us-east-1", "access_key_id": "AKIDEXAMPLE", "secret_access_key": "very-secret"}


def test_another_bucket_is_not_asked_with_the_credentials_of_the_reader(called: list[str]) -> None:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"id": ["x"], "salary": [100]}), sink)
    open_storage("s3://salaries", S3).put("raw/salaries.parquet", sink.getvalue().to_pybytes())
    assert hudi.bootstrap(
        "s3://salaries/raw", "s3://lake/t", "id", mode="METADATA_ONLY", source_options=S3, storage_options=S3
    )
    assert "salaries" in called
    called.clear()
    for read in (lambda: hudi.open_table("s3://lake/t", S3).scan().to_arrow(), lambda: _refused("s3://lake/t")):
        with pytest.raises(UnsafePathError, match="s3://salaries/raw"):
            read()
    assert set(called) == {"lake"}
    for given in ("s3://salaries/raw", "s3a://salaries"):
        assert len(hudi.open_table("s3://lake/t", S3, allow_sources=given).scan().to_arrow()) == 1


def _refused(location: str) -> None:
    """Raise what `check` found."""
    [found] = hudi.check_table(location, S3).of(FindingKind.UNSAFE_PATH)
    raise UnsafePathError(found.what)


# --- the rule itself


@pytest.mark.parametrize(
    ("table", "source", "allowed"),
    [
        ("memory://b/lake/t", "memory://b/lake/raw", True),
        ("memory://b/lake/t", "memory://b/other", False),
        ("memory://b/lake/t", "memory://b/lakes", False),
        ("memory://b/t", "memory://b/raw", True),
        ("memory://b/t", "memory://c/raw", False),
        ("memory://b", "memory://c", False),
        ("/t-of-nobody", "/etc", False),
        ("/t-of-nobody", "/t-of-nobody/raw", True),
        ("/lake-of-nobody/t", "/lake-of-nobody", True),
        ("/lake-of-nobody/t", "/", False),
    ],
)
def test_the_parent_of_a_table_is_where_sources_may_be(table: str, source: str, allowed: bool) -> None:
    if allowed:
        assert open_source(open_storage(table), source).location == source
        return
    with pytest.raises(UnsafePathError):
        open_source(open_storage(table), source)
    open_source(open_storage(table, allowing({}, source)), source)


def test_folders_with_commas_can_be_allowed_and_another_process_knows_them() -> None:
    folders = ("/a,b", "/c", '/d"e')
    options = allowing({"allow_sources": "/c"}, [folders[0], Path(folders[2])])
    storage = open_storage("/t", options)
    assert storage.allowed_sources == ("/c", "/a,b", '/d"e')
    assert parse_sources(sources_text(folders)) == folders
    assert open_storage("/t", storage.spec().options).allowed_sources == storage.allowed_sources
    assert storage.without_fsync().allowed_sources == storage.allowed_sources
    s3 = open_storage("s3://b/t", {**S3, "allow_sources": "s3://c/x"})
    assert open_storage("s3://b/t", s3.spec().options).allowed_sources == ("s3://c/x",)


@pytest.mark.parametrize("wrong", ["hdfs://x", "~/raw", ["/a"], None])
def test_an_option_that_names_no_folder_is_refused(wrong: Any) -> None:
    with pytest.raises(HudiError) as caught:
        open_storage("/t", {"allow_sources": wrong})
    assert caught.value.hint


@pytest.mark.parametrize("mode", ["METADATA_ONLY", "FULL_RECORD"])
def test_a_file_of_a_source_that_is_none_is_named_with_its_folder(mode: str, tmp_path: Path, victim: Path) -> None:
    (victim / "late.parquet").write_bytes(b"no Parquet")
    with pytest.raises(CorruptBaseFileError) as caught:
        hudi.bootstrap(str(victim), str(tmp_path / "lake" / "table"), "id", mode=mode)
    assert caught.value.path == f"{victim}/late.parquet"
