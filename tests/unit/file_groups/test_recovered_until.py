"""Files that a recovery left alone are not deleted later: those older than the first instant after it."""

from __future__ import annotations

from collections.abc import Collection

from pyhudi_core.file_groups.unnamed_files import RECOVERED_KEY, recovered_until
from pyhudi_core.model.commit import CommitMetadata
from pyhudi_core.model.instant import Instant, parse_file_name
from pyhudi_core.timeline.active import Timeline


def _until(names: list[str], recovered: Collection[str]) -> str:
    timeline = Timeline.of(instant for instant in map(parse_file_name, names) if instant is not None)

    def read(instant: Instant) -> CommitMetadata:
        return CommitMetadata(None, extra={RECOVERED_KEY: "x"} if instant.requested_time in recovered else {})

    return recovered_until(timeline, read)


def test_they_end_at_the_first_instant_after_the_newest_recovery() -> None:
    names = ["10_11.commit", "20_21.commit", "30_31.commit", "40.commit.requested", "50_51.commit"]
    assert _until(names, ["20"]) == "30"
    assert _until(names, ["10", "30"]) == "40"


def test_after_the_last_instant_there_is_no_end() -> None:
    assert _until(["10_11.commit", "20_21.commit"], ["20"]) == "9" * 17


def test_a_table_that_was_never_recovered_has_none() -> None:
    assert _until(["10_11.commit"], []) == ""
