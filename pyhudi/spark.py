"""Tables as a data source and a sink of Spark: ``register(spark)``, then ``spark.read.format("pyhudi")``. The same names as ``pyhudi_core.spark``.

Names are imported on first use, and PySpark with them.
"""

from typing import TYPE_CHECKING

from pyhudi_core.lazy import lazy_names
from pyhudi_core.spark import __all__

if TYPE_CHECKING:
    from pyhudi_core.spark import *  # noqa: F403  (type checkers do not ask __getattr__)
else:
    __getattr__ = lazy_names(__name__, dict.fromkeys(__all__, "spark"), "pyhudi_core")


def __dir__() -> list[str]:
    return sorted(__all__)
