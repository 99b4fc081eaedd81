"""Import modules on first use, so that a program waits only for the code that it calls.

To open a table, a program needs an eighth of the package, and few libraries. The other libraries take longer to import than pyarrow and numpy
together. So the modules that `open_table` imports use `lazy` and `lazy_call` for the other libraries.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any

from pyhudi_core.naming import no_name


class LazyModule:
    """Stands for a module; the first use of one of its names imports it."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)  # asked by pickle and others about this object itself
        value = getattr(importlib.import_module(self._name), name)
        setattr(self, name, value)
        return value

    def __repr__(self) -> str:
        return f"<lazy module {self._name}>"


def lazy(name: str) -> Any:
    """Return the module of this name. An import under ``if TYPE_CHECKING`` shows it to type checkers and to the linter of layers."""
    return LazyModule(name)


def lazy_in(package: str, *names: str) -> list[Any]:
    """Return the modules of these names in a package, each as `lazy` does."""
    return [lazy(f"{package}.{name}") for name in names]


def lazy_call(module: str, name: str) -> Callable[..., Any]:
    """Return a class or function of a module that is imported when it is first called."""

    def call(*given: Any, **named: Any) -> Any:
        return getattr(importlib.import_module(module), name)(*given, **named)

    return call


def lazy_names(package: str, homes: Mapping[str, str], inside: str | None = None) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a package that imports its public names when they are first used.

    Arguments:
        package: the ``__name__`` of the module that has the names.
        homes: the module of each public name, as a name inside of ``inside``.
        inside: the package of these modules; None: ``package``.
    """

    def of(name: str) -> Any:
        home = homes.get(name)
        if home is None:
            raise no_name(package, name, homes)
        value = getattr(importlib.import_module(f"{inside or package}.{home}"), name)
        if name not in vars(sys.modules[package]):  # the name may also be that of a package
            setattr(sys.modules[package], name, value)
        return value

    return of
