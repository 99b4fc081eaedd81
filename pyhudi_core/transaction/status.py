"""Find out the outcome of a write whose caller does not know it."""

from __future__ import annotations

import re
from enum import StrEnum

from pyhudi_core.errors import InvalidOptionError
from pyhudi_core.model.instant import DATA_ACTIONS, Instant, State, is_time
from pyhudi_core.naming import set_module
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.transaction.begin import TOKEN_KEY
from pyhudi_core.transaction.decision import finish_decided
from pyhudi_core.transaction.freshness import load_showing, published
from pyhudi_core.transaction.record import record_store

_NONCE = re.compile("[0-9a-f]{32}")


@set_module("pyhudi")
class CommitStatus(StrEnum):
    """The outcome of a commit. Only ``undecided`` may change later."""

    COMMITTED = "committed"
    NOT_COMMITTED = "not_committed"
    UNDECIDED = "undecided"


def commit_status(context: TableContext, token: str) -> CommitStatus:
    """Return the outcome for a commit token, ``<requested time>-<nonce>``. If the commit was decided and not published, this function publishes the
    commit.
    """
    requested_time, _, nonce = token.partition("-") if isinstance(token, str) else ("", "", "")
    if not is_time(requested_time) or not _NONCE.fullmatch(nonce):
        raise InvalidOptionError(
            f"{str(token)[:80]!r} is not a commit token", table=context.table, hint="Use commit.token."
        )
    record = record_store(context.root).read()
    # The write's pending file stays as long as the write may be decided, so a listing without the pending file may be too old.
    expected = [Instant(requested_time, action, State.INFLIGHT) for action in sorted(DATA_ACTIONS)]
    if record is not None and record.intent.token == token:
        finish_decided(context, record)
        expected += published(context, record.intent)
    timeline = load_showing(context, expected)
    found = timeline.find(requested_time) or context.folder.archived(timeline, requested_time)
    if found is None:
        return CommitStatus.NOT_COMMITTED
    if found.is_pending:
        return CommitStatus.UNDECIDED
    return (
        CommitStatus.COMMITTED
        if context.folder.read_commit(found).extra.get(TOKEN_KEY) == token
        else CommitStatus.NOT_COMMITTED
    )
