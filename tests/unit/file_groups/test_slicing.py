"""Which log file lies on which base file: RFC-66 with its pitfalls."""

from __future__ import annotations

import pytest

from pyhudi_core.file_groups.slice import BaseFile, LogFile, SlicePiece, newest_base, slices_of
from pyhudi_core.model.file_names import BaseFileName, LogFileName


def base(time: str) -> BaseFile:
    return BaseFile("p", BaseFileName("f", "1-0-1", time), 10)


def log(time: str, version: int = 1, token: str = "1-0-1") -> LogFile:
    return LogFile("p", LogFileName("f", time, version, token), 10)


def shape(pieces: list[SlicePiece]) -> list[tuple[str, bool, list[str]]]:
    return [(p.time, p.base is not None, [entry.name.requested_time for entry in p.logs]) for p in pieces]


COMPLETED = {"t10": "t20", "t21": "t40", "t30": "t50", "t35": "t90", "t60": "t80", "t99": "t99"}


@pytest.mark.row("L10")
def test_the_worked_example_of_rfc_66() -> None:
    logs = [log("t35"), log("t30"), log("t21")]
    found = slices_of([base("t10"), base("t60")], logs, COMPLETED.__getitem__)
    assert shape(found) == [("t10", True, ["t21", "t30"]), ("t60", True, ["t35"])]


def test_before_the_compaction_has_run_all_logs_lie_on_the_old_base_file_in_their_order() -> None:
    logs = [log("t35"), log("t30"), log("t21")]
    assert shape(slices_of([base("t10")], logs, COMPLETED.__getitem__)) == [("t10", True, ["t21", "t30", "t35"])]


def test_a_group_without_a_base_file_is_named_by_its_first_log() -> None:
    found = slices_of([], [log("t30"), log("t21")], COMPLETED.__getitem__)
    assert shape(found) == [("t21", False, ["t21", "t30"])]
    assert newest_base(found) is None


def test_a_log_older_than_every_base_file_does_not_disturb_them() -> None:
    found = slices_of([base("t60")], [log("t21"), log("t35")], COMPLETED.__getitem__)
    assert shape(found) == [("t21", False, ["t21"]), ("t60", True, ["t35"])]


def test_logs_of_one_instant_are_in_the_order_of_version_and_token() -> None:
    logs = [log("t21", 2), log("t21", 1, "9-0-1"), log("t21", 1, "1-0-1"), log("t21", 10)]
    (piece,) = slices_of([base("t10")], logs, COMPLETED.__getitem__)
    assert [(e.name.version, e.name.write_token) for e in piece.logs] == [
        (1, "1-0-1"), (1, "9-0-1"), (2, "1-0-1"), (10, "1-0-1"),
    ]  # fmt: skip


def test_read_optimized_takes_the_newest_base_and_tells_what_it_leaves_out() -> None:
    read = newest_base(slices_of([base("t10")], [log("t21"), log("t35")], COMPLETED.__getitem__))
    assert read is not None
    assert shape([read]) == [("t10", True, ["t21", "t35"])]


def test_an_empty_group_has_nothing_to_read() -> None:
    assert slices_of([], [], COMPLETED.__getitem__) == []
