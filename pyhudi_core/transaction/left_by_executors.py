"""Files of executors of a plan that can no longer complete the plan."""

from __future__ import annotations

from dataclasses import dataclass

from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.transaction import layout, removal
from pyhudi_core.transaction import markers as marked


@dataclass(frozen=True, slots=True)
class LeftByExecutors:
    """Names of files that executors of a plan left.

    They are listed before the next executor is decided, and removed by name afterwards. So an executor that sleeps in between removes no file of its
    successor, whose files have other names.
    """

    requested_time: str
    data_files: tuple[str, ...]
    markers: tuple[str, ...]
    staged: tuple[str, ...]
    at_companions: tuple[marked.LeftAtCompanion, ...]

    @classmethod
    def of(cls, context: TableContext, requested_time: str) -> LeftByExecutors:
        """List the current files of all executors."""
        return cls(
            requested_time,
            tuple(marked.announced(context.storage, requested_time)),
            tuple(marked.marker_files(context.storage, requested_time)),
            tuple(info.path for info in context.root.list(layout.staged(requested_time, ""))),
            tuple(marked.left_at_companions(context, requested_time)),
        )

    def remove(self, context: TableContext) -> None:
        """Remove these files."""
        for left in self.at_companions:
            left.remove()
        contained = context.protections.path_containment
        removal.delete_data_files(context.storage, self.data_files, contained=contained)
        context.storage.delete_many(self.markers)
        context.storage.remove_empty_folders(layout.markers(self.requested_time))
        context.root.delete_many(self.staged)
