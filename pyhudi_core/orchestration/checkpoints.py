"""The positions up to which each asset, or each of its partitions, has read each input. The commits of the asset's own table store them.

A commit's extra metadata holds ``pyhudi.checkpoint.<input>``: for each reading asset a completion time of the input's table, or one for each
partition key. A commit also repeats the positions of older commits: of all commits up to the completion time ``pyhudi.checkpoints.seen``. Therefore a
search reads only the newest commit with positions, and the commits that completed after its ``seen``. It skips commits of other writers.

Invariants
- The position of an asset's partition only moves forward, and a run moves only the positions of its own partitions.
- Two concurrent commits lose no position of each other: the later time of each position is kept.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pyhudi_core.errors import CorruptTimelineError
from pyhudi_core.model.bounded_json import parse_json
from pyhudi_core.orchestration import past_commits

if TYPE_CHECKING:
    from pyhudi_core.model.commit import CommitMetadata
    from pyhudi_core.table import HudiTable

PREFIX = "pyhudi.checkpoint."
SEEN = "pyhudi.checkpoints.seen"
KEPT_PARTITIONS = 2_000
"""Maximum number of partitions of an asset with a position. Beyond it the oldest positions are dropped, and their partitions read everything
again."""


@dataclass(frozen=True, slots=True)
class Position:
    """The positions of one asset in one input: ``watermark`` of the complete asset (runs without partitions), and one for each partition key.

    They are completion times; empty if nothing was read.
    """

    watermark: str = ""
    partitions: Mapping[str, str] = field(default_factory=dict)

    def at(self, key: str) -> str:
        """Return the position of one partition key."""
        return max(self.watermark, self.partitions.get(key, ""))

    def after(self, keys: Sequence[str]) -> str | None:
        """Return the position after which a run for these keys must read, so that it misses no change. No keys: a run for the complete asset."""
        return (min(map(self.at, keys)) if keys else self.watermark) or None

    def moved(self, keys: Sequence[str], until: str) -> Position:
        """Return the positions after a run for these keys has read up to ``until``."""
        if not keys:
            return self.merged(Position(until))
        return self.merged(Position(partitions=dict.fromkeys(keys, until)))

    def merged(self, other: Position) -> Position:
        """Return the later of both positions for each partition; only the latest ``KEPT_PARTITIONS`` are kept."""
        watermark = max(self.watermark, other.watermark)
        later = {key: max(self.at(key), other.at(key)) for key in {**self.partitions, **other.partitions}}
        own = sorted(((time, key) for key, time in later.items() if time > watermark), reverse=True)
        return Position(watermark, {key: time for time, key in own[:KEPT_PARTITIONS]})

    def to_json(self) -> dict[str, object]:
        """``{"watermark": time, "partitions": {time: [keys]}}``; keys are grouped by time, because a run moves many keys at once."""
        by_time: dict[str, list[str]] = {}
        for key, time in sorted(self.partitions.items()):
            by_time.setdefault(time, []).append(key)
        entries: dict[str, object] = {"watermark": self.watermark, "partitions": by_time}
        return {name: value for name, value in entries.items() if value}

    @classmethod
    def from_json(cls, entry: Mapping[str, object]) -> Position:
        """Parse the positions; the inverse of `to_json`."""
        by_time = entry.get("partitions") or {}
        assert isinstance(by_time, dict)
        partitions = {key: time for time, keys in by_time.items() for key in keys}
        return cls(str(entry.get("watermark", "")), partitions)


_NO_POSITION = Position()


@dataclass(frozen=True, slots=True)
class Positions:
    """All positions in the commits of a table, by (input, asset); ``seen`` is the completion time up to which the commits were read."""

    known: Mapping[tuple[str, str], Position] = field(default_factory=dict)
    seen: str = ""

    def of(self, name: str, asset: str) -> Position:
        """Return the positions of an asset in an input."""
        return self.known.get((name, asset), _NO_POSITION)

    def moved(self, name: str, asset: str, keys: Sequence[str], until: str) -> Positions:
        """Return the positions after a run of the asset for these keys has read the input up to ``until``."""
        return replace(self, known={**self.known, (name, asset): self.of(name, asset).moved(keys, until)})

    def extra(self) -> dict[str, str]:
        """Return the entries for a commit's extra metadata; empty if there is no position."""
        by_input: dict[str, dict[str, object]] = {}
        for (name, asset), position in sorted(self.known.items()):
            by_input.setdefault(name, {})[asset] = position.to_json()
        entries = {PREFIX + name: json.dumps(assets, separators=(",", ":")) for name, assets in by_input.items()}
        return {**entries, SEEN: self.seen} if entries else {}


def positions_of(table: HudiTable | None) -> Positions:
    """Return the positions in a table's commits, including archived commits.

    Reads the newest commit with positions, and the commits that completed after its ``seen``.
    """
    if table is None:
        return Positions()
    # Newest first: a commit that completes during the search is read twice rather than never.
    seen = table.timeline.newest_completion
    _, newest = next(iter(table.commits_with(PREFIX)), (None, None))
    if newest is None:
        return Positions(seen=seen)
    return Positions(_merged_after(table, newest.extra.get(SEEN, "")), seen)


def carried(table: HudiTable) -> Positions:
    """Return the positions that a write without inputs repeats.

    Only the active timeline is searched, so that such a write never reads the history.
    """
    positions = (commit for commit in past_commits.commits_newest_first(table) if _has_positions(commit.metadata))
    return positions_of(table) if next(positions, None) is not None else Positions()


def moved_since(table: HudiTable, known: Positions) -> Positions:
    """Return the positions in commits that completed after ``known`` was read."""
    return Positions(_merged_after(table, known.seen), known.seen)


def _merged_after(table: HudiTable, after: str) -> dict[tuple[str, str], Position]:
    return _merged(commit for _, commit in table.commits_with(PREFIX, after))


def _merged(commits: Iterable[CommitMetadata]) -> dict[tuple[str, str], Position]:
    found: dict[tuple[str, str], Position] = {}
    for commit in commits:
        for key, text in commit.extra.items():
            if key.startswith(PREFIX):
                for asset, position in _parsed(key, text).items():
                    place = (key.removeprefix(PREFIX), asset)
                    found[place] = found.get(place, _NO_POSITION).merged(position)
    return found


def _parsed(key: str, text: str) -> dict[str, Position]:
    """Return the positions in an entry of a commit, by asset. Raises `CorruptTimelineError`."""
    try:
        return {str(asset): Position.from_json(entry) for asset, entry in parse_json(text).items()}
    except (ValueError, TypeError, AttributeError, AssertionError, RecursionError) as error:
        raise CorruptTimelineError(
            f"The positions of readers that a commit stores under {key[:200]!r} are damaged: {error!s:.200}",
            hint="Roll the commit back, or restore the table to before it; without the positions, it is not known what was read.",
        ) from error


def _has_positions(commit: CommitMetadata) -> bool:
    return any(key.startswith(PREFIX) for key in commit.extra)
