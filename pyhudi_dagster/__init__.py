"""Hudi tables as Dagster assets: a materialization is a commit.

Names are imported on first use, so that ``dg`` can inspect the package without importing pyarrow.
"""

from typing import TYPE_CHECKING

try:
    from dagster_shared.libraries import DagsterLibraryRegistry
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError(
        f"pyhudi_dagster needs the package {missing.name}: pip install 'pyhudi[dagster]'", name=missing.name
    ) from missing

from pyhudi_core.late import late_names

if TYPE_CHECKING:
    from pyhudi_dagster.assets import hudi_asset as hudi_asset
    from pyhudi_dagster.automation import HudiAutomation as HudiAutomation
    from pyhudi_dagster.checks import HudiCheck as HudiCheck
    from pyhudi_dagster.definition_check import checked_definitions as checked_definitions
    from pyhudi_dagster.errors import CheckpointGapError as CheckpointGapError
    from pyhudi_dagster.errors import ForeignRowsError as ForeignRowsError
    from pyhudi_dagster.errors import RunEndedError as RunEndedError
    from pyhudi_dagster.errors import TableMismatchError as TableMismatchError
    from pyhudi_dagster.events import commit_event as commit_event
    from pyhudi_dagster.events import commit_events as commit_events
    from pyhudi_dagster.events import known_size as known_size
    from pyhudi_dagster.external import hudi_external_asset as hudi_external_asset
    from pyhudi_dagster.incremental import Changes as Changes
    from pyhudi_dagster.info import HudiAssetInfo as HudiAssetInfo
    from pyhudi_dagster.info import hudi_metadata as hudi_metadata
    from pyhudi_dagster.io_manager import HudiIOManager as HudiIOManager
    from pyhudi_dagster.lake_component import HudiLakeComponent as HudiLakeComponent
    from pyhudi_dagster.multi_assets import hudi_multi_asset as hudi_multi_asset
    from pyhudi_dagster.observation_definitions import build_hudi_checks as build_hudi_checks
    from pyhudi_dagster.observation_definitions import build_hudi_timeline_sensor as build_hudi_timeline_sensor
    from pyhudi_dagster.outputs import HudiOutput as HudiOutput
    from pyhudi_dagster.outputs import hudi_output as hudi_output
    from pyhudi_dagster.partitions import Backfill as Backfill
    from pyhudi_dagster.partitions import HudiPartitions as HudiPartitions
    from pyhudi_dagster.partitions import chunked as chunked
    from pyhudi_dagster.pipes import HudiPipes as HudiPipes
    from pyhudi_dagster.read_optimized import hudi_read_optimized_asset as hudi_read_optimized_asset
    from pyhudi_dagster.reconciling import Reconciled as Reconciled
    from pyhudi_dagster.reconciling import build_hudi_reconcile as build_hudi_reconcile
    from pyhudi_dagster.reconciling import reconcile as reconcile
    from pyhudi_dagster.resource import HudiLakeResource as HudiLakeResource
    from pyhudi_dagster.service_definitions import build_hudi_services as build_hudi_services
    from pyhudi_dagster.service_policy import PerTableJob as PerTableJob
    from pyhudi_dagster.service_policy import ServicePolicy as ServicePolicy
    from pyhudi_dagster.service_policy import SharedSession as SharedSession
    from pyhudi_dagster.service_settings import Every as Every
    from pyhudi_dagster.service_settings import Keep as Keep
    from pyhudi_dagster.service_settings import OnCron as OnCron
    from pyhudi_dagster.service_settings import Services as Services
    from pyhudi_dagster.services import ServiceState as ServiceState
    from pyhudi_dagster.services import service_states as service_states
    from pyhudi_dagster.settings import HudiWrite as HudiWrite
    from pyhudi_dagster.spark_session import SparkResource as SparkResource
    from pyhudi_dagster.translator import HudiTableDefinition as HudiTableDefinition
    from pyhudi_dagster.translator import HudiTranslator as HudiTranslator

__version__ = "0.1.0"

_HOMES = {
    "Backfill": "partitions",
    "Changes": "incremental",
    "CheckpointGapError": "errors",
    "Every": "service_settings",
    "ForeignRowsError": "errors",
    "HudiAssetInfo": "info",
    "HudiAutomation": "automation",
    "HudiCheck": "checks",
    "HudiIOManager": "io_manager",
    "HudiLakeComponent": "lake_component",
    "HudiLakeResource": "resource",
    "HudiOutput": "outputs",
    "HudiPartitions": "partitions",
    "HudiPipes": "pipes",
    "HudiTableDefinition": "translator",
    "HudiTranslator": "translator",
    "HudiWrite": "settings",
    "Keep": "service_settings",
    "OnCron": "service_settings",
    "PerTableJob": "service_policy",
    "Reconciled": "reconciling",
    "RunEndedError": "errors",
    "ServicePolicy": "service_policy",
    "ServiceState": "services",
    "Services": "service_settings",
    "SharedSession": "service_policy",
    "SparkResource": "spark_session",
    "TableMismatchError": "errors",
    "build_hudi_checks": "observation_definitions",
    "build_hudi_reconcile": "reconciling",
    "build_hudi_services": "service_definitions",
    "build_hudi_timeline_sensor": "observation_definitions",
    "checked_definitions": "definition_check",
    "chunked": "partitions",
    "commit_event": "events",
    "commit_events": "events",
    "hudi_asset": "assets",
    "hudi_external_asset": "external",
    "hudi_metadata": "info",
    "hudi_multi_asset": "multi_assets",
    "hudi_output": "outputs",
    "hudi_read_optimized_asset": "read_optimized",
    "known_size": "events",
    "reconcile": "reconciling",
    "service_states": "services",
}

__all__ = [*sorted(_HOMES), "__version__"]  # noqa: PLE0604

DagsterLibraryRegistry.register("pyhudi-dagster", __version__, is_dagster_package=False)

__getattr__ = late_names(__name__, _HOMES)


def __dir__() -> list[str]:
    """All public names, also those that are not imported yet: ``dg`` looks for components among them."""
    return sorted({*globals(), *__all__})
