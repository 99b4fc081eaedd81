"""The drop of a table that was found by its name in a catalog: first its files are deleted, as in `drop`, and then its names.

Before the first file is deleted, the names are marked in the catalog. So if the process dies, the marks say that the table is being dropped, and the
next drop removes the names. If no table is found at a location, names without such a mark stay: the table may exist, and the storage options may be
wrong. `CatalogDrop` with ``names_only`` removes these names.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar

from pyhudi_core.argument_types import OfTable
from pyhudi_core.catalog import addresses
from pyhudi_core.catalog.addresses import CatalogAddress, FoundTable
from pyhudi_core.errors import DropRefusedError, TableNotFoundError
from pyhudi_core.model.printing import printable
from pyhudi_core.repairs.drop import DroppedTable, TableDrop, TableDropPlan
from pyhudi_core.services.progress import ServiceProgress
from pyhudi_core.transaction.commit import Gate


@printable
class CatalogDrop(OfTable):
    """The drop of one table and of its names in a catalog.

    ``find`` reads the catalog, and returns None if the catalog has no name of the table. ``drop_files`` returns the drop of the files, or raises
    `TableNotFoundError`; its argument is a function that the drop calls before it deletes the first file.
    """

    _METHODS: ClassVar[str] = ".plan()"

    def __init__(
        self,
        address: CatalogAddress,
        find: Callable[[], FoundTable | None],
        drop_files: Callable[[Callable[[], object]], TableDrop],
    ) -> None:
        self._address, self._find, self._drop_files = address, find, drop_files

    def __repr__(self) -> str:
        return f"Drop of {self._address.text}"

    def plan(self) -> TableDropPlan:
        """Return what a drop would delete now: files, and names in the catalog. Changes nothing."""
        found = self._find()
        files = self._files(found)
        if files is not None:
            return replace(files.plan(), names=_names(found))
        return TableDropPlan(0, 0, names=_names(found), why_not=_why_not(found))

    def __call__(
        self, gate: Gate | None = None, *, progress: ServiceProgress | None = None, names_only: bool = False
    ) -> DroppedTable:
        """Delete the table permanently, and remove its names from the catalog; with ``names_only`` remove only the names.

        Raises as `TableDrop`, and `CatalogError`: then the names stay. Raises `DropRefusedError` if no table is found at the catalog's location, and
        no drop of it has begun: nothing was changed.
        """
        found = self._find()
        files = None if names_only else self._files(found)
        if files is None and not names_only and (why_not := _why_not(found)):
            raise DropRefusedError(
                f"The table is not dropped: {why_not}",
                table=self._address.text,
                hint="Check the storage options. If its files are gone for good, drop its names only: names_only=True, or pyhudi drop --names-only."
                " Nothing was changed.",
            )
        done = DroppedTable(found.location if found else "") if files is None else files(gate, progress=progress)
        if found is not None:
            addresses.remove(self._address, found)
        return replace(done, names=_names(found))

    def _files(self, found: FoundTable | None) -> TableDrop | None:
        """Return the drop of the files; None if no files exist, for example after an earlier drop."""

        def mark() -> None:
            if found is not None:
                addresses.mark(self._address, found)

        try:
            return self._drop_files(mark)
        except TableNotFoundError:
            if found is None:
                raise
            return None


def _names(found: FoundTable | None) -> tuple[str, ...]:
    return tuple(one.full_name for one in found.entries) if found else ()


def _why_not(found: FoundTable | None) -> str:
    """Return why the names of a table that was not found must stay; empty if a drop of it has begun."""
    if found is None or found.dropping:
        return ""
    return f"the catalog says that it is at {found.location}, and no table is found there"
