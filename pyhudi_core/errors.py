"""Every error that the package raises, as one tree.

Each message says what happened, where, and what to do now; the same facts are fields of the error, so that programs need
not parse text.

HudiError
├─ ConfigError
│   ├─ UnknownOptionError
│   ├─ InvalidOptionError
│   └─ MissingExtraError
├─ TableError
│   ├─ TableNotFoundError
│   ├─ TableExistsError
│   └─ UnsupportedTableError
│       └─ TableVersionError
├─ CommitError
│   ├─ CommitConflictError
│   │   └─ EarlyConflictError
│   ├─ CommitRequirementError
│   ├─ CommitAbortedError
│   └─ CommitStateUnknownError
├─ LockError
│   ├─ LockTimeoutError
│   ├─ LockLostError
│   └─ LockIdentityError
├─ ClockSkewError
├─ DataError
│   ├─ PartitionNotFoundError
│   ├─ SchemaMismatchError
│   ├─ InvalidRecordKeyError
│   ├─ DuplicateKeyError
│   ├─ InvalidPartitionValueError
│   ├─ PredicateError
│   └─ MergerContractError
├─ CorruptionError
│   ├─ CorruptTimelineError
│   ├─ CorruptPropertiesError
│   ├─ CorruptAvroError
│   ├─ CorruptBaseFileError
│   ├─ CorruptLogBlockError
│   └─ CorruptHFileError
├─ LimitExceededError
├─ UnsafePathError
├─ SnapshotExpiredError
├─ PendingDeletesError
└─ StorageError
    ├─ ObjectNotFoundError
    ├─ PreconditionFailedError
    └─ StorageStateUnknownError
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class HudiError(Exception):
    """Base of every error of this package.

    Args:
        message: what happened, as a sentence without a full stop.
        table: location of the table concerned.
        path: path of the file concerned, relative to the table unless it has a scheme.
        instant: requested time of the instant concerned.
        hint: what the reader should do now.
    """

    def __init__(
        self,
        message: str,
        *,
        table: str | None = None,
        path: str | None = None,
        instant: str | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.table = table
        self.path = path
        self.instant = instant
        self.hint = hint

    def __str__(self) -> str:
        where = [
            f"{name} {value}"
            for name, value in (("table", self.table), ("file", self.path), ("instant", self.instant))
            if value is not None
        ]
        text = self.message + (f" ({', '.join(where)})" if where else "")
        if not self.hint:
            return text
        return f"{text}. {self.hint}{'' if self.hint.endswith(('.', '?', '!')) else '.'}"

    def __reduce__(self) -> tuple[object, ...]:
        # Errors cross from Spark workers to the driver; keyword-only fields need their own way through pickle.
        return (_rebuild, (type(self), self.message, dict(self.__dict__)))


def _rebuild(kind: type[HudiError], message: str, fields: dict[str, object]) -> HudiError:
    error = kind.__new__(kind)
    Exception.__init__(error, message)
    error.__dict__.update(fields)
    return error


@contextmanager
def at_table(location: str) -> Iterator[None]:
    """Errors that come out of the block say which table they happened to, also those of parts that do not know it."""
    try:
        yield
    except HudiError as error:
        if error.table is None:
            error.table = location
        raise


class ConfigError(HudiError, ValueError):
    """What was asked for cannot be: an option, an argument or the environment."""


class UnknownOptionError(ConfigError):
    """An option that no release knows, most often a misspelling."""


class InvalidOptionError(ConfigError):
    """An option with a value it cannot take, or one that contradicts the table or another option."""


class MissingExtraError(ConfigError):
    """A feature needs a package that is not installed, or a newer release of it."""


class TableError(HudiError):
    """The table as a whole is not what the call needs."""


class TableNotFoundError(TableError):
    """There is no Hudi table at the location."""


class TableExistsError(TableError):
    """A table is already there."""


class UnsupportedTableError(TableError):
    """The table uses something that this package does not do; nothing was read or written."""


class TableVersionError(UnsupportedTableError):
    """The table has another version than 8."""

    def __init__(self, message: str, *, found: str, **fields: str | None) -> None:
        super().__init__(message, **fields)
        self.found = found
        self.supported = "8"


class CommitError(HudiError):
    """A commit did not happen as asked."""


class CommitConflictError(CommitError):
    """Another commit got in between and touched the same data; nothing was published.

    ``conflict`` says which, and ``explanation`` why and what to do; ``bytes_saved`` is what an early end of the attempt left unwritten (an estimate).
    """

    conflict: object = None
    explanation: object = None
    bytes_written = 0
    bytes_saved = 0

    def __init__(
        self, message: str, *, conflict: object = None, explanation: object = None, **fields: str | None
    ) -> None:
        super().__init__(message, **fields)
        self.conflict = conflict
        self.explanation = explanation


class EarlyConflictError(CommitConflictError):
    """Another writer is at work on the same file groups, seen by its markers before all files were written."""


class CommitRequirementError(CommitError):
    """What the caller required of the table does not hold any more; nothing was published. ``requirement`` is the one that failed."""

    def __init__(self, message: str, *, requirement: object = None, **fields: str | None) -> None:
        super().__init__(message, **fields)
        self.requirement = requirement


class CommitAbortedError(CommitError):
    """The commit was given up before its decision; nothing was published."""


class CommitStateUnknownError(CommitError):
    """The storage did not say whether the commit was made; ask ``table.commit_status(token)``."""

    def __init__(self, message: str, *, token: str, **fields: str | None) -> None:
        super().__init__(message, **fields)
        self.token = token


class LockError(HudiError):
    """The table's lock could not be used."""


class LockTimeoutError(LockError):
    """The lock was held by somebody else for longer than the time-out."""


class LockLostError(LockError):
    """The lock expired or was taken over while it was needed."""


class LockIdentityError(LockError):
    """The table is locked by writers of another lock provider or address."""


class ClockSkewError(HudiError):
    """The timeline is ahead of this machine's clock by more than the bound."""


class DataError(HudiError, ValueError):
    """The data that was handed in cannot be written or used."""


class PartitionNotFoundError(DataError):
    """The table has no such partition."""


class SchemaMismatchError(DataError):
    """The data's columns cannot be reconciled with the table's."""


class InvalidRecordKeyError(DataError):
    """A record key is missing or null."""


class DuplicateKeyError(DataError):
    """A record key exists already, or twice in one batch."""


class InvalidPartitionValueError(DataError):
    """A partition value would not make a safe path below the table."""


class PredicateError(DataError):
    """A ``where`` that cannot be read or does not fit the table."""


class MergerContractError(DataError):
    """A record merger that is not associative, commutative or idempotent."""


class CorruptionError(HudiError):
    """A file holds bytes that its format does not allow."""

    def __init__(
        self, message: str, *, offset: int | None = None, detail: str | None = None, **fields: str | None
    ) -> None:
        super().__init__(message, **fields)
        self.offset = offset
        self.detail = detail


class CorruptTimelineError(CorruptionError):
    """A timeline file's name or content is damaged."""


class CorruptPropertiesError(CorruptionError):
    """``hoodie.properties`` and its backup are damaged."""


class CorruptAvroError(CorruptionError):
    """Bytes that are not the Avro they should be."""


class CorruptBaseFileError(CorruptionError):
    """A base file that cannot be read."""


class CorruptLogBlockError(CorruptionError):
    """A block of a log file that cannot be read."""


class CorruptHFileError(CorruptionError):
    """An HFile that cannot be read."""


class LimitExceededError(HudiError):
    """Reading on would take more than a configured limit."""

    def __init__(self, message: str, *, limit: int, seen: int, **fields: str | None) -> None:
        super().__init__(message, **fields)
        self.limit = limit
        self.seen = seen


class UnsafePathError(HudiError):
    """A path that would leave the table's folder."""


class SnapshotExpiredError(HudiError):
    """The snapshot that was asked for has been cleaned."""


class PendingDeletesError(HudiError):
    """A read-optimized query would show rows that have been deleted, and the caller does not want that."""


class StorageError(HudiError):
    """The storage failed."""


class ObjectNotFoundError(StorageError):
    """There is no object at the path."""


class PreconditionFailedError(StorageError):
    """A conditional write found another state than it needs."""


class StorageStateUnknownError(StorageError):
    """The storage did not say whether a write happened (time-out, lost answer)."""
