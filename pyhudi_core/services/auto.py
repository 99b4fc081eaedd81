"""What runs by itself after a commit. The commit stands whatever happens here, so failures are logged, and the next commit tries again."""

from __future__ import annotations

import logging

from pyhudi_core.services.archival import archive, rules_of
from pyhudi_core.transaction.commit import Gate
from pyhudi_core.transaction.context import TableContext
from pyhudi_core.write.handle import Write
from pyhudi_core.write.result import Commit

_log = logging.getLogger(__name__)


def after_commit(context: TableContext) -> None:
    """Archive, if that is due and ``hoodie.archive.automatic`` is on; costs one listing of the timeline when it is not due."""
    options = context.options
    if not options.archive_automatic:
        return
    try:
        if len(context.folder.load().commits) > options.keep_max_commits:
            archive(context, rules_of(context, triggered=True))
    except Exception as error:  # noqa: BLE001  (whatever it is: an error here would make a commit that stands look undone)
        _log.warning("archival of %s did not finish, the next commit goes on with it: %s", context.table, error)


def followed(context: TableContext, commit: Commit) -> Commit:
    """The result of a write, after the services had their turn if there is a commit."""
    if commit:
        after_commit(context)
    return commit


class ServicedWrite(Write):
    """A write in steps that is followed by the services, as the verbs of the table are."""

    def commit(self, gate: Gate | None = None) -> Commit:
        """Publish what was written, then look after the table. Raises as `Write.commit`."""
        return followed(self._context, super().commit(gate))
