"""The annotations of the parameters of an asset's function.

The return annotation is not evaluated. Its type may be imported under ``if TYPE_CHECKING:``, so that loading the definitions does not import
pyspark or pandas.
"""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable
from typing import Any

from pyhudi_core.orchestration.errors import definition_error


def parameter_hints(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the annotations of the parameters as types. Raises `InvalidOptionError` if a name in an annotation cannot be resolved."""
    innermost = inspect.unwrap(function)
    annotations = {name: hint for name, hint in inspect.get_annotations(innermost).items() if name != "return"}
    holder = types.SimpleNamespace(__annotations__=annotations)
    try:
        return typing.get_type_hints(holder, getattr(innermost, "__globals__", {}), include_extras=True)
    except NameError as error:
        raise definition_error(
            f"The annotations of {getattr(function, '__name__', function)} use the name {error.name}, which does not exist in its module",
            "Import the type of a parameter outside 'if TYPE_CHECKING:'; only the return type may be imported there.",
        ) from error
