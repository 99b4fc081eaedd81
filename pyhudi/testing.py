"""The simulated world, the explorer, and the suites for storages and locks: the same names as ``pyhudi_core.testing``.

Needs the extra ``testing``. The suites (``LockKit``, ``SharedLockKit``, ``StorageKit``) are imported on first use, and pytest with them.
"""

from typing import TYPE_CHECKING

from pyhudi_core.lazy import lazy_names
from pyhudi_core.testing import __all__

if TYPE_CHECKING:
    from pyhudi_core.testing import *  # noqa: F403  (type checkers do not ask __getattr__)
else:
    __getattr__ = lazy_names(__name__, dict.fromkeys(__all__, "testing"), "pyhudi_core")


def __dir__() -> list[str]:
    return sorted(__all__)
