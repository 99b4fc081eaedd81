"""The drop of a table that was found by its name in a catalog: its files go first, as in `drop`, and then its names.

So a process that dies between them leaves names without a table, and the next drop of such a name takes them out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar

from pyhudi_core.catalog import addresses
from pyhudi_core.catalog.addresses import CatalogAddress, FoundTable
from pyhudi_core.errors import TableNotFoundError
from pyhudi_core.model.printing import printable
from pyhudi_core.naming import NotCalled
from pyhudi_core.repairs.drop import DroppedTable, TableDrop, TableDropPlan
from pyhudi_core.services.progress import ServiceProgress


@printable
class CatalogDrop(NotCalled):
    """The drop of one table and of its names in a catalog; ``drop_files``: returns the drop of its files, which raises `TableNotFoundError`."""

    _METHODS: ClassVar[str] = ".plan()"

    def __init__(self, address: CatalogAddress, found: FoundTable, drop_files: Callable[[], TableDrop]) -> None:
        self._address, self._found, self._drop_files = address, found, drop_files

    def __repr__(self) -> str:
        return f"Drop of {self._address.text}"

    def plan(self) -> TableDropPlan:
        """Return what a drop would delete now: files, and names in the catalog. Changes nothing."""
        files = self._files()
        planned = TableDropPlan(0, 0) if files is None else files.plan()
        return replace(planned, names=self._names)

    def __call__(self, *, progress: ServiceProgress | None = None) -> DroppedTable:
        """Delete the table for good, and take its names out of the catalog. Raises as `TableDrop`, and `CatalogError`: then the names are left."""
        files = self._files()
        done = DroppedTable(self._found.location) if files is None else files(progress=progress)
        addresses.remove(self._address, self._found)
        return replace(done, names=self._names)

    @property
    def _names(self) -> tuple[str, ...]:
        return tuple(one.full_name for one in self._found.entries)

    def _files(self) -> TableDrop | None:
        """Return the drop of the files; None if an earlier drop has deleted them."""
        try:
            return self._drop_files()
        except TableNotFoundError:
            return None
