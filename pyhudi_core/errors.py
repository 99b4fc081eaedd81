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
│   ├─ TableHalfDroppedError
│   ├─ CatalogError
│   └─ UnsupportedTableError
│       └─ TableVersionError
├─ CommitError
│   ├─ CommitConflictError
│   │   └─ EarlyConflictError
│   ├─ CommitRequirementError
│   ├─ ErasureRefusedError
│   ├─ DropRefusedError
│   ├─ PreCommitError
│   ├─ CommitAbortedError
│   └─ CommitStateUnknownError
├─ LockError
│   ├─ LockTimeoutError
│   ├─ LockLostError
│   ├─ LockIdentityError
│   └─ LockServerError
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
│   ├─ TransactionTornError
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
    ├─ DeletesFailedError
    └─ StorageStateUnknownError
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from pyhudi_core.naming import set_module

_PUBLIC = "pyhudi.errors"


@set_module(_PUBLIC)
class HudiError(Exception):
    """Base of every error of this package.

    Args:
        message: what happened, as a sentence without a full stop.
        table: location of the table concerned.
        path: path of the file concerned, relative to the table unless it has a scheme.
        instant: requested time of the instant concerned.
        hint: what the reader should do now.
    """

    def __init_subclass__(cls) -> None:
        if cls.__module__ == __name__:
            set_module(_PUBLIC)(cls)

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
            if value
        ]
        text = _printable(self.message) + (_printable(f" ({', '.join(where)})") if where else "")
        if not self.hint:
            return text
        return f"{text}. {_printable(self.hint)}{'' if self.hint.endswith(('.', '?', '!')) else '.'}"

    def __reduce__(self) -> tuple[object, ...]:
        # Errors travel from Spark workers to the driver. Pickle cannot pass keyword-only arguments, so _rebuild
        # restores the fields.
        return (_rebuild, (type(self), self.message, dict(self.__dict__)))


_MOST_SHOWN = 5_000


def _printable(text: str) -> str:
    """Return a part of an error for logs and terminals.

    Names and texts of a hostile file may be without end, and have control characters, or lines that look like another entry of a log.
    """
    if len(text) > _MOST_SHOWN:
        text = f"{text[:_MOST_SHOWN]}... ({len(text):,} characters)"
    if text.isprintable():
        return text
    lines = ("".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in line) for line in text.split("\n"))
    return "\n  ".join(lines)


def _rebuild(kind: type[HudiError], message: str, fields: dict[str, object]) -> HudiError:
    error = kind.__new__(kind)
    Exception.__init__(error, message)
    error.__dict__.update(fields)
    return error


def columns_named(names: Sequence[str]) -> str:
    """Return column names for a message: ``column 'id'``, ``columns 'id' and 'day'``."""
    *most, last = map(repr, names)
    return f"columns {', '.join(most)} and {last}" if most else f"column {last}"


@contextmanager
def from_extra(extra: str, what: str) -> Iterator[None]:
    """Raise `MissingExtraError`, which names the extra to install, if an import in the block fails. ``what`` needs the package. If the package is
    installed but lacks an imported name, the package is too old.
    """
    try:
        yield
    except ImportError as error:
        package = (error.name or "").partition(".")[0]
        if package.startswith("pyhudi"):
            raise
        missing = isinstance(error, ModuleNotFoundError)
        raise MissingExtraError(
            f"{what} needs the package {package}, which is not installed"
            if missing
            else f"{what} needs another release of the package {package} ({error})",
            hint=f"Install the extra: pip install {'' if missing else '-U '}'pyhudi[{extra}]'.",
        ) from error


@contextmanager
def needing(package: str, what: str) -> Iterator[None]:
    """Raise `MissingExtraError` with the command that installs a package, if an import in the block fails. The user chose this package."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f"{what} needs {package}, which is not installed", hint=f"pip install {package}."
        ) from error


@contextmanager
def at_table(location: str) -> Iterator[None]:
    """Add the table's location to each error of the block that does not name its table yet."""
    try:
        yield
    except HudiError as error:
        if error.table is None:
            error.table = location
        raise


@contextmanager
def at_file(path: str) -> Iterator[None]:
    """Add the path of the file to every error raised in the block that does not name its file yet."""
    try:
        yield
    except HudiError as error:
        error.path = error.path or path or None
        raise


class ConfigError(HudiError, ValueError):
    """An option, an argument or the environment does not allow the request."""


class UnknownOptionError(ConfigError):
    """An option has a name that no release knows, most often because of a misspelling."""


class InvalidOptionError(ConfigError):
    """An option has an invalid value, or contradicts the table or another option."""


class MissingExtraError(ConfigError):
    """A feature needs a package that is not installed, or that is too old."""


class TableError(HudiError):
    """The table does not exist, exists already, or is of a kind that the call does not support."""


class TableNotFoundError(TableError):
    """There is no Hudi table at the location."""


class TableExistsError(TableError):
    """A table already exists at the location."""


class TableHalfDroppedError(TableError):
    """A drop of the table has begun, so files of it may be gone; ``hudi.drop_table(location)`` completes the drop."""


class CatalogError(TableError):
    """A catalog could not be reached, did not answer in time, or refused. The table itself is intact."""


class UnsupportedTableError(TableError):
    """The table uses a feature that this package does not support; nothing was read or written."""


class TableVersionError(UnsupportedTableError):
    """This package does not support the version of the table, or cannot write it. ``found`` is the version."""

    def __init__(self, message: str, *, found: str, **fields: str | None) -> None:
        super().__init__(message, **fields)
        self.found = found
        self.supported = "8, 9"


class CommitError(HudiError):
    """A commit was not made."""


class CommitConflictError(CommitError):
    """Another commit changed the same data while this write ran; nothing was published.

    ``conflict`` names the other commit; ``explanation`` gives the rule and what to do. ``bytes_written`` is the size of this attempt's files.
    ``bytes_saved`` estimates what an early end saved. ``given_up``: no more attempts are allowed.
    """

    conflict: object = None
    explanation: object = None
    given_up = False
    bytes_written = 0
    bytes_saved = 0

    def __init__(
        self, message: str, *, conflict: object = None, explanation: object = None, **fields: str | None
    ) -> None:
        super().__init__(message, **fields)
        self.conflict = conflict
        self.explanation = explanation


class EarlyConflictError(CommitConflictError):
    """Another write changes the same file groups. Its markers showed this before this write had written all its files."""


class CommitRequirementError(CommitError):
    """The commit does not meet a requirement of the caller; nothing was published. ``requirement`` is the failed requirement."""

    def __init__(self, message: str, *, requirement: object = None, **fields: str | None) -> None:
        super().__init__(message, **fields)
        self.requirement = requirement


class ErasureRefusedError(CommitError):
    """Keys cannot be erased, because savepoints, slow readers or pending instants need older files; nothing was written. The message names them."""


class DropRefusedError(CommitError):
    """The table is in use, so it is not dropped; nothing was changed. The message names its users."""


class PreCommitError(CommitError):
    """Pre-commit validators refused the commit; nothing was published. ``failures`` has the finding of each validator, by its name."""

    def __init__(self, message: str, *, failures: Mapping[str, str], **fields: str | None) -> None:
        super().__init__(message, **fields)
        self.failures = dict(failures)


class CommitAbortedError(CommitError):
    """The commit was stopped before its decision; nothing was published."""


class CommitStateUnknownError(CommitError):
    """The storage did not report whether the commit was made; ask ``table.commit_status(token)``."""

    def __init__(self, message: str, *, token: str, **fields: str | None) -> None:
        super().__init__(message, **fields)
        self.token = token


class LockError(HudiError):
    """The table's lock could not be used."""


class LockTimeoutError(LockError):
    """Another writer held the lock for longer than the time-out."""


class LockLostError(LockError):
    """The lock expired, or another writer took it over, while this writer needed it."""


class LockIdentityError(LockError):
    """Other writers use another lock for this table: another lock provider, or another address."""


class LockServerError(LockError):
    """The server of a lock could not be reached, did not answer in time, or refused."""


class ClockSkewError(HudiError):
    """The newest time on the timeline is later than this machine's clock by more than the allowed difference."""


class DataError(HudiError, ValueError):
    """The data given by the caller cannot be written or used."""


class PartitionNotFoundError(DataError):
    """The table has no such partition."""


class SchemaMismatchError(DataError):
    """The columns of the data do not fit the columns of the table."""


class InvalidRecordKeyError(DataError):
    """A record key is missing or null."""


class DuplicateKeyError(DataError):
    """A record key exists already in the table, or occurs twice in one batch."""


class InvalidPartitionValueError(DataError):
    """A partition value cannot become a safe path below the table."""


class PredicateError(DataError):
    """A ``where`` has a syntax error or does not fit the table."""


class MergerContractError(DataError):
    """A record merger is not associative, commutative or idempotent."""


class CorruptionError(HudiError):
    """A file holds bytes that its format does not allow, or a file of the newest state is missing."""

    def __init__(
        self, message: str, *, offset: int | None = None, detail: str | None = None, **fields: str | None
    ) -> None:
        super().__init__(message, **fields)
        self.offset = offset
        self.detail = detail


class CorruptTimelineError(CorruptionError):
    """The name or the content of a timeline file is damaged."""


class TransactionTornError(CorruptionError):
    """One table shows its commit of a transaction, but another table has lost its commit of the same transaction."""


class CorruptPropertiesError(CorruptionError):
    """``hoodie.properties`` and its backup are both damaged."""


class CorruptAvroError(CorruptionError):
    """Bytes are not valid Avro, or not of the expected schema."""


class CorruptBaseFileError(CorruptionError):
    """A base file cannot be read."""


class CorruptLogBlockError(CorruptionError):
    """A block of a log file cannot be read."""


class CorruptHFileError(CorruptionError):
    """An HFile cannot be read."""


class LimitExceededError(HudiError):
    """The read would exceed a configured limit. ``limit`` and ``seen`` have the same unit."""

    def __init__(self, message: str, *, limit: int, seen: int, **fields: str | None) -> None:
        super().__init__(message, **fields)
        self.limit = limit
        self.seen = seen


class UnsafePathError(HudiError):
    """A path leads outside the table's folder."""


class SnapshotExpiredError(HudiError):
    """The requested snapshot is no longer complete, because cleaning or another service removed files of it."""


class PendingDeletesError(HudiError):
    """A read-optimized query would return deleted rows, and the caller requested an error in this case."""


class StorageError(HudiError):
    """A call to the storage failed."""


class ObjectNotFoundError(StorageError):
    """No object exists at the path."""


class PreconditionFailedError(StorageError):
    """The condition of a write was not met: the object has another state."""


class DeletesFailedError(StorageError):
    """Some of several objects could not be deleted; ``failed`` has the reason for each path. The other objects are deleted."""

    def __init__(self, message: str, *, failed: Mapping[str, str], **fields: str | None) -> None:
        super().__init__(message, **fields)
        self.failed = dict(failed)


class StorageStateUnknownError(StorageError):
    """The storage did not report whether a write happened (time-out, lost response)."""
