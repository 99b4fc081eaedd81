"""The Avro schemas of the timeline's records."""

from __future__ import annotations

import fastavro
import pytest

from pyhudi_core.model.records import AVRO_SCHEMAS


@pytest.mark.row("B6")
def test_there_is_a_schema_for_each_kind_of_timeline_file_and_of_the_bootstrap_index() -> None:
    assert set(AVRO_SCHEMAS) == {
        "HoodieCommitMetadata",
        "HoodieReplaceCommitMetadata",
        "HoodieRequestedReplaceMetadata",
        "HoodieClusteringPlan",
        "HoodieCompactionPlan",
        "HoodieCleanerPlan",
        "HoodieCleanMetadata",
        "HoodieRollbackPlan",
        "HoodieRollbackMetadata",
        "HoodieSavepointMetadata",
        "HoodieRestorePlan",
        "HoodieRestoreMetadata",
        "HoodieIndexPlan",
        "HoodieIndexCommitMetadata",
        "HoodieLSMTimelineInstant",
        "HoodieBootstrapIndexInfo",
        "HoodieBootstrapPartitionMetadata",
        "HoodieBootstrapFilePartitionInfo",
    }


@pytest.mark.parametrize("name", sorted(AVRO_SCHEMAS))
def test_each_schema_is_valid_and_in_hudis_namespace(name: str) -> None:
    parsed = fastavro.parse_schema(AVRO_SCHEMAS[name])
    assert parsed["name"] == f"org.apache.hudi.avro.model.{name}"


def test_versions_default_to_what_hudi_has() -> None:
    defaults = {
        name: next((field["default"] for field in schema["fields"] if field["name"] == "version"), None)
        for name, schema in AVRO_SCHEMAS.items()
    }
    assert defaults.pop("HoodieRestorePlan") == 2
    assert set(defaults.values()) == {1}


def test_the_list_of_rollback_requests_has_hudis_capital_letter() -> None:
    assert "RollbackRequests" in [field["name"] for field in AVRO_SCHEMAS["HoodieRollbackPlan"]["fields"]]
