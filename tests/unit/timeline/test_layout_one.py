"""Layout 1: commits in JSON, and the archive while its files are merged. tests/golden/test_other_versions.py has whole tables."""

from __future__ import annotations

import io
import json
from pathlib import Path

import fastavro
import pytest
from support.golden import OTHER_VERSIONS, unpack

from pyhudi_core.errors import CorruptTimelineError
from pyhudi_core.model.instant import DATA_ACTIONS, Action, Instant, State
from pyhudi_core.storage.base import Storage
from pyhudi_core.storage.local import LocalStorage
from pyhudi_core.timeline.layout_one.archived_logs import ArchivedLogs
from pyhudi_core.timeline.layout_one.layout import LayoutOne

PATH = ".hoodie/archived"
TORN = ".commits_.archive.2_1-0-1"
PLAN = {"type": "record", "name": "HoodieMergeArchiveFilePlan", "fields": [{"name": "mergedArchiveFileName", "type": "string"}]}  # fmt: skip


@pytest.mark.parametrize("key", ["partitionToWriteStats", "partitionToReplaceFileIds"])
def test_a_partition_without_a_name_is_none_and_one_with_a_wrong_value_is_damage(key: str) -> None:
    instant = Instant("20260101000000000", Action.REPLACECOMMIT, State.COMPLETED, "20260101000000000")

    def content(partition: str) -> object:
        return LayoutOne().content(json.dumps({key: {partition: 5}}).encode(), instant, "a")[key]

    assert content("null") == {}
    with pytest.raises(CorruptTimelineError, match="no JSON of a commit"):
        content("p")


@pytest.mark.parametrize(("plan", "is_damage"), [(TORN, False), (".commits_.archive.3_1-0-1", True), ("", True), (None, True)])  # fmt: skip
def test_a_torn_file_of_the_archive_is_damage_unless_a_merge_was_writing_it(
    storage: Storage, plan: str | None, is_damage: bool
) -> None:
    storage.put(f"{PATH}/{TORN}", b"#HUDI#torn")
    if plan is not None:
        body = io.BytesIO()
        fastavro.writer(body, fastavro.parse_schema(PLAN), [{"mergedArchiveFileName": f"/a/{plan}"}])
        storage.put(f"{PATH}/mergeArchivePlan", body.getvalue() if plan else b"")
    problem = ArchivedLogs(storage, PATH).state().problem
    assert (problem is not None and TORN in problem) is is_damage
    assert problem is None or is_damage


def test_archived_commits_count_at_their_requested_times(tmp_path: Path) -> None:
    """There is no other time in layout 1; so a commit is in the range that ends with it, also the first one of a file."""
    unpack("hudi-0.15.0/cow_archived", tmp_path / "table", OTHER_VERSIONS)
    logs = ArchivedLogs(LocalStorage(str(tmp_path / "table"), fsync=False), PATH)
    times = sorted(time for time, action in logs.all_rows() if Action(action) in DATA_ACTIONS)
    assert {file.first for file in logs.state().files} & set(times)
    for number, time in enumerate(times, 1):
        assert [instant.requested_time for instant in logs.completed_between("", time)] == times[:number]
        assert [instant.requested_time for instant in logs.completed_between(time, "9")] == times[number:]
