"""The files of executors that can no longer complete their plan."""

from __future__ import annotations

from dataclasses import dataclass

from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.transaction import layout, removal
from pyhudi_core.transaction import markers as marked


@dataclass(frozen=True, slots=True)
class LeftByExecutors:
    """The names of the files that executors of a plan left.

    The files are listed before the registration of the next executor is decided, and are removed by name after the registration. So an executor that
    sleeps between the listing and the removal removes no file of a later executor, because the files of a later executor have other names.
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
        removal.delete_given_up(context.storage, self.data_files, contained=contained)
        context.storage.delete_many(self.markers)
        marked.remove_folder(context.storage, self.requested_time)
        context.root.delete_many(self.staged)
