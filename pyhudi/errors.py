"""The errors of the package: the same classes as in ``pyhudi_core.errors``, which draws their tree."""

from pyhudi_core.errors import *  # noqa: F403  (one list of errors, kept there)
from pyhudi_core.errors import __all__


def __dir__() -> list[str]:
    return sorted(__all__)
