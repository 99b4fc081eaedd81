"""Hudi tables as Dagster assets: a materialization is a commit.

Names are imported on first use, so that ``dg`` can inspect the package without importing pyarrow.
"""

from typing import TYPE_CHECKING, Any

try:
    from dagster_shared.libraries import DagsterLibraryRegistry
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError(
        f"pyhudi_dagster needs the package {missing.name}: pip install 'pyhudi[dagster]'", name=missing.name
    ) from missing

from pyhudi_core.lazy import lazy_names

if TYPE_CHECKING:
    from pyhudi_core.orchestration.errors import CheckpointGapError as CheckpointGapError
    from pyhudi_core.orchestration.errors import ForeignRowsError as ForeignRowsError
    from pyhudi_core.orchestration.errors import RunEndedError as RunEndedError
    from pyhudi_core.orchestration.errors import TableMismatchError as TableMismatchError
    from pyhudi_core.orchestration.incremental import Changes as Changes
    from pyhudi_core.orchestration.settings import HudiWrite as HudiWrite
    from pyhudi_core.orchestration.table_services import ServiceState as ServiceState
    from pyhudi_core.orchestration.table_services import service_states as service_states
    from pyhudi_dagster.assets.automation import HudiAutomation as HudiAutomation
    from pyhudi_dagster.assets.definition_check import checked_definitions as checked_definitions
    from pyhudi_dagster.assets.external import hudi_external_asset as hudi_external_asset
    from pyhudi_dagster.assets.io_manager import HudiIOManager as HudiIOManager
    from pyhudi_dagster.assets.multi_assets import hudi_multi_asset as hudi_multi_asset
    from pyhudi_dagster.assets.outputs import HudiOutput as HudiOutput
    from pyhudi_dagster.assets.outputs import hudi_output as hudi_output
    from pyhudi_dagster.assets.single_asset import hudi_asset as hudi_asset
    from pyhudi_dagster.assets.translator import HudiTableDefinition as HudiTableDefinition
    from pyhudi_dagster.assets.translator import HudiTranslator as HudiTranslator
    from pyhudi_dagster.component.lake_component import HudiLakeComponent as HudiLakeComponent
    from pyhudi_dagster.component.listed_component import HudiLakeTablesComponent as HudiLakeTablesComponent
    from pyhudi_dagster.lake.info import HudiAssetInfo as HudiAssetInfo
    from pyhudi_dagster.lake.info import hudi_metadata as hudi_metadata
    from pyhudi_dagster.lake.resource import HudiLakeResource as HudiLakeResource
    from pyhudi_dagster.lake.run_launcher import LocalRunLauncher as LocalRunLauncher
    from pyhudi_dagster.lake.service_settings import Every as Every
    from pyhudi_dagster.lake.service_settings import Keep as Keep
    from pyhudi_dagster.lake.service_settings import OnCron as OnCron
    from pyhudi_dagster.lake.service_settings import Services as Services
    from pyhudi_dagster.lake.spark_session import SparkResource as SparkResource
    from pyhudi_dagster.observation.observation_definitions import build_hudi_checks as build_hudi_checks
    from pyhudi_dagster.observation.observation_definitions import (
        build_hudi_timeline_sensor as build_hudi_timeline_sensor,
    )
    from pyhudi_dagster.observation.reconciling import Reconciled as Reconciled
    from pyhudi_dagster.observation.reconciling import build_hudi_reconcile as build_hudi_reconcile
    from pyhudi_dagster.observation.reconciling import reconcile as reconcile
    from pyhudi_dagster.partitions.asset_partitions import Backfill as Backfill
    from pyhudi_dagster.partitions.asset_partitions import HudiPartitions as HudiPartitions
    from pyhudi_dagster.partitions.asset_partitions import chunked as chunked
    from pyhudi_dagster.reporting.checks import HudiCheck as HudiCheck
    from pyhudi_dagster.reporting.events import commit_event as commit_event
    from pyhudi_dagster.reporting.events import commit_events as commit_events
    from pyhudi_dagster.reporting.events import known_size as known_size
    from pyhudi_dagster.services.read_optimized import hudi_read_optimized_asset as hudi_read_optimized_asset
    from pyhudi_dagster.services.service_definitions import build_hudi_services as build_hudi_services
    from pyhudi_dagster.services.service_policy import PerTableJob as PerTableJob
    from pyhudi_dagster.services.service_policy import ServicePolicy as ServicePolicy
    from pyhudi_dagster.services.service_policy import SharedSession as SharedSession
    from pyhudi_dagster.steps.pipes import HudiPipes as HudiPipes

__version__ = "0.1.0"

_HOMES = {
    "Backfill": "partitions.asset_partitions",
    "Every": "lake.service_settings",
    "HudiAssetInfo": "lake.info",
    "HudiAutomation": "assets.automation",
    "HudiCheck": "reporting.checks",
    "HudiIOManager": "assets.io_manager",
    "HudiLakeComponent": "component.lake_component",
    "HudiLakeResource": "lake.resource",
    "HudiLakeTablesComponent": "component.listed_component",
    "HudiOutput": "assets.outputs",
    "HudiPartitions": "partitions.asset_partitions",
    "HudiPipes": "steps.pipes",
    "HudiTableDefinition": "assets.translator",
    "HudiTranslator": "assets.translator",
    "Keep": "lake.service_settings",
    "LocalRunLauncher": "lake.run_launcher",
    "OnCron": "lake.service_settings",
    "PerTableJob": "services.service_policy",
    "Reconciled": "observation.reconciling",
    "ServicePolicy": "services.service_policy",
    "Services": "lake.service_settings",
    "SharedSession": "services.service_policy",
    "SparkResource": "lake.spark_session",
    "build_hudi_checks": "observation.observation_definitions",
    "build_hudi_reconcile": "observation.reconciling",
    "build_hudi_services": "services.service_definitions",
    "build_hudi_timeline_sensor": "observation.observation_definitions",
    "checked_definitions": "assets.definition_check",
    "chunked": "partitions.asset_partitions",
    "commit_event": "reporting.events",
    "commit_events": "reporting.events",
    "hudi_asset": "assets.single_asset",
    "hudi_external_asset": "assets.external",
    "hudi_metadata": "lake.info",
    "hudi_multi_asset": "assets.multi_assets",
    "hudi_output": "assets.outputs",
    "hudi_read_optimized_asset": "services.read_optimized",
    "known_size": "reporting.events",
    "reconcile": "observation.reconciling",
}

_BELOW = {
    "Changes": "incremental",
    "CheckpointGapError": "errors",
    "ForeignRowsError": "errors",
    "HudiWrite": "settings",
    "RunEndedError": "errors",
    "ServiceState": "table_services",
    "TableMismatchError": "errors",
    "service_states": "table_services",
}
"""Names that are the same for every orchestrator; they are defined in `pyhudi_core.orchestration`."""

__all__ = [*sorted({*_HOMES, *_BELOW}), "__version__"]  # noqa: PLE0604

DagsterLibraryRegistry.register("pyhudi-dagster", __version__, is_dagster_package=False)

_own = lazy_names(__name__, _HOMES)
_below = lazy_names(__name__, _BELOW, "pyhudi_core.orchestration")


def __getattr__(name: str) -> Any:
    return _below(name) if name in _BELOW else _own(name)


def __dir__() -> list[str]:
    """Return all public names, including names that are not imported yet: ``dg`` looks for components among them."""
    return sorted({*globals(), *__all__})
