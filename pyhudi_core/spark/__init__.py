"""Tables as a data source of Spark 4 (``spark.read.format("pyhudi")``, ``spark.readStream.format("pyhudi")``), and as a sink of ``foreachBatch``.

Names are imported on first use, because Spark starts processes that need only one module of this package.
"""

from typing import TYPE_CHECKING

from pyhudi_core.lazy import lazy_names

if TYPE_CHECKING:
    from pyhudi_core.spark.registration import error_of as error_of
    from pyhudi_core.spark.registration import own_errors as own_errors
    from pyhudi_core.spark.registration import register as register
    from pyhudi_core.spark.shipping import ship as ship
    from pyhudi_core.spark.sink import StreamSink as StreamSink
    from pyhudi_core.spark.sink import last_batch as last_batch
    from pyhudi_core.spark.views import view as view
else:
    _HOMES = dict.fromkeys(("error_of", "own_errors", "register"), "registration")
    __getattr__ = lazy_names(
        __name__, {**_HOMES, "StreamSink": "sink", "last_batch": "sink", "ship": "shipping", "view": "views"}
    )

__all__ = ["StreamSink", "error_of", "last_batch", "own_errors", "register", "ship", "view"]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
