"""Public names: the module that a name reports, and the suggestion for a name that does not exist.

Classes, functions and errors are defined in their layer, but users import them from ``pyhudi``. So they report the module of the import: in a
traceback (``pyhudi.errors.TableNotFoundError: ...``), in ``repr`` and in pickles. A test compares every public name with its module.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, ForwardRef, TypeVar

_T = TypeVar("_T", bound=Callable[..., Any])

_NAMES = {
    "DeltaTable": "hudi.open_table(location)",
    "Table": "hudi.open_table(location)",
    "add_files": "hudi.bootstrap(...)",
    "convert_to_deltalake": "hudi.bootstrap(...)",
    "create": "hudi.create_table(location, schema, record_key=...)",
    "holds": "hudi.satisfies(condition), or table.holds",
    "import_files": "the command pyhudi import, or hudi.bootstrap(...)",
    "load": "hudi.open_table(location)",
    "load_catalog": "hudi.lake(location): the tables in a folder, by their names",
    "load_table": "hudi.open_table(location)",
    "open": "hudi.open_table(location)",
    "read": "hudi.open_table(location).scan().to_arrow()",
    "read_hudi": "hudi.open_table(location).scan().to_arrow()",
    "read_table": "hudi.open_table(location).scan().to_arrow()",
    "scan": "hudi.open_table(location).scan()",
    "table": "hudi.open_table(location)",
    "write": "table.upsert(data), of hudi.open_table(location) or hudi.create_table(...)",
    "write_deltalake": "table.upsert(data), of hudi.open_table(location) or hudi.create_table(...)",
    "write_hudi": "table.upsert(data), of hudi.open_table(location) or hudi.create_table(...)",
    "write_table": "table.upsert(data), of hudi.open_table(location) or hudi.create_table(...)",
}
"""Suggestions for names that people look for in the package."""

_ARGUMENTS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(
        ("base_path", "location", "path", "table", "table_path", "table_uri", "uri", "warehouse"),
        ("location", "tables"),
    ),
    **dict.fromkeys(("key", "key_columns", "primary_key", "primary_keys", "record_keys"), ("record_key", "keys")),
    **dict.fromkeys(
        (
            "partition",
            "partition_cols",
            "partition_columns",
            "partition_key",
            "partition_spec",
            "partitioned_by",
            "partitions",
        ),
        ("partition_by", "partitions", "where"),
    ),
    **dict.fromkeys(
        ("ordering_field", "ordering_fields", "precombine", "precombine_field", "precombine_key"), ("ordering",)
    ),
    **dict.fromkeys(("type", "storage_type"), ("table_type",)),
    **dict.fromkeys(("table_name",), ("name",)),
    **dict.fromkeys(("config", "configuration", "properties", "table_properties"), ("options",)),
    **dict.fromkeys(("client_options", "credentials", "fs_options", "storage"), ("storage_options",)),
    **dict.fromkeys(("cols", "fields", "select", "selected_fields"), ("columns",)),
    **dict.fromkeys(("condition", "expr", "filter", "filters", "predicate", "row_filter"), ("where",)),
    **dict.fromkeys(("at", "snapshot_id", "timestamp", "version", "version_as_of"), ("as_of",)),
    **dict.fromkeys(("begin", "since", "start", "starting_version"), ("after",)),
    **dict.fromkeys(("end", "ending_version", "to"), ("until",)),
    **dict.fromkeys(("commit_metadata", "commit_properties", "custom_metadata", "metadata"), ("extra_metadata",)),
    **dict.fromkeys(("session", "spark_session"), ("spark",)),
    **dict.fromkeys(("dataframe", "df", "records", "rows", "source"), ("data", "keys")),
    **dict.fromkeys(("validate", "validators"), ("pre_commit",)),
}
"""Maps an argument name that people try to the real arguments that they may mean. The error suggests the first of these that the function has."""

_CALLS = {
    "batch": "table.upsert(data, batch=True): only upserts share commits",
    "batch_size": "table.scan(...).to_batches()",
    "limit": "table.scan(...).limit(n)",
    "order_by": "table.scan(...).to_arrow().sort_by(column)",
    "merge_schema": "no argument: new columns of the data become columns of the table",
    "mode": 'the method that says it: table.upsert, table.insert, table.insert_overwrite_table (mode="overwrite") or'
    ' table.insert (mode="append"); mode="ignore": hudi.open_table, and hudi.create_table after TableNotFoundError',
    "operation": "the method that says it, such as table.insert(data); table.begin takes operation=",
    "overwrite": "table.insert_overwrite_table(data)",
    "schema_mode": "no argument: new columns of the data become columns of the table",
}
"""Maps an argument name that people try to a suggestion, for functions without a similar argument."""


_EXPLAINS = "__pyhudi_explains__"
_CANNOT = {
    "__len__": "has no length",
    "__iter__": "cannot be iterated over",
    "__getitem__": "cannot be indexed",
    "__contains__": "does not say what is in it",
}
"""Operators and functions of Python that people try, such as ``len(table)``."""


def set_module(name: str) -> Callable[[_T], _T]:
    """Decorate a public class or function: its ``__module__`` becomes the module that users import. A function also explains wrong arguments.

    Use it as the outermost decorator. Annotations of a class are still resolved in the module that defines the class.
    """

    def public(thing: _T) -> _T:
        home = thing.__module__
        if inspect.isfunction(thing):
            thing = explains_arguments(thing)
        thing.__module__ = name
        if isinstance(thing, type):
            for attribute, hint in inspect.get_annotations(thing).items():
                if isinstance(hint, str):
                    thing.__annotations__[attribute] = ForwardRef(hint, module=home, is_class=True)
        return thing

    return public


def no_name(module: str, name: str, names: Iterable[str]) -> AttributeError:
    """Return the error for a name that a module does not have, with a suggestion if there is one."""
    what = f"module {module!r} has no attribute {name!r}"
    call = None if name.startswith("_") else _NAMES.get(name) or nearest(name, names)
    return AttributeError(f"{what}: use {call}" if call else what, name=name)


def explains_arguments(function: _T, of_each: Callable[[Any], Any] | None = None) -> _T:
    """Decorate a public function: its `TypeError` for an unknown argument suggests the right one.

    ``of_each`` converts each argument before the call.
    """
    if getattr(function, _EXPLAINS, False):  # already decorated: `dataclass(slots=True)` makes the class a second time
        return function
    code = inspect.unwrap(function).__code__
    if code.co_flags & inspect.CO_VARKEYWORDS:
        return function  # the function accepts every name
    known = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]

    @functools.wraps(function)
    def call(*given: Any, **named: Any) -> Any:
        for name in named:
            if name not in known:
                raise _no_argument(function.__qualname__, name, [each for each in known if each != "self"])
        if of_each is not None:
            given, named = tuple(map(of_each, given)), {name: of_each(value) for name, value in named.items()}
        return function(*given, **named)

    setattr(call, _EXPLAINS, True)
    return call  # type: ignore[return-value]  # it has the function's signature


def _no_argument(function: str, name: str, known: Sequence[str]) -> TypeError:
    means = next((each for each in _ARGUMENTS.get(name, ()) if each in known), None)
    call = (f"{means}=" if means else None) or _CALLS.get(name)
    if call is None:
        near = nearest(name, known)
        call = f"{near}=" if near else None
    rest = f"use {call}" if call else f"it takes {', '.join(known) or 'no names of arguments'}"
    return TypeError(f"{function}() got an unexpected keyword argument {name!r}: {rest}")


def nearest(name: str, names: Iterable[str]) -> str | None:
    """Return the name of ``names`` that is most similar to ``name``; None if none is similar."""
    from difflib import get_close_matches  # noqa: PLC0415  (only a mistake needs it)

    return next(iter(get_close_matches(name, list(names), n=1, cutoff=0.75)), None)


def _refusing(name: str, call: str) -> Callable[..., Any]:
    def refuse(self: object, *_given: Any) -> Any:
        raise TypeError(f"{type(self).__name__} {_CANNOT[name]}: use {call}")

    return refuse


class NamesInstead:
    """Suggests the right call for a name that a class does not have, and for an unknown argument.

    To add a name, add an entry to ``_INSTEAD`` of the class: the name, and the call to suggest. ``__len__``, ``__iter__``, ``__getitem__`` and
    ``__contains__`` are the names for ``len(table)``, ``for row in table``, ``table[0]`` and ``1 in table``. Errors for unknown arguments are those
    of `explains_arguments`.
    """

    __slots__ = ()
    _INSTEAD: ClassVar[Mapping[str, str]] = {}

    def __init_subclass__(cls, **named: Any) -> None:
        super().__init_subclass__(**named)
        for name in _CANNOT.keys() & vars(cls).get("_INSTEAD", {}).keys():
            setattr(cls, name, _refusing(name, cls._INSTEAD[name]))
        for name, method in list(vars(cls).items()):
            if inspect.isfunction(method) and not name.startswith("_"):
                setattr(cls, name, explains_arguments(method))

    def __bool__(self) -> bool:
        return True  # Python would ask for the length

    if not TYPE_CHECKING:  # a type checker would take every name for an attribute

        def __getattr__(self, name: str) -> Any:
            call = self._INSTEAD.get(name)
            if call is None:
                return object.__getattribute__(
                    self, name
                )  # raises Python's own error, or the error that a property raised
            raise AttributeError(f"{type(self).__name__} has no {name!r}: use {call}", name=name)


class NotCalled:
    """Suggests the methods to call, if an object that is not a function is called, such as ``table.compaction()``."""

    __slots__ = ()
    _METHODS: ClassVar[str] = ".run(), or .plan() to see before what it does"

    if not TYPE_CHECKING:  # a type checker would allow the call

        def __call__(self, *_given: Any, **_named: Any) -> Any:
            raise TypeError(f"{type(self).__name__} is an object, not a function: call its {self._METHODS}")

    def __repr__(self) -> str:
        context: Any = getattr(self, "context", None)
        return f"{type(self).__name__} of {context.table}"
