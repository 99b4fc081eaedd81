"""Public functions that take options: an unknown argument is explained, and no variable of this package shows a secret."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from pyhudi_core.model.masking import concealed
from pyhudi_core.naming import explains_arguments

_T = TypeVar("_T", bound=Callable[..., Any])


def takes_options(function: _T) -> _T:
    """Decorate a public function: `explains_arguments`, and secrets among the options are texts that ``repr`` does not show.

    So a traceback with local variables shows none in a frame of this package.
    """
    return explains_arguments(function, concealed)
