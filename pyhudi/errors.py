"""The errors of the package: the same classes as in ``pyhudi_core.errors``, which draws their tree."""

# ruff: noqa: F403, F405  (the classes are those of pyhudi_core.errors; the list names each once)
from pyhudi_core.errors import *

__all__ = [
    "CatalogError", "ClockSkewError", "CommitAbortedError", "CommitConflictError", "CommitError", "CommitRequirementError", "CommitStateUnknownError",
    "ConfigError", "CorruptAvroError", "CorruptBaseFileError", "CorruptHFileError", "CorruptLogBlockError", "CorruptPropertiesError",
    "CorruptTimelineError", "CorruptionError", "DataError", "DeletesFailedError", "DuplicateKeyError", "EarlyConflictError",
    "ErasureRefusedError", "HudiError", "InvalidOptionError", "InvalidPartitionValueError", "InvalidRecordKeyError", "LimitExceededError",
    "LockError", "LockIdentityError", "LockLostError", "LockServerError", "LockTimeoutError", "MergerContractError", "MissingExtraError",
    "ObjectNotFoundError", "PartitionNotFoundError", "PendingDeletesError", "PreCommitError", "PreconditionFailedError", "PredicateError",
    "SchemaMismatchError", "SnapshotExpiredError", "StorageError", "StorageStateUnknownError", "TableError", "TableExistsError",
    "TableNotFoundError", "TableVersionError", "UnknownOptionError", "UnsafePathError", "UnsupportedTableError",
]  # fmt: skip


def __dir__() -> list[str]:
    return sorted(__all__)
