"""What the parameters of an asset's function are annotated with.

The type that the function returns is not asked for. So it may stand behind ``if TYPE_CHECKING:``, which keeps pyspark and pandas from being
imported when definitions are loaded.
"""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable
from typing import Any

from pyhudi_dagster.errors import definition_error


def parameter_hints(function: Callable[..., Any]) -> dict[str, Any]:
    """The annotations of the parameters as types. Raises `InvalidOptionError` for one that names what cannot be found."""
    innermost = inspect.unwrap(function)
    annotations = {name: hint for name, hint in inspect.get_annotations(innermost).items() if name != "return"}
    holder = types.SimpleNamespace(__annotations__=annotations)
    try:
        return typing.get_type_hints(holder, getattr(innermost, "__globals__", {}), include_extras=True)
    except NameError as error:
        raise definition_error(
            f"The annotations of {getattr(function, '__name__', function)} name {error.name}, which its module does not have",
            "Import the type of a parameter outside of 'if TYPE_CHECKING:'; only the type of the result may stand there.",
        ) from error
