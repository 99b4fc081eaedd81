"""Tables of processes whose clocks are told what to show, commits of writers that trust theirs, and what order is."""

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
    """Every commit began and completed after all that had completed when it began, and no time is there twice."""
    commits = list(table.timeline.commits)
    completions = [str(instant.completion_time) for instant in commits]
    assert all(instant.requested_time < str(instant.completion_time) for instant in commits)
    assert len({i.requested_time for i in commits} | set(completions)) == 2 * len(commits)
    assert completions == sorted(completions)


def foreign_commit(table: HudiTable, requested: str, completed: str | None) -> None:
    """A commit of Hudi's own writer: no reservation, no token."""
    folder = Path(table.location, ".hoodie/timeline")
    folder.mkdir(exist_ok=True)
    (folder / f"{requested}.commit.requested").touch()
    (folder / f"{requested}.inflight").touch()
    if completed is not None:
        body = encode_record(
            "HoodieCommitMetadata", CommitMetadata("UPSERT").to_avro(Action.COMMIT), sync_marker=bytes(16)
        )
        (folder / f"{requested}_{completed}.commit").write_bytes(body)
