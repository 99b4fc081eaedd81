"""What a rollback that was asked for did, as a value that prints well."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

from pyhudi_core.model.instant import Instant
from pyhudi_core.transaction.context import TableContext
from pyhudi_core.transaction.rollback import roll_back


@dataclass(frozen=True, slots=True)
class Rollback:
    """A write that was rolled back; or nothing, because no such write was pending. True as a condition if there was one.

    Attributes:
        of: the requested time of the write.
        instant: the completed rollback; None where there was nothing to roll back.
        reason: why there was nothing to roll back.
    """

    of: str
    instant: Instant | None = None
    reason: str = ""

    @property
    def changed(self) -> bool:
        """Whether there is a rollback."""
        return self.instant is not None

    def __bool__(self) -> bool:
        return self.changed

    def __str__(self) -> str:
        return f"Rollback of {self.of}: {self.instant or 'nothing to roll back, ' + self.reason}"

    def _repr_html_(self) -> str:
        return f"<p>{escape(str(self))}</p>"


def roll_back_on_request(context: TableContext, requested_time: str) -> Rollback:
    """Roll a pending write back, and say what was done. Raises as `roll_back`."""
    done = roll_back(context, requested_time)
    if done is not None:
        return Rollback(requested_time, done)
    timeline = context.folder.load()
    found = timeline.find(requested_time) or context.folder.archived(timeline, requested_time)
    if found is None:
        return Rollback(requested_time, reason="it is not on the timeline: rolled back already, or never there")
    if found.is_completed:
        return Rollback(
            requested_time, reason=f"the {found.action} has completed, and only pending writes are rolled back"
        )
    return Rollback(requested_time, reason=f"a pending {found.action} is not rolled back")
