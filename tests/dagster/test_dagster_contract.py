"""What is used of Dagster without being public works in the installed release, and is used in one module only."""

import os
import re
from pathlib import Path

import dagster as dg
import pytest

from pyhudi_dagster import HudiLakeResource, dagster_internals

PACKAGE = Path(dagster_internals.__file__).parent
NOT_PUBLIC = re.compile(r"\bdagster\._|get_step_execution_context|\.step_context|remote_job_origin|asset_layer")
KEY = dg.AssetKey("orders")


def called(name, *arguments):
    """What a function of the module gives in this release; a change of Dagster's is told with the function's name."""
    try:
        return getattr(dagster_internals, name)(*arguments)
    except (AttributeError, TypeError, ImportError) as error:
        pytest.fail(
            f"dagster {dg.__version__} has changed what pyhudi_dagster/dagster_internals.py uses in {name}: {error}. "
            "Find another way there."
        )


def test_an_assets_step_says_its_run_and_its_upstream_metadata(instance):
    seen = {}

    @dg.asset(metadata={"table": "erp/orders"})
    def orders(): ...

    @dg.asset(deps=[orders], code_version="v7")
    def copy(context: dg.AssetExecutionContext):
        seen["facts"] = called("run_facts_of", context, dg.AssetKey("copy"))
        seen["metadata"] = called("metadata_of_asset", context, KEY)
        seen["direct"] = called("is_called_directly", context)
        seen["current"] = called("current_context").run.run_id

    run = dg.materialize([orders, copy], instance=instance).run_id
    facts = seen["facts"]
    assert (facts.run.run_id, facts.step_key, facts.retry_number) == (run, "copy", 0)
    assert (facts.code_version, facts.code_location) == ("v7", "")
    assert facts.instance is instance
    assert seen["metadata"]["table"] == "erp/orders"
    assert seen["direct"] is False
    assert seen["current"] == run


def test_an_outputs_step_says_its_run_and_takes_entries_and_a_data_version(instance):
    seen = {}

    class Manager(dg.IOManager):
        def handle_output(self, context, obj):
            seen["facts"] = called("run_facts_of", context, KEY)
            called("add_output_entries", context, KEY, "2026-01-02", {"hudi/rows": 3})
            called("set_output_data_version", context, KEY, "v1")

        def load_input(self, context):
            seen["input"] = called("input_facts_of", context)

    @dg.asset(name="orders", partitions_def=dg.DailyPartitionsDefinition("2026-01-01"))
    def orders() -> int:
        return 1

    @dg.asset
    def copy(orders) -> None: ...

    resources = {"io_manager": Manager()}
    done = dg.materialize([orders, copy], instance=instance, resources=resources, partition_key="2026-01-02")
    assert seen["input"].run.run_id == done.run_id
    assert seen["input"].writes == {KEY, dg.AssetKey("copy")}
    event, _ = done.get_asset_materialization_events()
    assert (seen["facts"].run.run_id, seen["facts"].step_key) == (done.run_id, "orders")
    assert event.materialization.metadata["hudi/rows"].value == 3
    assert event.materialization.tags["dagster/data_version"] == "v1"


def test_a_run_says_its_process(instance):
    @dg.asset
    def orders(): ...

    done = dg.materialize([orders], instance=instance, tags={".dagster/grpc_info": '{"host": "localhost", "port": 1}'})
    assert called("worker_of", instance, instance.get_run_by_id(done.run_id)) == os.getpid()
    assert [called("worker_health", gone).status.value for gone in ("", "gone")] == ["RUNNING", "FAILED"]


def test_a_context_without_a_run_says_so():
    context = dg.build_asset_context()
    assert called("is_called_directly", context) is True
    assert called("run_facts_of", context, KEY) is None
    assert called("is_called_directly", called("current_context")) is True


@pytest.mark.parametrize("path", sorted(PACKAGE.glob("*.py")), ids=lambda path: path.name)
def test_only_one_module_reaches_past_dagsters_public_names(path):
    found = NOT_PUBLIC.findall(path.read_text())
    assert (path.name == "dagster_internals.py") == bool(found), found


def test_a_sensor_that_requires_no_resource_finds_those_of_its_code_location():
    defs = dg.Definitions(resources={"lake": dg.ResourceDefinition.hardcoded_resource("of the location")})
    with dg.build_sensor_context(definitions=defs) as context:
        found = called("resource_definitions_of", context)
    assert found["lake"] is defs.get_repository_def().get_top_level_resources()["lake"]
    with dg.build_sensor_context(definitions=defs, resources={"lake": "of the test"}) as context:
        given = called("resource_definitions_of", context)
    assert given["lake"] is not found["lake"]


def test_a_resource_without_a_config_schema_keeps_its_values_and_those_of_the_environment(tmp_path, monkeypatch):
    lake = HudiLakeResource(warehouse=dg.EnvVar("OF_THIS_TEST"), options={"hoodie.metadata.enable": "false"})
    monkeypatch.setenv("OF_THIS_TEST", str(tmp_path))
    seen = {}

    @dg.op(required_resource_keys={"lake"})
    def look(context: dg.OpExecutionContext) -> None:
        seen["lake"] = context.resources.lake

    @dg.job(resource_defs={"lake": called("without_config", lake, "The lake.")})
    def looking():
        look()

    assert looking.execute_in_process().success
    assert (seen["lake"].warehouse, seen["lake"].options) == (str(tmp_path), lake.options)
    assert not looking.run_config_schema.config_type.fields["resources"].is_required
