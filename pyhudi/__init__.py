"""Apache Hudi tables in Python: on Arrow without Spark, and on Spark through PySpark.

The public names: ``import pyhudi as hudi``. They are imported on first use. Errors are in ``pyhudi.errors``, the data source and the sink of Spark in
``pyhudi.spark``, the simulator and the suites for storages and locks in ``pyhudi.testing``. ``pyhudi_core`` implements them.
"""

import importlib
from typing import TYPE_CHECKING, Any

import pyhudi_core
from pyhudi_core import _NAMES
from pyhudi_core import __version__ as __version__
from pyhudi_core.naming import no_name

if TYPE_CHECKING:
    from pyhudi import spark as spark
    from pyhudi import testing as testing
    from pyhudi_core import *  # noqa: F403  (type checkers do not ask __getattr__)
else:
    __all__ = pyhudi_core.__all__

_MODULES = ("errors", "spark", "testing")


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    if name not in _NAMES:
        raise no_name(__name__, name, _NAMES)
    return pyhudi_core.__getattr__(
        name
    )  # as an attribute, `snapshot` and `transaction` may be packages of the implementation


def __dir__() -> list[str]:
    return sorted({*_NAMES, *_MODULES, "__version__"})
