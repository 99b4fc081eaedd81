"""The error of an expired read names the options that would have helped: who sets them, and does the same again, can read."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from support.tables import make

import pyhudi_core as hudi
from pyhudi_core.errors import SnapshotExpiredError
from pyhudi_core.read.expired import to_keep_changes, to_keep_files

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.int64())])
ARCHIVED = {"hoodie.keep.min.commits": 2, "hoodie.keep.max.commits": 3}
NOT_ARCHIVED = {"hoodie.archive.automatic": "false"}
CLEANED = {"hoodie.clean.automatic": "true", "hoodie.clean.commits.retained": 1}
BY_VERSIONS = {
    "hoodie.clean.automatic": "true", "hoodie.clean.policy": "KEEP_LATEST_FILE_VERSIONS",
    "hoodie.clean.fileversions.retained": 1,
}  # fmt: skip
REMOVED = {
    "archived": ARCHIVED,
    "cleaned": {**CLEANED, **NOT_ARCHIVED},
    "cleaned by versions": {**BY_VERSIONS, **NOT_ARCHIVED},
    "archived and cleaned": {**ARCHIVED, **CLEANED},
    "archived and cleaned by versions": {**ARCHIVED, **BY_VERSIONS},
}
READS: dict[str, Callable[[hudi.HudiTable, list[Any]], pa.Table]] = {
    "as of a commit": lambda table, commits: table.scan(as_of=commits[1]).to_arrow(),
    "as of a time": lambda table, commits: table.scan(as_of=commits[1].completion_time).to_arrow(),
    "a range": lambda table, commits: table.incremental(after=commits[0], until=commits[2]).to_arrow(),
    "changes": lambda table, commits: table.changes(after=commits[0]).to_arrow(),
    "a consumer's rows": lambda table, commits: _batch(table, commits).rows().to_arrow(),
    "a consumer's changes": lambda table, commits: _batch(table, commits).changes().to_arrow(),
}


def _batch(table: hudi.HudiTable, commits: list[Any]) -> hudi.Batch:
    into = make(f"{table.location}-into", SCHEMA)
    start = commits[0].completion_time
    batch = hudi.Consumer("copy", table, into, start=start, most_commits=2).next()
    assert batch is not None
    return batch


def _made(location: str, options: dict[str, Any]) -> tuple[hudi.HudiTable, list[Any]]:
    table = make(location, SCHEMA, options=options)
    return table, [table.upsert(pa.table({"id": [0], "v": [number]}, SCHEMA)) for number in range(8)]


def _read(location: str, options: dict[str, Any], read: str) -> str | None:
    """What the error of the read says to do; None if it reads."""
    table, commits = _made(location, options)
    try:
        READS[read](table, commits)
    except SnapshotExpiredError as error:
        return error.hint
    return None


@pytest.mark.one_in(5)
@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("removed", REMOVED)
def test_the_options_that_an_expiry_names_would_have_kept_it(removed: str, read: str, location: str) -> None:
    options = dict(REMOVED[removed])
    hint = _read(location, options, read)
    if hint is None:
        assert removed == "archived"
        assert "changes" not in read
        return
    named = re.findall(r"hoodie\.[a-z.]*[a-z]", hint.partition("To keep more, raise ")[2])
    assert named
    kept = {**options, **{name: 1001 if ".max." in name else 1000 for name in named}}
    assert _read(f"{location}-kept", kept, read) is None, (hint, kept)


def test_each_policy_of_cleaning_has_its_option() -> None:
    assert "hoodie.clean.hours.retained of" in to_keep_files("KEEP_LATEST_BY_HOURS")
    assert "also hoodie.clean.hours.retained." in to_keep_changes("KEEP_LATEST_BY_HOURS")
    assert "hoodie.clean" not in to_keep_changes(None)
