"""Tables of processes with a given clock, commits of writers that do not reserve their time, and the check of the order of times."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

from support.homes import StandingClock, home_at, runtime_with

from pyhudi_core.formats.avro.container import encode_record
from pyhudi_core.model.commit import CommitMetadata
from pyhudi_core.model.instant import Action
from pyhudi_core.table import HudiTable

HOUR_MS = 3_600_000


def table_at(location: str, clock: StandingClock, **options: object) -> HudiTable:
    """The table of a process with this clock."""
    given = {key.replace("__", "."): value for key, value in options.items()}
    return HudiTable(home_at(location, runtime_with(clock=clock), given))


def ms(text: str, zone: str = "UTC") -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp() * 1000)


def assert_in_order(table: HudiTable) -> None:
    """Check that every commit began and completed after all commits that had completed when it began, and that no time is used twice."""
    commits = list(table.timeline.commits)
    completions = [str(instant.completion_time) for instant in commits]
    assert all(instant.requested_time < str(instant.completion_time) for instant in commits)
    assert len({i.requested_time for i in commits} | set(completions)) == 2 * len(commits)
    assert completions == sorted(completions)


def foreign_commit(table: HudiTable, requested: str, completed: str | None) -> None:
    """A commit of Hudi's writer: without reservation and token."""
    folder = Path(table.location, ".hoodie/timeline")
    folder.mkdir(exist_ok=True)
    (folder / f"{requested}.commit.requested").touch()
    (folder / f"{requested}.inflight").touch()
    if completed is not None:
        body = encode_record(
            "HoodieCommitMetadata", CommitMetadata("UPSERT").to_avro(Action.COMMIT), sync_marker=bytes(16)
        )
        (folder / f"{requested}_{completed}.commit").write_bytes(body)
