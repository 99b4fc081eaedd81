"""Updates that move rows to another file group of their partition (``pyhudi.update.moves.rows``, decision 0045): which writes cannot do it."""

from __future__ import annotations

from pyhudi_core.errors import InvalidOptionError
from pyhudi_core.model.properties import MergeMode, TableType
from pyhudi_core.opened_table.table_context import TableContext


def refuse_unfit(context: TableContext, *, partial: bool) -> None:
    """Raise `InvalidOptionError` for a table whose rows cannot move, and for a partial update."""
    if not context.options.index.updates_move:
        return
    config = context.config
    wrong = ""
    if config.table_type is TableType.MERGE_ON_READ:
        wrong = "in a merge-on-read table Hudi's indexes SIMPLE and BLOOM would find a moved key in two base files"
    elif config.merge_mode is MergeMode.CUSTOM:
        wrong = "a merger needs the stored version of a row, which is in another file group"
    elif partial:
        wrong = "a partial update takes the missing columns from the stored row, which is in another file group"
    if wrong:
        raise InvalidOptionError(
            f"pyhudi.update.moves.rows=true cannot be used for this write: {wrong}",
            table=context.table,
            hint="Omit the option, and rows are updated in their file groups.",
        )
