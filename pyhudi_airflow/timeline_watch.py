"""Read the timelines of a lake, and find the commits of a table that have not been reported. The calls block, so callers use a thread."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import pyhudi as hudi
from pyhudi.errors import HudiError, TableNotFoundError
from pyhudi_airflow.airflow_names import AirflowNotFoundException
from pyhudi_airflow.commit_facts import commit_facts
from pyhudi_core.orchestration import TablePosition, TimelineCursor
from pyhudi_core.orchestration.timeline_cursor import before, completion_of

MOST = 100
"""The maximum number of commits that one look reports; the next look reports the rest."""


@dataclass(frozen=True, slots=True)
class SeenTimeline:
    """One state of a table's timeline. ``table`` is None while the table does not exist."""

    name: str
    table: hudi.HudiTable | None
    timeline: hudi.Timeline | None

    @property
    def token(self) -> object:
        """The token of the state; two looks at the same state have equal tokens."""
        return None if self.timeline is None else frozenset(self.timeline)


@dataclass(slots=True)
class Looker:
    """Opens tables once and reads them repeatedly. A problem of a table is reported only once."""

    tables: dict[str, hudi.HudiTable] = field(default_factory=dict)
    said: dict[str, str] = field(default_factory=dict)

    def look(self, names: Iterable[str], hook: Any) -> tuple[list[SeenTimeline], list[str]]:
        """Return a look at each readable table, and messages about the others."""
        looks: list[SeenTimeline] = []
        news: list[str] = []
        for name in names:
            found, text = self._one(name, hook)
            if found is not None:
                looks.append(found)
            news += self.news(name, text)
        return looks, news

    def news(self, name: str, text: str) -> list[str]:
        """Return new messages about a table; an empty name stands for the connection. An empty text means that the problem is over."""
        if text == self.said.get(name, ""):
            return []
        self.said[name] = text
        return [text or f"{name or 'The connection'} can be used again."]

    def _one(self, name: str, hook: Any) -> tuple[SeenTimeline | None, str]:
        try:
            if name not in self.tables:
                self.tables[name] = hook.table(name)
            return SeenTimeline(name, self.tables[name], self.tables[name].timeline), ""
        except TableNotFoundError:
            self.tables.pop(name, None)
            return SeenTimeline(name, None, None), f"The table {name} does not exist yet; its watcher waits for it."
        except (HudiError, AirflowNotFoundException) as error:
            self.tables.pop(name, None)
            return None, f"The timeline of {name} cannot be read; its watcher tries again. {error}"


def first_position(look: SeenTimeline, start: str) -> TablePosition:
    """Return the first position of a watcher without a cursor: after the newest commit, or before the oldest one of the timeline (``earliest``)."""
    position = TablePosition()
    if look.timeline is not None and start == "newest":
        for instant in look.timeline.completed:
            position.reported(instant)
        position.waits_for(look.timeline.pending)
    return position


@dataclass(frozen=True, slots=True)
class News:
    """The unreported commits of a look.

    Attributes:
        facts: the facts of the commits with rows, oldest completion first.
        position: the position after these commits.
        more: whether the next look has more to report, because this look has `MOST` commits.
    """

    facts: list[dict[str, Any]]
    position: TablePosition
    more: bool = False


def news_of(look: SeenTimeline, before_it: TablePosition) -> News:
    """Return the unreported commits. ``before_it`` is not changed, so after an error the next look reports them again. A commit that completes late
    is also reported. Commits that were archived in the meantime are read from the history.
    """
    position = replace(before_it, seen=dict(before_it.seen), pending=list(before_it.pending))
    news = News([], position)
    if look.table is None or look.timeline is None:
        return news
    commits, found = set(look.timeline.commits), _unreported(look.table, look.timeline, position)
    for place, (instant, known) in enumerate(found):
        if len(news.facts) == MOST:
            position.waits_for([*look.timeline.pending, *(later for later, _ in found[place:])])
            return replace(news, more=True)
        commit = look.table.commit_metadata(instant) if known is None and instant in commits else known
        if commit is not None and commit.changes_rows:
            news.facts.append(commit_facts(look.table, instant, commit))
        position.reported(instant)
    position.waits_for(look.timeline.pending)
    return news


def _unreported(
    table: hudi.HudiTable, timeline: hudi.Timeline, position: TablePosition
) -> list[tuple[hudi.Instant, hudi.CommitMetadata | None]]:
    """Return the unreported instants, oldest completion first. Instants from the history have their metadata."""
    active = position.unreported(timeline.completed)
    found: list[tuple[hudi.Instant, hudi.CommitMetadata | None]] = [(instant, None) for instant in active]
    oldest = min(map(completion_of, timeline.completed), default="")
    if position.watermark and timeline.has_history and oldest > before(position.watermark):
        known = {instant.group for instant in active}
        archived = table.commits_with("", before(position.watermark))
        found += [one for one in archived if one[0].group not in known and position.unreported([one[0]])]
    return sorted(found, key=lambda one: (completion_of(one[0]), one[0].requested_time))


def position_of(text: object, name: str) -> TablePosition | None:
    """Return the position in a stored cursor; None if the cursor is missing or not readable."""
    positions: dict[str, TablePosition] = TimelineCursor.read(text if isinstance(text, str) else None).positions
    return positions.get(name)


def cursor_text(position: TablePosition, name: str) -> str:
    """Return the stored form of a position."""
    text: str = TimelineCursor({name: position}).text([name])
    return text
