"""The operations of a table: one vocabulary for commits, the conflict table, table services and the timeline.

The names are those of Hudi's ``WriteOperationType``, which is the ``operationType`` of a commit. Operations that write no commit (clean, archive,
rollback, savepoint, restore) have the names of their actions or services. The action on the timeline follows from the operation and the type of the
table.
"""

from __future__ import annotations

from enum import StrEnum

from pyhudi_core.model.instant import Action
from pyhudi_core.model.properties import TableType
from pyhudi_core.naming import set_module


@set_module("pyhudi")
class OperationType(StrEnum):
    """The operation of an instant. The value is the word in a commit; Hudi fails on an unknown word."""

    INSERT = "INSERT"
    BULK_INSERT = "BULK_INSERT"
    UPSERT = "UPSERT"
    DELETE = "DELETE"
    INSERT_OVERWRITE = "INSERT_OVERWRITE"
    INSERT_OVERWRITE_TABLE = "INSERT_OVERWRITE_TABLE"
    DELETE_PARTITION = "DELETE_PARTITION"
    COMPACT = "COMPACT"
    LOG_COMPACT = "LOG_COMPACT"
    CLUSTER = "CLUSTER"
    CLEAN = "CLEAN"
    ARCHIVE = "ARCHIVE"
    INDEX = "INDEX"
    ROLLBACK = "ROLLBACK"
    SAVEPOINT = "SAVEPOINT"
    RESTORE = "RESTORE"
    ALTER_SCHEMA = "ALTER_SCHEMA"
    UNKNOWN = "UNKNOWN"
    """Any other operation, for example one of a newer writer."""

    @classmethod
    def of(cls, word: str | None) -> OperationType:
        """Return the operation for a commit's ``operationType``, an action of the timeline, or a word of the public API; `UNKNOWN` for any other."""
        text = (word or "").strip().upper()
        return _OTHER_WORDS.get(text) or cls.__members__.get(text.removesuffix("_PREPPED"), cls.UNKNOWN)

    @property
    def word(self) -> str:
        """Return the operation as a word for a sentence, an option or a table: ``insert_overwrite``."""
        return self.value.lower()

    @property
    def is_writer(self) -> bool:
        """Whether the operation changes rows. The other operations are table services, and the change of columns."""
        return self in WRITERS

    def action_on(self, table_type: TableType) -> Action:
        """Return the action of a pending instant of this operation. Raises `ValueError` for an operation that has no instant.

        `Action.completes_as` gives the action of the completed instant: a commit for a compaction, a replacecommit for a clustering.
        """
        if self in REPLACING:
            return Action.REPLACECOMMIT
        if self in WRITERS or self is OperationType.ALTER_SCHEMA:
            return Action.DELTACOMMIT if table_type is TableType.MERGE_ON_READ else Action.COMMIT
        try:
            return _SERVICE_ACTIONS[self]
        except KeyError:
            raise ValueError(f"{self.word} has no instant on the timeline") from None


BOOTSTRAP = "BOOTSTRAP"
"""The operation in the commit of a metadata-only bootstrap.

The commit is the first of its table, so no other operation runs at the same time, and the conflict table has no line for it.
"""

OPERATIONS = tuple(operation for operation in OperationType if operation is not OperationType.UNKNOWN)
REPLACING = frozenset(
    {OperationType.INSERT_OVERWRITE, OperationType.INSERT_OVERWRITE_TABLE, OperationType.DELETE_PARTITION}
)
"""Writers that replace file groups; clustering replaces some, too."""
OVERWRITING = frozenset({OperationType.INSERT_OVERWRITE, OperationType.INSERT_OVERWRITE_TABLE})
"""Writers whose rows replace all rows of partitions, or of the table."""
INSERTING = frozenset({OperationType.INSERT, OperationType.BULK_INSERT})
"""Writers whose keys must be new to the table."""
UPDATING = frozenset({OperationType.UPSERT, OperationType.DELETE})
"""Writers that find stored rows by their keys, and change or delete them."""
WRITERS = INSERTING | REPLACING | UPDATING
"""Operations that change rows."""

_SERVICE_ACTIONS = {
    OperationType.COMPACT: Action.COMPACTION,
    OperationType.LOG_COMPACT: Action.LOGCOMPACTION,
    OperationType.CLUSTER: Action.CLUSTERING,
    OperationType.CLEAN: Action.CLEAN,
    OperationType.INDEX: Action.INDEXING,
    OperationType.ROLLBACK: Action.ROLLBACK,
    OperationType.SAVEPOINT: Action.SAVEPOINT,
    OperationType.RESTORE: Action.RESTORE,
}
_OTHER_WORDS = {
    **{action.value.upper(): operation for operation, action in _SERVICE_ACTIONS.items()},
    "DELETE_PARTITIONS": OperationType.DELETE_PARTITION,
    "LOG_COMPACTION": OperationType.LOG_COMPACT,
    "ARCHIVAL": OperationType.ARCHIVE,
}

SERVICE_OPERATIONS = frozenset(
    {OperationType.CLUSTER, OperationType.COMPACT, OperationType.INDEX, OperationType.LOG_COMPACT}
)
"""Operations whose commits do not define the table's schema. Also contains their words."""

COMPACTING = frozenset({OperationType.COMPACT, OperationType.LOG_COMPACT})
"""Operations whose commits have the flag ``compacted``. Also contains their words."""
