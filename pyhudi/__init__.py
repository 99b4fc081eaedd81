"""Apache Hudi tables in Python: on Arrow without Spark, and on Spark through PySpark.

The public names, the same as those of ``pyhudi_core``: ``import pyhudi as hudi``. They are imported on first use.
"""

from typing import TYPE_CHECKING, Any

import pyhudi_core
from pyhudi_core import __all__ as __all__
from pyhudi_core import __version__ as __version__

if TYPE_CHECKING:
    from pyhudi_core import *  # noqa: F403  (type checkers do not ask __getattr__)


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(pyhudi_core, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
