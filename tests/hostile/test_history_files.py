"""Damaged and hostile files in the history's folder: a typed error or the right answer, within limits, and nothing outside is touched."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest
from support.disk import contents
from support.fuzzing import MEGABYTE, measured_memory
from support.speed import slowness
from support.tables import make, orders, rows

import pyhudi_core as hudi
from pyhudi_core.errors import CorruptionError, CorruptTimelineError, HudiError, LimitExceededError
from pyhudi_core.formats import history_file
from pyhudi_core.formats.history_file import HistoryRow, encode_rows

OPTIONS = {
    "hoodie.time.generator.max_expected_clock_skew_ms": 1,
    "hoodie.archive.automatic": False,
    "hoodie.keep.min.commits": 2,
    "hoodie.keep.max.commits": 3,
}


class Archived:
    """A table with an archived part, and what was right before anybody touched its files."""

    def __init__(self, location: str) -> None:
        table = make(location, options=OPTIONS)
        self.commits = [table.upsert(orders((n, "ab"[n % 2], float(n), n))) for n in range(5)]
        table.archival.run()
        self.commits += [table.upsert(orders((n, "ab"[n % 2], float(n), n))) for n in range(5, 8)]
        table.archival.run()
        self.location = location
        self.folder = Path(location, ".hoodie/timeline/history")
        self.rows = rows(table)
        self.since = rows(table.incremental(after=self.commits[1].completion_time))

    @property
    def table(self) -> hudi.HudiTable:
        return hudi.open_table(self.location, options=OPTIONS)

    @property
    def manifest(self) -> Path:
        return max(self.folder.glob("manifest_*"), key=lambda path: int(path.name.partition("_")[2]))

    @property
    def data(self) -> list[Path]:
        return sorted(self.folder.glob("*.parquet"))

    def rewrite(self, change: Callable[[dict], None]) -> None:
        body = json.loads(self.manifest.read_bytes())
        change(body)
        self.manifest.write_text(json.dumps(body))

    def is_right_or_an_error(self) -> list[type[HudiError]]:
        """Ask everything; whatever is answered must be right, and a run of archival must change nothing. Returns the errors."""
        errors: list[type[HudiError]] = []

        def ask(question: Callable[[], object], answer: object) -> None:
            try:
                assert question() == answer
            except HudiError as error:
                assert str(error)
                errors.append(type(error))

        assert rows(self.table) == self.rows, "a snapshot does not need the history"
        ask(lambda: rows(self.table.incremental(after=self.commits[1].completion_time)), self.since)
        for number, commit in enumerate(self.commits):
            ask(lambda commit=commit: str(self.table.commit_status(commit.token)), "committed")
            wanted = [(n,) for n in range(number + 1)]
            ask(lambda commit=commit: rows(self.table.scan(as_of=commit.instant), "id"), wanted)
        return errors

    def and_archival_leaves_it(self) -> None:
        before = contents(self.folder)
        with suppress(CorruptTimelineError):  # or it has nothing to do
            assert not self.table.archival.run()
        assert contents(self.folder) == before


@pytest.fixture
def archived(location: str) -> Archived:
    return Archived(location)


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "pointer", [b"", b"-1", b"0x1", b"\0\0\0", b"9" * 400, b"1\n2", "\u0661".encode(), b"1", b" 2 \n"]
)
def test_a_pointer_that_says_nothing_leaves_every_answer_right(archived: Archived, pointer: bytes) -> None:
    (archived.folder / "_version_").write_bytes(pointer)
    assert archived.is_right_or_an_error() == []


@pytest.mark.parametrize("pointer", [b"3", b"999999999999999999"])
def test_a_pointer_to_a_manifest_that_is_not_there_makes_the_history_read_only(
    archived: Archived, pointer: bytes
) -> None:
    (archived.folder / "_version_").write_bytes(pointer)
    assert archived.is_right_or_an_error()
    archived.and_archival_leaves_it()
    with pytest.raises(CorruptionError):
        archived.table.upsert(orders((9, "a", 1.0)))


def test_without_any_manifest_answers_are_errors(archived: Archived) -> None:
    for path in archived.folder.glob("manifest_*"):
        path.unlink()
    assert archived.is_right_or_an_error()
    archived.and_archival_leaves_it()


def test_the_manifest_before_a_damaged_one_is_read(archived: Archived) -> None:
    archived.manifest.write_bytes(b"{}")
    errors = archived.is_right_or_an_error()
    assert errors
    assert len(errors) < 2 * len(archived.commits), "what the older manifest knows is answered"
    archived.and_archival_leaves_it()


NAMES = [
    "../../../../outside/20200101000000000_20270101000000000_0.parquet",
    "/outside/20200101000000000_20270101000000000_0.parquet",
    "..\\20200101000000000_20270101000000000_0.parquet",
    "20200101000000000_20270101000000000_0.parquet",
    "file:///etc/passwd",
    "",
    "manifest_1",
    ".",
]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", NAMES)
def test_a_manifest_that_names_a_foreign_or_missing_file_is_not_believed(
    archived: Archived, tmp_path: Path, name: str
) -> None:
    outside = tmp_path / "outside" / "20200101000000000_20270101000000000_0.parquet"
    outside.parent.mkdir()
    outside.write_bytes(encode_rows([HistoryRow("20200101000000000", "20260101000000000", "commit")], "n"))
    archived.rewrite(lambda body: body["files"].append({"fileName": name, "fileLen": 1}))
    assert archived.is_right_or_an_error()
    archived.and_archival_leaves_it()
    assert outside.exists()


def test_a_link_out_of_the_table_is_not_followed(archived: Archived, tmp_path: Path) -> None:
    secret = tmp_path / "secret.parquet"
    name = "20200101000000000_20270101000000000_0.parquet"
    secret.write_bytes(encode_rows([HistoryRow("20200101000000000", "20200101000000001", "commit")], "n"))
    (archived.folder / name).symlink_to(secret)
    archived.rewrite(lambda body: body["files"].append({"fileName": name, "fileLen": 1}))
    errors = archived.is_right_or_an_error()
    assert errors
    assert secret.exists()


def test_levels_that_overlap_give_every_instant_once(archived: Archived) -> None:
    first = archived.data[0]
    begin, end, _ = first.stem.split("_")
    copy = f"{begin}_{end}_1.parquet"
    shutil.copy(first, archived.folder / copy)
    archived.rewrite(lambda body: body["files"].append({"fileName": copy, "fileLen": first.stat().st_size}))
    assert archived.is_right_or_an_error() == []
    table = hudi.open_table(archived.location, options={**OPTIONS, "hoodie.timeline.compaction.batch.size": 2})
    for n in range(20, 26):
        table.upsert(orders((n, "a", 1.0)))
        table.archival.run()
    history = table._opened.context().folder.history
    state = history.state()
    seen = [(row.requested_time, row.action) for file in state.files for row in history.rows(state, file)]
    assert {commit.instant for commit in archived.commits} <= {time for time, _ in seen}
    assert [str(table.commit_status(c.token)) for c in archived.commits] == ["committed"] * len(archived.commits)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("damage", ["empty", "cut", "garbage", "footer", "folder", "other"])
def test_a_damaged_data_file_is_an_error_for_those_who_need_it(archived: Archived, damage: str) -> None:
    path = archived.data[0]
    good = path.read_bytes()
    if damage == "folder":
        path.unlink()
        path.mkdir()
    elif damage == "other":
        sink = pa.BufferOutputStream()
        pa.parquet.write_table(pa.table({"id": [1]}), sink)
        path.write_bytes(sink.getvalue().to_pybytes())
    else:
        bad = {"empty": b"", "cut": good[: len(good) // 2], "garbage": b"x" * len(good)}
        path.write_bytes(bad.get(damage, good[:-60] + b"\xff" * 40 + good[-20:]))
    assert archived.is_right_or_an_error()
    assert rows(archived.table) == archived.rows
    newest = archived.commits[-1]
    assert str(archived.table.commit_status(newest.token)) == "committed"


def test_every_single_byte_of_a_data_file_may_be_wrong(archived: Archived) -> None:
    path = archived.data[0]
    good = path.read_bytes()
    table = archived.table
    token = archived.commits[0].token
    answers = set()
    for at in range(0, len(good), max(1, len(good) // 60)):
        path.write_bytes(good[:at] + bytes([good[at] ^ 0x55]) + good[at + 1 :])
        try:
            answers.add(str(table.commit_status(token)))
        except HudiError as error:
            answers.add(type(error).__name__)
    assert "undecided" not in answers
    path.write_bytes(good)
    assert str(archived.table.commit_status(token)) == "committed"


def test_a_file_that_inflates_beyond_the_limit_is_refused(archived: Archived, monkeypatch: pytest.MonkeyPatch) -> None:
    path = archived.data[0]
    first, last, _ = path.stem.split("_")
    bomb = [HistoryRow(first, last, "commit", b"\0" * (257 << 20))]
    path.write_bytes(encode_rows(bomb, "n"))
    assert path.stat().st_size < 100_000
    table = archived.table
    with pytest.raises((LimitExceededError, CorruptionError)):
        table.commit_metadata(hudi.Instant(first, hudi.Action.COMMIT, hudi.State.COMPLETED, last))
    monkeypatch.setattr(history_file, "MAX_BYTES", 1)
    assert rows(archived.table) == archived.rows


def test_rows_of_unknown_actions_and_newer_versions_are_passed_over(archived: Archived) -> None:
    name = "20200101000000000_20200101000000009_0.parquet"
    strange = [
        HistoryRow("20200101000000000", "20200101000000003", "time_travel"),
        HistoryRow("20200101000000001", None, "indexing"),
        HistoryRow("20200101000000009", "20200101000000010", "schemacommit"),
    ]
    (archived.folder / name).write_bytes(encode_rows(strange, "n"))
    archived.rewrite(lambda body: body["files"].append({"fileName": name, "fileLen": 1}))
    assert archived.is_right_or_an_error() == []


def test_other_files_in_the_folder_are_passed_over_and_stay(archived: Archived) -> None:
    others = ["readme.txt", "manifest_x", "manifest_1.bak", ".manifest_9.crc", "1_2_3.parquet.tmp", "_version_.tmp"]
    for name in others:
        (archived.folder / name).write_bytes(b"x")
    (archived.folder / "manifest_99999999999999999999").write_bytes(b"x")
    assert archived.is_right_or_an_error() == []
    table = archived.table
    for n in range(20, 24):
        table.upsert(orders((n, "a", 1.0)))
    assert table.archival.run()
    assert all((archived.folder / name).exists() for name in others)


def test_a_small_file_with_a_million_equal_rows_is_refused_before_they_are_read(archived: Archived) -> None:
    rows = [HistoryRow("20200101000000000", "20200101000000001", "commit")] * 1_000_000
    archived.data[0].write_bytes(encode_rows(rows, "n"))
    assert archived.data[0].stat().st_size < 300_000
    started = time.process_time()
    with measured_memory() as memory, pytest.raises(CorruptTimelineError, match="1000000 rows"):
        list(archived.table.archived_commits())
    assert memory.grown < 64 * MEGABYTE
    assert time.process_time() - started < 1.0 * slowness()
