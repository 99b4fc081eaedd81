"""Tables that this release reads and does not write, such as tables of version 6.

When such a table is opened, a log line lists the possible operations. A step that writes to the table is refused before its function is called.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyhudi_core.table import HudiTable

_log = logging.getLogger(__name__)
_WORKS = "Reads of it work, with all that follows its commits: changes, consumers, sensors and checks"
_MOST = 10_000


def what_works(table: HudiTable) -> str:
    """Return a text for a read-only table: the possible operations, and how to make it writable. Empty for every other table."""
    config = table.config
    if not (why := config.why_not_written):
        return ""
    refused = "Steps that write to it are refused, and its services are skipped"
    return f"{why[:1].upper()}{why[1:]}. {_WORKS}. {refused}. {config.way_to_writing}"


def refuse_only_read(table: HudiTable) -> None:
    """Raise `TableError` for a read-only table, before a function computes rows that cannot be written."""
    if refused := table.config.refusal_of_writing(table.location):
        raise refused


_said: set[str] = set()


def say_what_works(table: HudiTable) -> None:
    """Log `what_works`, once for each table and process: a sensor opens its tables at each tick."""
    if not table.config.why_not_written or table.location in _said:
        return
    if len(_said) < _MOST:
        _said.add(table.location)
    _log.warning("%s: %s", table.location, what_works(table))
