"""The errors of this package, in addition to those of `pyhudi_core`."""

from __future__ import annotations

from pyhudi.errors import CommitError, DataError, HudiError, InvalidOptionError, TableError


class ForeignRowsError(DataError):
    """The data has rows outside the partitions of the run; nothing was written."""


class CheckpointGapError(HudiError):
    """The upstream table was cleaned past the checkpoint, so the changes since then can no longer be read."""


class RunEndedError(CommitError):
    """Dagster no longer wants the run's result; nothing was published."""


class TableMismatchError(TableError):
    """The settings of the table differ from those of its asset; nothing was written."""


class UpstreamMissingError(TableError):
    """The table of an upstream asset does not exist yet."""


def definition_error(message: str, hint: str) -> InvalidOptionError:
    """An asset has an invalid definition; raised while the code location loads."""
    return InvalidOptionError(message, hint=hint)
