"""The errors of a run of an orchestrator, in addition to ``pyhudi.errors``."""

from __future__ import annotations

from pyhudi_core.errors import CommitError, DataError, HudiError, InvalidOptionError, TableError


class ForeignRowsError(DataError):
    """The data has rows outside the partitions of the run; nothing was written."""


class CheckpointGapError(HudiError):
    """The changes after the checkpoint can no longer be read, because the upstream table was cleaned."""


class RunEndedError(CommitError):
    """The orchestrator no longer wants the run's result; nothing was published."""


class TableMismatchError(TableError):
    """The settings of the table differ from the settings of its asset or task; nothing was written."""


class UpstreamMissingError(TableError):
    """The table that a run reads does not exist yet."""


def definition_error(message: str, hint: str) -> InvalidOptionError:
    """Return the error for an invalid definition; it is raised while the definitions load."""
    return InvalidOptionError(message, hint=hint)
