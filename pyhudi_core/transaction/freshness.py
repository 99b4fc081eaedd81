"""Load a timeline that shows every instant that is already known.

A listing may be old, so no decision trusts a listing alone. The listing must show the files that are known to exist from other sources. If the
listing lacks such a file, a look at this one object says whether the file exists; every storage answers this look truthfully. If the file exists, the
listing is too old, and is requested again.
"""

from __future__ import annotations

from collections.abc import Iterable

from pyhudi_core.errors import StorageError
from pyhudi_core.model.instant import Instant, parse_file_name
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.timeline.active import Timeline
from pyhudi_core.timeline.restored import is_undone
from pyhudi_core.transaction.record import Intent

_LOOKS = 20
_WAIT_S = 0.05


def load_showing(context: TableContext, expected: Iterable[Instant]) -> Timeline:
    """Load the timeline. Every expected instant whose file exists is on the timeline, in the same state or in a later state.

    Raises `StorageError` if the listing stays old for longer than a second.
    """
    wanted = tuple(expected)
    for look in range(_LOOKS):
        if look:
            context.runtime.clock.sleep(_WAIT_S)
        timeline = context.folder.load()
        if not any(_hides(context, timeline, instant) for instant in wanted):
            return timeline
    raise StorageError(
        f"The storage's listing of the timeline did not show the newest instants in {_LOOKS * _WAIT_S:g} s",
        table=context.table,
        path=context.folder.path,
        hint="Nothing was decided on it; try again when the storage lists what was written.",
    )


def published(place: TableContext, intent: Intent | None) -> list[Instant]:
    """Return the instants whose files a decision puts on the timeline of this table."""
    paths = (publication.path for publication in intent.publications) if intent is not None else ()
    found = (parse_file_name(path.rpartition("/")[2]) for path in paths if place.has(path))
    return [instant for instant in found if instant is not None]


def _hides(context: TableContext, timeline: Timeline, instant: Instant) -> bool:
    """Say whether the instant's file exists although the timeline does not show the instant.

    Return False for archived instants and undone instants, which are no longer on the timeline.
    """
    shown = timeline.find(instant.requested_time, instant.action)
    if (shown is not None and shown.rank >= instant.rank) or is_undone(instant, context.folder.undone):
        return False
    if context.storage.head(context.folder.file(instant)) is None:
        return False
    return context.folder.archived(timeline, instant.requested_time, instant.action) is None
