"""Damaged plans of table services, and damaged definitions: of indexes, and of the columns of past commits.

500 cases a parser here, 50,000 with `PYHUDI_FUZZ=100` (`make fuzz`); see `support/fuzzing.py`.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path

import pytest
from support.fuzzing import Fuzzed

from pyhudi_core.formats.avro.container import encode_record
from pyhudi_core.metadata_table.index_definitions import read_definitions
from pyhudi_core.model.internal_schema import parse_versions
from pyhudi_core.services.cleaning import clean_plan as cleaning
from pyhudi_core.services.clustering import clustering_plan as clustering
from pyhudi_core.services.compaction import compaction_plan as compaction
from pyhudi_core.services.indexing import indexing_plan as indexing
from pyhudi_core.services.restore import restore_plan as restore
from pyhudi_core.storage.opening import open_storage

FORMATS = Path(__file__).parents[1] / "golden" / "formats"
UNDONE = [{"commitTime": f"{20260101000000000 + n}", "action": "deltacommit"} for n in range(3)]
RESTORE = encode_record(
    restore.PLAN,
    {"instantsToRollback": UNDONE, "savepointToRestoreTimestamp": "20260101000000000", "version": 1},
    sync_marker=b"0123456789abcdef",
)
FIELDS = [
    {"id": 0, "name": "id", "optional": False, "type": "long"},
    {"id": 1, "name": "at", "optional": True, "type": "timestamp"},
    {
        "id": 2,
        "name": "tags",
        "optional": True,
        "type": {"type": "array", "element_id": 3, "element": "string", "element_optional": True},
    },
]
SCHEMAS = json.dumps(
    {"schemas": [{"max_column_id": 3, "version_id": 20260101000000000, "type": "record", "fields": FIELDS}]}
)
DEFINITION = {
    "indexName": "secondary_index_by_day",
    "indexType": "secondary_index",
    "indexFunction": "identity",
    "sourceFields": ["day"],
    "indexOptions": {},
}
INDEXES = json.dumps({"indexDefinitions": {"secondary_index_by_day": DEFINITION}})


def golden(name: str) -> list[bytes]:
    return [(FORMATS / f"{name}.avro").read_bytes()]


def read_versions(data: bytes) -> None:
    found = parse_versions(data.decode("utf-8", "surrogateescape"), "f")
    assert isinstance(found, tuple)


def read_indexes(data: bytes) -> None:
    storage = open_storage("memory://fuzzed-definitions")
    storage.put("index.json", data)
    assert all(one.name for one in read_definitions(storage, "index.json"))


def plan_of(decode: Callable[[bytes, str], object]) -> Callable[[bytes], object]:
    return lambda data: decode(data, "f")


EDGES = [slice(0, 64), slice(-300, None)]
PARSERS = [
    Fuzzed("plan of a compaction", plan_of(compaction.decode), golden("HoodieCompactionPlan"), EDGES),
    Fuzzed("plan of a clustering", plan_of(clustering.decode), golden("HoodieRequestedReplaceMetadata"), EDGES),
    Fuzzed("plan of a clean", plan_of(cleaning.decode), golden("HoodieCleanerPlan"), EDGES),
    Fuzzed("plan of an indexing", plan_of(indexing.decode), golden("HoodieIndexPlan"), EDGES),
    Fuzzed("plan of a restore", plan_of(restore.decode), [RESTORE], EDGES),
    Fuzzed("columns of past commits", read_versions, [SCHEMAS.encode()]),
]


@pytest.mark.parametrize("parser", PARSERS, ids=lambda parser: parser.name)
def test_damaged_plans_are_a_value_or_a_typed_error_within_bounds(parser: Fuzzed) -> None:
    parser.check()


def test_damaged_definitions_of_indexes_are_read_or_passed_over(caplog: pytest.LogCaptureFixture) -> None:
    """Nothing is lost with them: the lists of partitions say which indexes a table has."""
    caplog.set_level(logging.ERROR)  # each case is worth a warning, and pytest keeps them all
    Fuzzed("definitions of indexes", read_indexes, [INDEXES.encode()]).check_without_errors()
