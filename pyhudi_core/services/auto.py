"""What runs by itself after a commit. The commit stands whatever happens here, so failures are logged, and the next commit tries again."""

from __future__ import annotations

import logging

from pyhudi_core.engine.base import Engine
from pyhudi_core.errors import HudiError
from pyhudi_core.services.registry import services_of
from pyhudi_core.transaction.commit import Gate
from pyhudi_core.transaction.context import TableContext
from pyhudi_core.transaction.home import reopened
from pyhudi_core.write.handle import Write
from pyhudi_core.write.result import Commit

_log = logging.getLogger(__name__)


def after_commit(context: TableContext, engine: Engine | None = None) -> None:
    """Give each service its turn, in the order of the registry, on the engine that wrote the commit."""
    for service in services_of(_with_new_metadata_table(context)).values():
        try:
            service.after_commit(engine)
        except Exception as error:  # noqa: BLE001  (whatever it is: an error here would make a commit that stands look undone)
            _log.warning(
                "%s of %s did not finish; the next commit tries it again: %s", service.name, context.table, error
            )


def _with_new_metadata_table(context: TableContext) -> TableContext:
    """The context as it is after the commit. Only with ``hoodie.metadata.enable`` a commit makes a metadata table; else nothing is read again."""
    if not context.options.metadata.enable or context.config.metadata_partitions:
        return context
    try:
        return reopened(context)
    except HudiError as error:
        _log.warning("the properties of %s could not be read after a commit, which stands: %s", context.table, error)
        return context


def followed(context: TableContext, commit: Commit, engine: Engine | None = None) -> Commit:
    """The result of a write, after the services had their turn if there is a commit."""
    if commit:
        after_commit(context, engine)
    return commit


class ServicedWrite(Write):
    """A write in steps that is followed by the services, as the verbs of the table are."""

    def commit(self, gate: Gate | None = None) -> Commit:
        """Publish what was written, then look after the table. Raises as `Write.commit`."""
        return followed(self.context, super().commit(gate), self.engine)
