"""The tables that a step or a task creates for its first rows. If these rows are refused, nothing is left: the next try may have other settings."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING

from pyhudi_core.errors import ConfigError, DataError, HudiError, PreCommitError

if TYPE_CHECKING:
    from pyhudi_core.table import HudiTable


_REFUSALS = (ConfigError, DataError, PreCommitError)
"""The errors that another try with other settings or rows may not have. After other errors the table stays: a step whose run has ended changes
nothing, and the next try may already use the table.
"""


@contextmanager
def new_tables() -> Iterator[list[HudiTable]]:
    """Yield a list for the tables that the block creates. If the block refuses its rows, drop each of them that has no commit and no other user."""
    made: list[HudiTable] = []
    try:
        yield made
    except _REFUSALS:
        for table in made:
            with suppress(HudiError):  # the table is in use, or has a commit
                table.drop(partial(_has_no_commit, table))
        raise


def _has_no_commit(table: HudiTable) -> bool:
    return not table.timeline.commits
