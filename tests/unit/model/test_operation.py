"""One vocabulary of operations: words of commits, actions and options, and the action that follows from operation and table type."""

from __future__ import annotations

import pytest

from pyhudi_core.model.instant import Action
from pyhudi_core.model.operation import OPERATIONS, SERVICE_OPERATIONS, WRITERS, OperationType
from pyhudi_core.model.properties import TableType


def test_words_of_commits_of_the_timeline_and_of_options_name_the_same_operations() -> None:
    words = {
        "UPSERT": OperationType.UPSERT,
        "upsert": OperationType.UPSERT,
        "UPSERT_PREPPED": OperationType.UPSERT,
        "BULK_INSERT_PREPPED": OperationType.BULK_INSERT,
        "DELETE_PARTITION": OperationType.DELETE_PARTITION,
        "delete_partitions": OperationType.DELETE_PARTITION,
        "CLUSTER": OperationType.CLUSTER,
        "clustering": OperationType.CLUSTER,
        "COMPACT": OperationType.COMPACT,
        "compaction": OperationType.COMPACT,
        "LOG_COMPACT": OperationType.LOG_COMPACT,
        "archival": OperationType.ARCHIVE,
    }
    assert {word: OperationType.of(word) for word in words} == words
    assert OperationType.of(Action.LOGCOMPACTION) is OperationType.LOG_COMPACT
    assert [OperationType.of(action) for action in (Action.CLEAN, Action.RESTORE, Action.INDEXING)] == [
        OperationType.CLEAN,
        OperationType.RESTORE,
        OperationType.INDEX,
    ]
    assert OperationType.of("BUCKET_RESCALE") is OperationType.of("") is OperationType.of(None) is OperationType.UNKNOWN


@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_operation_is_found_by_its_own_word(operation: OperationType) -> None:
    assert OperationType.of(operation.word) is OperationType.of(operation.value) is operation


def test_the_action_follows_from_the_operation_and_the_type_of_the_table() -> None:
    cow, mor = TableType.COPY_ON_WRITE, TableType.MERGE_ON_READ
    row_by_row = WRITERS - {
        OperationType.INSERT_OVERWRITE,
        OperationType.INSERT_OVERWRITE_TABLE,
        OperationType.DELETE_PARTITION,
    }
    assert {operation.action_on(cow) for operation in row_by_row} == {Action.COMMIT}
    assert {operation.action_on(mor) for operation in row_by_row} == {Action.DELTACOMMIT}
    for kind in TableType:
        assert {operation.action_on(kind) for operation in WRITERS - row_by_row} == {Action.REPLACECOMMIT}
        assert OperationType.CLUSTER.action_on(kind).completes_as is Action.REPLACECOMMIT
        assert OperationType.COMPACT.action_on(kind).completes_as is Action.COMMIT
        assert OperationType.LOG_COMPACT.action_on(kind).completes_as is Action.DELTACOMMIT


def test_an_operation_without_an_instant_has_no_action() -> None:
    for operation in (OperationType.ARCHIVE, OperationType.UNKNOWN):
        with pytest.raises(ValueError, match="has no instant"):
            operation.action_on(TableType.MERGE_ON_READ)


def test_services_are_known_by_the_words_of_commits() -> None:
    assert "CLUSTER" in SERVICE_OPERATIONS
    assert "UPSERT" not in SERVICE_OPERATIONS
    assert not any(OperationType.of(word).is_writer for word in SERVICE_OPERATIONS)
