"""Shared by the services of a metadata table: the metadata table, seen from the data table (specification, "Metadata Table")."""

from __future__ import annotations

from pyhudi_core.metadata_table import names
from pyhudi_core.model.instant import Instant
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.services.planned_service import P, PlannedService, R, W
from pyhudi_core.timeline.active import Timeline

NONE = "the table has no metadata table"


def place_of(context: TableContext) -> TableContext | None:
    """Return the metadata table that a table lists; None if there is none."""
    return next((place for place in context.companions if place.prefix == names.FOLDER), None)


class AtMetadataTable(PlannedService[P, W, R]):
    """A service with plans on the metadata table's timeline; it is made from the data table's context. Without a metadata table it does nothing."""

    def __init__(self, context: TableContext) -> None:
        found = place_of(context)
        super().__init__(context if found is None else context.at(found))
        self.data = context
        self.exists = found is not None

    def schedule(self, *, triggered: bool = False) -> Instant | None:
        """Put a plan on the timeline of the metadata table; None if there is nothing to do, or no metadata table."""
        return super().schedule(triggered=triggered) if self.exists else None

    def _is_current(self, seen: Timeline, start: Timeline) -> bool:
        """Return False: the plan also depends on the timeline of the data table."""
        return False

    def _pending(self) -> list[Instant]:
        return super()._pending() if self.exists else []
