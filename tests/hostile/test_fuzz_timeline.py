"""Damaged small files: what the timeline, its history, the properties and the locks consist of (promise P9).

500 cases a parser here, 50,000 with `PYHUDI_FUZZ=100` (`make fuzz`); see `support/fuzzing.py`.
"""

from __future__ import annotations

import itertools
import zipfile
from pathlib import Path

import pyarrow as pa
import pytest
from support.fuzzing import Fuzzed

from pyhudi_core.formats.avro.container import decode_record
from pyhudi_core.formats.history_file import HistoryFileReader, HistoryRow, encode_rows
from pyhudi_core.formats.history_manifest import (
    HistoryFile,
    decode_manifest,
    decode_version,
    encode_manifest,
    is_data_file,
)
from pyhudi_core.index.hashing_metadata import HashingMetadata
from pyhudi_core.lock.file_system import describe_foreign, parse_holder, this_process
from pyhudi_core.lock.storage_lock_file import LockFile
from pyhudi_core.model.commit import CommitMetadata
from pyhudi_core.model.file_names import parse_data_file
from pyhudi_core.model.instant import Action, Instant, State, is_time, parse_file_name
from pyhudi_core.model.java_properties import parse
from pyhudi_core.model.properties import TableConfig
from pyhudi_core.model.schema import from_avro
from pyhudi_core.storage.opening import open_storage
from pyhudi_core.timeline.layout_one.archived_logs import ArchivedLogs
from pyhudi_core.timeline.layout_one.layout import LayoutOne

GOLDEN = Path(__file__).parents[1] / "golden"
AVRO = {path.stem: path.read_bytes() for path in sorted((GOLDEN / "formats").glob("*.avro"))}
COMMITS = [AVRO["HoodieCommitMetadata"], AVRO["HoodieReplaceCommitMetadata"]]
PROPERTIES = [path.read_bytes() for path in sorted((GOLDEN / "properties").glob("*.properties"))]
ROWS = [HistoryRow(f"{n:017}", f"{n + 1:017}", "commit", COMMITS[0], b"plan" * 5) for n in range(40)]
MANIFEST = encode_manifest([HistoryFile(f"{n:017}_{n + 1:017}_0.parquet", 100 + n) for n in range(4)], "nonce")
LOCK = b'{"expired":false,"validUntil":1770000000000,"owner":"7d7d7a8c-6a4f-4a9f-9f0d-3f7a6a1f2c11"}'
HISTORY_BYTES = 4 << 20


def read_records(data: bytes) -> None:
    assert isinstance(decode_record(data, path="f"), dict)


def read_commit(data: bytes) -> None:
    """What is read of a completed commit: its files, and the schema in it."""
    commit = CommitMetadata.from_avro(decode_record(data, "HoodieCommitMetadata", path="f"))
    assert list(commit.file_groups()) is not None
    assert all(stat.partition is not None for stat in commit.stats)
    if commit.schema:
        from_avro(commit.schema)


def read_properties(data: bytes) -> None:
    assert TableConfig.from_properties(parse(data, path="p"), table="t").name


def read_history(data: bytes) -> None:
    reader = HistoryFileReader(pa.BufferReader(data), "f.parquet", HISTORY_BYTES)
    found = [*reader.times(), *reader.rows([ROWS[3].requested_time]), *itertools.islice(reader.rows(), 100)]
    reader.greatest_completion_time()
    assert all(row.requested_time.isdigit() for row in found)


def read_commit_of_layout_one(data: bytes) -> None:
    commit = LayoutOne().decode(data, Instant("1", Action.REPLACECOMMIT, State.COMPLETED, "1"), "f")
    assert all(isinstance(text, str) for stat in commit.stats for text in (stat.path, stat.file_id, stat.partition))
    assert all(isinstance(file_id, str) for _, file_id in commit.file_groups())
    if commit.schema:
        from_avro(commit.schema)


def read_archived_logs(data: bytes) -> None:
    storage = open_storage("memory://archived-logs", {})
    storage.put("archived/.commits_.archive.1_1-0-1", data)
    _, found = ArchivedLogs(storage, "archived").begun_since("0")
    assert all(is_time(instant.requested_time) for instant in found)


def of_version_6(table: str, ending: str) -> list[bytes]:
    with zipfile.ZipFile(GOLDEN / "other_versions" / "hudi-0.15.0" / table / "table.zip") as archive:
        names = (name for name in archive.namelist() if name.startswith(".hoodie/") and "/metadata/" not in name)
        return [archive.read(name) for name in names if name.endswith(ending)]


def read_manifest(data: bytes) -> None:
    assert all(is_data_file(file.name) and file.size >= 0 for file in decode_manifest(data, "manifest_1"))


def read_ranges(data: bytes) -> None:
    found = HashingMetadata.decode(data, "h")
    assert found.nodes and all("/" not in file_id for file_id in found.file_ids)


PARSERS = [
    Fuzzed("timeline records", read_records, list(AVRO.values()), [slice(0, 64), slice(-200, None)]),
    Fuzzed("commit metadata", read_commit, COMMITS, [slice(-600, None)]),
    Fuzzed("properties", read_properties, PROPERTIES),
    Fuzzed("history file", read_history, [encode_rows(ROWS, "nonce")], [slice(-1500, None)]),
    Fuzzed(
        "commits in JSON",
        read_commit_of_layout_one,
        [*of_version_6("cow_plain", ".commit"), *of_version_6("cow_hive_services", ".replacecommit")],
    ),
    Fuzzed("archived log files", read_archived_logs, of_version_6("cow_archived", "archive.1_1-0-1"), share=10),
    Fuzzed("history manifest", read_manifest, [MANIFEST]),
    Fuzzed("ranges of hashes", read_ranges, [HashingMetadata.first("day=a", buckets).encode() for buckets in (1, 3)]),
]


@pytest.mark.parametrize("parser", PARSERS, ids=lambda parser: parser.name)
def test_damaged_files_are_a_value_or_a_typed_error_within_bounds(parser: Fuzzed) -> None:
    parser.check()


def read_lock(data: bytes) -> None:
    holder = parse_holder(data)
    assert holder is None or holder.describe()
    assert describe_foreign(data)
    found = LockFile.parse(data)
    assert found is None or found.describe()


def read_version(data: bytes) -> None:
    number = decode_version(data)
    assert number is None or number >= 0


def read_names(data: bytes) -> None:
    """Names of timeline files and of data files: one of ours reads back as it was, every other is none."""
    name = data.decode("utf-8", "surrogateescape")
    instant = parse_file_name(name)
    assert instant is None or (is_time(instant.requested_time) and parse_file_name(instant.file_name()) == instant)
    file = parse_data_file(name)
    assert file is None or (is_time(file.requested_time) and parse_data_file(str(file)) == file)


NAMES = [
    "20260101000000000.commit.requested", "20260101000000000.inflight", "20260101000000000_20260101000000001.deltacommit",
    "20260101000000_20260101000001.replacecommit", "20260101000000000.compaction.inflight",
    "8082f73b-796f-4eae-9446-2810e54c8fa9-0_0-1-2_20260101000000000.parquet",
    ".8082f73b-796f-4eae-9446-2810e54c8fa9-0_20260101000000000.log.1_0-1-2", ".f_20260101000000000.log.12_3-4-5.cdc",
]  # fmt: skip

WHOLE_OR_NOT = [
    Fuzzed("names of files", read_names, [name.encode() for name in NAMES]),
    Fuzzed("lock files", read_lock, [this_process("nonce", 1_770_000_000_000, "upsert").to_bytes(), LOCK, b"[" * 5000]),
    Fuzzed("history version", read_version, [b"12", b"1"]),
]


@pytest.mark.parametrize("parser", WHOLE_OR_NOT, ids=lambda parser: parser.name)
def test_damaged_files_are_read_or_nothing_is_known_of_them(parser: Fuzzed) -> None:
    parser.check_without_errors()
