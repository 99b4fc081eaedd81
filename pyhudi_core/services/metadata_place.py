"""What the services of a metadata table share: its place, seen from the data table (specification, "Metadata Table")."""

from __future__ import annotations

from pyhudi_core.metadata_table import names
from pyhudi_core.transaction.context import TableContext
from pyhudi_core.transaction.place import TablePlace

NONE = "the table has no metadata table"


def place_of(context: TableContext) -> TablePlace | None:
    """The place of the metadata table that a table lists; None if there is none."""
    return next((place for place in context.companions if place.prefix == names.FOLDER), None)
