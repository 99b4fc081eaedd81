"""What can go wrong between Dagster and a table, beside what the table itself refuses."""

from __future__ import annotations

from pyhudi_core.errors import CommitError, DataError, HudiError, InvalidOptionError, TableError


class ForeignRowsError(DataError):
    """The data has rows outside the partitions of the run; nothing was written."""


class CheckpointGapError(HudiError):
    """The upstream table was cleaned past the checkpoint, so the changes since then cannot be read any more."""


class RunEndedError(CommitError):
    """Dagster no longer wants the run's result; nothing was published."""


class TableMismatchError(TableError):
    """The table is organised in another way than its asset says; nothing was written."""


class UpstreamMissingError(TableError):
    """The table of an upstream asset is not there yet."""


def definition_error(message: str, hint: str) -> InvalidOptionError:
    """An asset that is defined in a way that cannot work; raised while the code location loads."""
    return InvalidOptionError(message, hint=hint)
