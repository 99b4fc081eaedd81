"""Hudi tables in Apache Airflow 3: a provider with a connection, operators, sensors, and assets that follow a table's timeline.

Each name is imported on first use, so a DAG file is parsed quickly, and Airflow can read the provider's description without pyhudi_core.
"""

from importlib import util
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from pyhudi.errors import MissingExtraError
from pyhudi_core.lazy import lazy_names

if TYPE_CHECKING:
    from pyhudi_airflow.assets import hudi_asset as hudi_asset
    from pyhudi_airflow.consumer_operator import HudiConsumerOperator as HudiConsumerOperator
    from pyhudi_airflow.hook import HudiHook as HudiHook
    from pyhudi_airflow.sensors import HudiServiceDueSensor as HudiServiceDueSensor
    from pyhudi_airflow.sensors import HudiSnapshotSensor as HudiSnapshotSensor
    from pyhudi_airflow.service_operators import HudiCheckOperator as HudiCheckOperator
    from pyhudi_airflow.service_operators import HudiServiceOperator as HudiServiceOperator
    from pyhudi_airflow.service_operators import HudiUpkeepOperator as HudiUpkeepOperator
    from pyhudi_airflow.triggers import HudiTimelineTrigger as HudiTimelineTrigger
    from pyhudi_airflow.write_operators import HudiWriteOperator as HudiWriteOperator
    from pyhudi_core.orchestration import HudiWrite as HudiWrite

_HOMES = {
    "HudiCheckOperator": "service_operators",
    "HudiConsumerOperator": "consumer_operator",
    "HudiHook": "hook",
    "HudiServiceDueSensor": "sensors",
    "HudiSnapshotSensor": "sensors",
    "HudiServiceOperator": "service_operators",
    "HudiTimelineTrigger": "triggers",
    "HudiUpkeepOperator": "service_operators",
    "HudiWrite": "write_operators",
    "HudiWriteOperator": "write_operators",
    "hudi_asset": "assets",
}

__all__ = sorted(_HOMES)  # noqa: PLE0605

_lazy = lazy_names(__name__, _HOMES)


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        _refuse_other_airflow()
    return _lazy(name)


def __dir__() -> list[str]:
    return sorted(__all__)


def _refuse_other_airflow() -> None:
    """Raise `MissingExtraError` without Airflow, and in Airflow 2, which has no task SDK."""
    if util.find_spec("airflow") is None:
        raise MissingExtraError(
            "pyhudi_airflow needs Apache Airflow, which is not installed",
            hint="Install the extra: pip install 'pyhudi[airflow]'.",
        )
    if util.find_spec("airflow.sdk") is None:
        raise MissingExtraError(
            f"pyhudi_airflow needs Airflow 3.0 or newer, and this is {version('apache-airflow')}",
            hint="Install a newer Airflow. From Airflow 2, start the command: BashOperator(bash_command='pyhudi upkeep /lake').",
        )
