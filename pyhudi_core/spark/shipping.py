"""Send this package to the executors of a session."""

from __future__ import annotations

import logging
from typing import Any

from pyhudi_core import __version__
from pyhudi_core.errors import from_extra
from pyhudi_core.naming import set_module
from pyhudi_core.runtime.own_package import zipped_package

_log = logging.getLogger(__name__)


@set_module("pyhudi.spark")
def ship(spark: Any) -> None:
    """Send the modules of pyhudi to the executors of this session, which have its dependencies (pyarrow, numpy and so on) but not pyhudi itself.

    Raises `ConfigError` if the executors still cannot run the package.
    """
    with from_extra("spark", "ship"):
        from pyhudi_core.engine.spark_executors import forget, refuse_unfit_executors  # noqa: PLC0415  (Spark is imported only where it is used)
        from pyhudi_core.engine.spark_sessions import session_of  # noqa: PLC0415
    session = session_of(spark)
    session.refuse_unusable()
    if session.runs_here:
        return
    archive = zipped_package(__version__)
    session.ship(archive)
    _log.info("sent %s to the executors", archive)
    forget(spark)
    refuse_unfit_executors(spark)
