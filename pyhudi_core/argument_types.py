"""Check the types of arguments, by one rule for all public functions that have no better message for a wrong type.

Without this check a wrong type fails later, in code that the user never saw, or it never fails: a text is also a sequence of letters.
"""

from __future__ import annotations

import builtins
import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from numbers import Integral, Real
from types import SimpleNamespace, UnionType
from typing import Any, ParamSpec, TypeVar, Union, get_args, get_origin, get_type_hints

from pyhudi_core.errors import HudiError, InvalidOptionError
from pyhudi_core.naming import NotCalled

_CHECKED = "__pyhudi_checked__"

P = ParamSpec("P")
R = TypeVar("R")


def refuses_wrong_types(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function: it raises `InvalidOptionError` if an argument does not have the annotated type, and its errors name the table whose method
    it is.

    Compares classes, unions of classes, mappings, sequences and callables, but not their contents. Other annotations accept every value.
    """
    if getattr(function, _CHECKED, False):  # a dataclass with slots makes its class a second time
        return function
    signature = inspect.signature(function)
    various = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    parameters = [each for each in signature.parameters.values() if each.kind not in various]

    @functools.lru_cache(maxsize=1)
    def expected() -> Mapping[str, tuple[type, ...]]:
        return {each.name: found for each in parameters if (found := _classes(_annotation(function, each.name)))}

    @functools.wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        bound = _bound(signature, args, kwargs)
        for name, value in bound.items():
            if _is_wrong(value, expected().get(name, ())):
                raise _wrong(function.__name__, name, value, expected()[name], _table_of(args, bound.get("location")))
        try:
            return function(*args, **kwargs)
        except HudiError as error:
            if error.table is None and isinstance(table := _table_of(args, None), str):
                error.table = table
            raise

    setattr(checked, _CHECKED, True)
    return checked


class OfTable(NotCalled):
    """Base of an attribute of a table, such as ``table.compaction``. Its public methods and its ``__call__`` check the types of arguments."""

    __slots__ = ()

    def __init_subclass__(cls, **named: Any) -> None:
        super().__init_subclass__(**named)
        for name, method in list(vars(cls).items()):
            if inspect.isfunction(method) and (name == "__call__" or not name.startswith("_")):
                setattr(cls, name, refuses_wrong_types(method))


def _table_of(args: Sequence[Any], location: object) -> object:
    """Return the location of the table whose method was called with these arguments, or the argument ``location`` of a function; None if there is
    neither.
    """
    for source, name in (
        (args[0] if args else None, "location"),
        (getattr(args[0] if args else None, "context", None), "table"),
    ):
        if isinstance(found := getattr(source, name, None), str):
            return found
    return str(location) if isinstance(location, str) or hasattr(location, "__fspath__") else None


def _bound(signature: inspect.Signature, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the arguments by name; none if they do not fit, so that Python's own message is shown."""
    try:
        return signature.bind(*args, **kwargs).arguments
    except TypeError:
        return {}


def _is_wrong(value: object, types: tuple[type, ...]) -> bool:
    text_as_sequence = isinstance(value, str) and str not in types and Sequence in types
    return bool(types) and (text_as_sequence or not isinstance(value, types))


def _wrong(function: str, name: str, value: object, types: tuple[type, ...], table: object) -> InvalidOptionError:
    words = dict.fromkeys(
        _word(each) for each in types if each is not type(None) and not (each is Integral and Real in types)
    )
    shown = name if "options" in name else f"{name}={value!r:.80}"  # options may hold secrets
    return InvalidOptionError(
        f"{'This call' if function == '__call__' else function} cannot take {shown}, which is of type {type(value).__name__}",
        table=table if isinstance(table, str) else None,
        hint=f"Pass {' or '.join(words)}.",
    )


def _word(kind: type) -> str:
    words = {
        str: "text",
        Integral: "a whole number",
        Real: "a number",
        bool: "True or False",
        Sequence: "a list",
        Mapping: "a mapping",
        Callable: "a function",
    }
    return words.get(kind, kind.__name__)


class _Unknown(dict[str, Any]):
    """The names that a module imports for type checkers only. Each of them accepts every value."""

    def __missing__(self, name: str) -> Any:
        return Any


def _annotation(function: Callable[..., Any], name: str) -> Any:
    only = SimpleNamespace(__annotations__={name: function.__annotations__.get(name, Any)})
    try:
        return get_type_hints(only, {}, _Unknown({**vars(builtins), **function.__globals__}))[name]
    except AttributeError:  # a package has the name for type checkers only
        return Any


def _classes(hint: Any) -> tuple[type, ...]:
    """Return the classes that an annotation accepts; none if the annotation cannot be checked by classes."""
    origin = get_origin(hint)
    if origin in (Union, UnionType):
        parts = [_classes(each) for each in get_args(hint)]
        return tuple(kind for part in parts for kind in part) if all(parts) else ()
    kind = origin or hint
    if kind in (int, float):
        return (Integral,) if kind is int else (Real,)  # these classes include the numbers of NumPy
    if getattr(kind, "_is_protocol", False) and not getattr(kind, "_is_runtime_protocol", False):
        return ()
    return (kind,) if isinstance(kind, type) and kind is not Any else ()
