"""Under which names the package is known: the module that a public name reports, and what to call instead of a name that is not there.

Classes, functions and errors live where their layer is, and users import them from ``pyhudi``. So they report that module: in a traceback
(``pyhudi.errors.TableNotFoundError: ...``), in ``repr`` and in what ``pickle`` writes. A test compares every public name with its module.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, ForwardRef, TypeVar

_T = TypeVar("_T", bound=Callable[..., Any])


def set_module(name: str) -> Callable[[_T], _T]:
    """Decorate a public class or function: its ``__module__`` is the one that users import it from.

    It is the outermost decorator. The annotations of a class go on to be read in the module where they are written.
    """

    def public(thing: _T) -> _T:
        home = thing.__module__
        thing.__module__ = name
        if isinstance(thing, type):
            for attribute, hint in inspect.get_annotations(thing).items():
                if isinstance(hint, str):
                    thing.__annotations__[attribute] = ForwardRef(hint, module=home, is_class=True)
        return thing

    return public


class NamesInstead:
    """Answers a name that a class does not have, but that people look for, with the call to use.

    A new name is one entry of ``_INSTEAD`` of the class: the name, and the call to write.
    """

    _INSTEAD: ClassVar[Mapping[str, str]] = {}

    if not TYPE_CHECKING:  # a type checker would take every name for an attribute

        def __getattr__(self, name: str) -> Any:
            call = self._INSTEAD.get(name)
            if call is None:
                return object.__getattribute__(
                    self, name
                )  # raises Python's own error, or the one of the property that failed
            raise AttributeError(f"{type(self).__name__} has no {name!r}: use {call}", name=name)
