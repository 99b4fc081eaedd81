"""The page that compares integrations says 'yes' for this project only with a test, and every 'no' has its reason."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from pyhudi_dagster.reporting.checks import KINDS

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "dagster-reference.md").read_text()
PROOFS = {
    "Resource": ["dagster/test_control_plane.py::test_looking_at_a_table_starts_no_jvm"],
    "IO manager": [
        "dagster/test_io_manager.py::test_partitions_are_written_in_one_commit_and_read_as_a_set",
        "dagster/test_polars.py::test_the_io_manager_writes_and_reads_what_the_annotations_say",
    ],
    "PySpark writes without collecting to the driver": [
        "dagster/test_spark.py::test_a_dataframe_becomes_one_commit_for_all_partitions_of_a_run"
    ],
    "Upsert": ["dagster/test_assets.py::test_a_materialization_is_one_upsert_commit"],
    "Atomic replacement of a partition": [
        "dagster/test_pitfalls.py::test_a_second_backfill_over_a_range_in_one_run_works_and_replaces_exactly_its_partitions"
    ],
    "Backfill of a range in one run": [
        "dagster/test_partitions.py::test_a_range_of_partitions_is_one_commit_with_figures_for_each",
        "e2e/test_many_at_once.py::test_a_backfill_of_a_year_is_one_run_and_one_commit_with_an_event_for_each_day",
    ],
    "Metadata for each partition of a range": [
        "dagster/test_what_the_ui_says.py::test_sums_over_the_events_of_a_run_are_the_totals_of_its_commit_once"
    ],
    "Run id in the commit": ["dagster/test_assets.py::test_the_commit_names_its_run"],
    "The event names its own commit": ["dagster/test_assets.py::test_the_materialization_names_its_own_commit"],
    "Data version is the commit": [
        "dagster/test_automation.py::test_a_second_event_of_the_same_commit_requests_nothing"
    ],
    "Columns tab": ["dagster/test_assets.py::test_the_columns_tab_shows_the_role_of_each_column"],
    "Row counts and sizes without a scan": ["dagster/test_assets.py::test_the_figures_of_a_commit_become_metadata"],
    "Name, storage and address of the table as Dagster's own entries": [
        "dagster/test_definitions.py::test_the_table_that_an_asset_names_is_the_one_it_writes_and_locks"
    ],
    "Asset checks": ["dagster/test_health_checks.py::test_all_checks_pass_for_a_healthy_table"],
    "Checks before rows are visible": [
        "dagster/test_pre_commit_checks.py::test_a_refused_commit_leaves_a_failed_check_no_event_and_no_row"
    ],
    "Sensor on the table's log": ["dagster/test_timeline_sensor.py::test_partition_sensor_watermark_skips_nothing"],
    "External tables as assets": [
        "dagster/test_timeline_sensor.py::test_a_foreign_commit_is_a_materialization_of_each_partition_that_it_changed"
    ],
    "Maintenance": ["dagster/test_service_jobs.py::test_a_due_compaction_runs_and_its_commit_names_the_run"],
    "Backfill policy as an argument": ["dagster/test_partitions.py::test_the_backfill_mode_is_dagsters_policy"],
    "Pools": ["dagster/test_service_jobs.py::test_services_have_pools_of_their_own_and_never_the_writers"],
    "Retries after conflicts": [
        "dagster/test_runner.py::test_the_runs_log_tells_of_a_conflict_and_the_commit_that_came_after_it"
    ],
    "Terminate reaches the engine": [
        "dagster/test_spark.py::test_an_interrupt_cancels_the_steps_own_spark_jobs_and_rolls_back",
        "e2e/test_spark_terminate.py::test_terminate_while_spark_runs_ends_the_run_and_its_jvm_and_publishes_nothing",
    ],
    "Component and scaffolder": ["dagster/test_lake_component.py::test_what_is_scaffolded_loads_and_materializes"],
    "Form of the component in the UI": ["dagster/test_lake_component.py::test_the_ui_has_a_form_for_a_lake"],
    "Translator": ["dagster/test_definitions.py::test_a_translator_names_assets_and_tables"],
    "Pipes": [
        "dagster/test_pipes.py::test_a_script_writes_and_its_commit_arrives_with_identity_figures_and_what_it_reported"
    ],
}


def rows_below(heading):
    """The rows of the table in a part of the page."""
    part = PAGE.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in part.splitlines() if line[:2] == "| "][1:]


COMPARED = rows_below("Compared with other integrations")
ABSENT = rows_below("What does not exist, and why")


@pytest.mark.parametrize("row", COMPARED, ids=[row[0] for row in COMPARED])
def test_every_yes_has_a_test(row):
    feature, *_, here = row
    assert here.startswith("yes")
    for path, *names in (each.split("::") for each in PROOFS[feature]):
        tree = ast.parse((ROOT / "tests" / path).read_text())
        known = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef)}
        assert set(names) <= known, f"tests/{path} has no {'::'.join(names)}"


def test_every_feature_is_on_the_page_and_every_no_has_its_reason():
    assert [row[0] for row in COMPARED] == list(PROOFS)
    assert len(ABSENT) > 10
    assert [row[0] for row in ABSENT if not row[1]] == []


def test_the_page_of_health_checks_has_them_all():
    page = (ROOT / "docs" / "dagster-timeline.md").read_text()
    assert [name for name in KINDS if f"| `{name}` | " not in page] == []
