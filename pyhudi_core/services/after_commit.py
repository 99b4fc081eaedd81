"""Services that run automatically after a commit. The commit stands even if they fail, so failures are logged, and the next commit tries again."""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import partial

from pyhudi_core.engine.base import Engine
from pyhudi_core.engine.choice import engine_for
from pyhudi_core.opened_table.opened_table import reopened
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.services.metadata.metadata_tables import MetadataTableOf
from pyhudi_core.services.registry import with_turns
from pyhudi_core.services.service import Turn
from pyhudi_core.transaction import metadata_removal
from pyhudi_core.write.result import Commit
from pyhudi_core.write.states import After

_log = logging.getLogger(__name__)


def after_commit(context: TableContext, turn: Turn) -> None:
    """Run each service that the options enable after a commit, in the order of the registry."""
    context = _with_new_metadata_table(context)
    for service in with_turns(context.options):
        try:
            if service(context).after_commit(turn):
                turn = replace(turn, busy=True)
        except Exception as error:  # noqa: BLE001  (any error here would make a commit that stands look undone)
            _log.warning(
                "%s of %s did not finish; the next commit tries it again: %s", service.name, context.table, error
            )


def _with_new_metadata_table(context: TableContext) -> TableContext:
    """Return the context after the commit, with a metadata table that the commit has made.

    Only with ``hoodie.metadata.enable`` a commit makes a metadata table; otherwise nothing is read again.
    """
    if not context.options.metadata.enable or context.config.metadata_partitions:
        return context
    return _as_it_is(context)


def _as_it_is(context: TableContext) -> TableContext:
    try:
        return reopened(context)
    except Exception as error:  # noqa: BLE001  (as in `after_commit`)
        _log.warning("the properties of %s could not be read after a commit, which stands: %s", context.table, error)
        return context


def _with_metadata_table_again(context: TableContext, removed: str, engine: Engine | None) -> TableContext:
    """Make the metadata table again if a commit removed it because it changed the type of a column (`write.metadata_part.metadata_update`)."""
    try:
        engine = engine or engine_for(None, context.runtime.executor)
        MetadataTableOf(reopened(context)).make_again(removed.split(","), engine)
    except Exception as error:  # noqa: BLE001  (as in `after_commit`)
        _log.warning(
            "%s has no metadata table: the commit changed the type of a column with statistics, and it could not be made again;"
            " `pyhudi metadata LOCATION create` makes it: %s",
            context.table,
            error,
        )
    return _as_it_is(context)


def following(context: TableContext) -> After:
    """Return the function that runs after a write. ``context``: as the caller opened the table."""
    return partial(followed, context)


def followed(context: TableContext, commit: Commit, engine: Engine | None = None) -> Commit:
    """Return the result of a write. If there is a commit, the services run first."""
    if commit:
        removed = dict(commit.notes).get(metadata_removal.NOTE)
        if removed and not context.options.metadata.remove_unkept:
            context = _with_metadata_table_again(context, removed, engine)
            commit = replace(commit, made_again=context.config.metadata_partitions)
        after_commit(context, Turn(engine, commit.stats.files))
    return commit
