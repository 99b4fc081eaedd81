"""Tags: savepoints that a schedule makes, and deletes when there are enough newer ones (``pyhudi.tags.daily=30`` and others).

A tag is a savepoint of the newest commit, made by `TAGGED_BY`; its comment names the schedules and their periods, such as ``daily 2026-11-29``. A tag
is due once in each period of a schedule (hour, day, week, month, in UTC), if the newest commit has no savepoint. The option of a schedule is the
number of last periods whose tags it keeps; a tag that no schedule keeps is deleted. One tag can belong to a day and to a month. Other savepoints
stay.

One decision makes a savepoint, and another one deletes it. So a run that dies leaves only complete tags, and the next run continues.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import ClassVar

from pyhudi_core.model.instant import Instant
from pyhudi_core.model.printing import printable
from pyhudi_core.options.write_options import UpkeepOptions
from pyhudi_core.savepoints.savepoint_files import TAGGED_BY, Savepoint, read_savepoints
from pyhudi_core.savepoints.savepoints import Savepoints
from pyhudi_core.services.service import Execution, Figures, ServiceResult, TableService
from pyhudi_core.transaction.commit import ask_gate
from pyhudi_core.write.retrying import Retries

_PERIODS = {"hourly": "%Y-%m-%d %H:00", "daily": "%Y-%m-%d", "weekly": "%G-W%V", "monthly": "%Y-%m"}
_OFF = "no schedule of tags: give pyhudi.tags.daily=30, or hourly, weekly, monthly"


@dataclass(frozen=True, slots=True)
@printable
class TaggingPlan:
    """The tags that a run would make and delete. If there are none, the plan is false and has the reason.

    Attributes:
        commit: the requested time of the commit that gets a tag; empty if no tag is due.
        names: the names of the tag: schedules with their periods.
        gone: the commits whose tags would be deleted.
    """

    commit: str = ""
    names: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    why_not: str = ""

    @property
    def figures(self) -> Figures:
        """Numbers of tags to make and to delete."""
        return {"made": int(bool(self.commit)), "deleted": len(self.gone)}

    def __bool__(self) -> bool:
        return bool(self.commit or self.gone)

    def __str__(self) -> str:
        if not self:
            return f"No tag is due: {self.why_not}"
        made = [f"tag {self.commit} as {', '.join(self.names)}"] if self.commit else []
        return "; ".join([*made, *([f"delete {len(self.gone)} tags"] if self.gone else [])]).capitalize()


@dataclass(frozen=True, slots=True)
class TaggingResult(ServiceResult):
    """The tags that were made and deleted, by the requested times of their commits."""

    service: ClassVar[str] = "tagging"
    made: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()

    @property
    def changed(self) -> bool:
        """Whether a tag was made or deleted."""
        return bool(self.made or self.deleted)

    @property
    def figures(self) -> Figures:
        """Numbers of tags that were made and deleted."""
        return {"made": len(self.made), "deleted": len(self.deleted)}


class ScheduledTags(TableService[TaggingResult]):
    """Makes tags of one table by the schedules of its options, and deletes tags that no schedule keeps."""

    name = "tagging"
    summary = "make the savepoints of a schedule, and delete those that it keeps no longer"

    def plan(self) -> TaggingPlan:
        """Return which tags would be made and deleted now. Changes nothing."""
        context = self.context
        schedules = dict(_schedules(context.options.upkeep))
        if not schedules:
            return TaggingPlan(why_not=_OFF)
        timeline = context.folder.load()
        saved = read_savepoints(context.folder, timeline)
        tags = [one for one in saved if one.created_by == TAGGED_BY]
        now = {name: _period(name, context.runtime.clock.now_ms()) for name in schedules}
        due = [name for name in schedules if not any(_period(name, tag.created_ms) == now[name] for tag in tags)]
        newest = max(timeline.commits, key=lambda commit: commit.completion_time or "", default=None)
        tagged = newest is None or any(one.instant == newest.requested_time for one in saved)
        commit = "" if not due or tagged or newest is None else newest.requested_time
        names = tuple(f"{name} {now[name]}" for name in due) if commit else ()
        made = [Savepoint(commit, "", TAGGED_BY, "", context.runtime.clock.now_ms())] if commit else []
        gone = tuple(tag.instant for tag in _gone([*tags, *made], schedules))
        why_not = "each schedule has its tag" if not due else "the table has no commit that has no savepoint"
        return TaggingPlan(commit, names, gone, "" if commit or gone else why_not)

    def schedule(self) -> Instant | None:
        """None: a tag is not planned on the timeline. Use `run`, from any process."""
        return None

    def take_over(self) -> TaggingResult:
        """Do nothing: a run that died has left only complete tags, and the next run continues."""
        return self._nothing("a run leaves nothing to finish")

    def _run(self, how: Execution, retries: Retries) -> TaggingResult:
        """Make the tag that is due, then delete tags that no schedule keeps. Raises as `Savepoints.create`."""
        planned = self.plan()
        if not planned:
            return self._nothing(planned.why_not)
        ask_gate(how.gate, self.context, "to make or delete tags")
        savepoints = Savepoints(self.context)
        names = ", ".join(planned.names)
        tag = savepoints.create(planned.commit, names, TAGGED_BY) if planned.commit else None
        made = (tag.instant,) if tag is not None and tag.created_by == TAGGED_BY else ()
        # The deletion follows from the current tags: another process may have made a savepoint of the commit first, and then the older tag is the
        # last one.
        tags = [one for one in savepoints if one.created_by == TAGGED_BY]
        gone = _gone(tags, dict(_schedules(self.context.options.upkeep)))
        return TaggingResult(made=made, deleted=tuple(tag.instant for tag in gone if savepoints.delete(tag)))

    def _execute(self, requested_time: str | None, execution: Execution) -> TaggingResult:
        return self.run(gate=execution.gate, progress=execution.progress)

    def _nothing(self, why_not: str) -> TaggingResult:
        return TaggingResult(why_not=why_not)


def _schedules(options: UpkeepOptions) -> Iterator[tuple[str, int]]:
    """Yield the enabled schedules, each with the number of tags to keep."""
    for name in _PERIODS:
        keep: int = getattr(options, f"tags_{name}")
        if keep:
            yield name, keep


def _period(schedule: str, made_ms: int) -> str:
    return datetime.fromtimestamp(made_ms / 1000, UTC).strftime(_PERIODS[schedule])


def _gone(tags: Sequence[Savepoint], schedules: Mapping[str, int]) -> list[Savepoint]:
    """Return the tags that no schedule keeps."""
    kept = {tag.instant for name, keep in schedules.items() for tag in _kept(tags, name, keep)}
    return [tag for tag in tags if tag.instant not in kept]


def _kept(tags: Sequence[Savepoint], schedule: str, keep: int) -> list[Savepoint]:
    """Return the last tag of each of the newest periods."""
    last = {_period(schedule, tag.created_ms): tag for tag in sorted(tags, key=lambda tag: tag.created_ms)}
    return [last[period] for period in sorted(last)[-keep:]]
