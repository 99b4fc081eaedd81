"""A procedure of CALL: its arguments, its columns, and the function that runs the procedure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from pyhudi_core.errors import InvalidOptionError
from pyhudi_core.opening import open_table
from pyhudi_core.statements.names import Names
from pyhudi_core.table import HudiTable

Row = Mapping[str, Any]
_TYPES = {"text": pa.string(), "long": pa.int64(), "int": pa.int32(), "double": pa.float64(), "bool": pa.bool_()}
SHOW = "limit=10 path show_archived=false filter start_time end_time"
"""The arguments that most ``show_`` procedures have after the table."""


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument. ``default`` also gives the type; None is an optional text. ``fixed``: only the default value is supported."""

    name: str
    default: object = None
    required: bool = False
    fixed: bool = False

    @classmethod
    def of(cls, text: str) -> Argument:
        """Read ``name``, ``name!`` (required), ``name=default``, or ``name~=default`` (fixed)."""
        name, equal, default = text.partition("=")
        if name.endswith("~"):
            return replace(cls.of(f"{name[:-1]}{equal}{default}"), fixed=True)
        if name.endswith("!"):
            return cls(name[:-1], required=True)
        known: dict[str, object] = {"true": True, "false": False}
        return cls(
            name, known.get(default, int(default) if default.lstrip("-").isdecimal() else default) if equal else None
        )

    def checked(self, value: object) -> object:
        """Return a value of a statement in the type of the argument. Raises `InvalidOptionError` for a value of another type."""
        if value is None:
            return self.default
        wanted = bool if isinstance(self.default, bool) else int if isinstance(self.default, int) else str
        if wanted is str and isinstance(value, int | float) and not isinstance(value, bool):
            return str(value)  # an instant without quotes
        if wanted is bool and isinstance(value, str) and value.lower() in ("true", "false"):
            return value.lower() == "true"
        if not isinstance(value, wanted) or (wanted is int and isinstance(value, bool)):
            words = {bool: "true or false", int: "a whole number", str: "a text"}
            raise InvalidOptionError(
                f"The argument {self.name} takes {words[wanted]}, not {value!r}", hint="Nothing was changed."
            )
        if self.fixed and value != self.default:
            raise InvalidOptionError(
                f"The argument {self.name} => {value!r} is not carried out here",
                hint=f"Leave it out; without it the procedure works as with {self.default}. Nothing was changed.",
            )
        return value


@dataclass(frozen=True, slots=True)
class ProcedureCall:
    """One call: the names of the statement, and the value of each argument."""

    names: Names
    given: Mapping[str, Any]

    @property
    def table(self) -> HudiTable:
        """The table that ``table`` or ``path`` names."""
        name, path = self.given.get("table"), self.given.get("path")
        if name:
            return self.names.table(tuple(name.split(".")))
        if path:
            return open_table(path, self.names.storage_options, self.names.options)
        raise InvalidOptionError(
            "The procedure needs a table",
            hint="Give table => 'orders', or path => '/lake/orders'. Nothing was changed.",
        )

    def with_options(self, **options: object) -> HudiTable:
        """Return the table, opened with more options: the given options that are not None, and the options in the argument ``options``
        (``key=value,key=value``).
        """
        more = {key.replace("__", "."): value for key, value in options.items() if value not in (None, "")}
        for part in filter(None, (piece.strip() for piece in str(self.given.get("options") or "").split(","))):
            key, equal, value = part.partition("=")
            if not equal:
                raise InvalidOptionError(
                    f"options has {part[:60]!r}, which is no key=value", hint="Write options => 'key=value,key=value'."
                )
            more[key.strip()] = value.strip()
        table = self.table
        if not more:
            return table
        return HudiTable(replace(table._opened, options={**table._opened.options, **more}, _known=None))

    def is_asked(self, time: str) -> bool:
        """Say whether an instant is between ``start_time`` and ``end_time``."""
        given = self.given
        start, end = given.get("start_time") or given.get("start_ts"), given.get("end_time") or given.get("end_ts")
        return (not start or time >= start) and (not end or time <= end)


Carry = Callable[[ProcedureCall], Iterable[Row]]


@dataclass(frozen=True, slots=True)
class Procedure:
    """A procedure of Hudi: the arguments, the columns of the result, and the function. If this release does not have the procedure, ``instead`` has
    the reason, and the alternative.
    """

    name: str
    arguments: tuple[Argument, ...] = ()
    columns: Sequence[tuple[str, str]] = ()
    carry_out: Carry | None = field(default=None, repr=False)
    instead: str = ""

    @property
    def schema(self) -> pa.Schema:
        """The columns of the result."""
        return pa.schema([(name, _TYPES[kind]) for name, kind in self.columns])

    @property
    def only_reads(self) -> bool:
        """Whether a call changes nothing."""
        return self.name.startswith(("show_", "stats_", "validate_", "commits_", "help"))

    def described(self) -> str:
        """Return arguments and columns as text, for ``CALL help(cmd => ...)``."""
        taken = "; ".join(
            f"{one.name}{' (required)' if one.required else f' = {one.default}' if one.default is not None else ''}"
            for one in self.arguments
        )
        given = "; ".join(f"{name} {kind}" for name, kind in self.columns)
        return f"{self.name}. arguments: {taken or 'none'}. columns: {given or 'none'}."


def here(name: str, arguments: str, columns: str, carry_out: Carry) -> Procedure:
    """Return a procedure that this release has. ``columns``: ``name:type``; a column without a type is a text."""
    typed = [(part.partition(":")[0], part.partition(":")[2] or "text") for part in columns.split()]
    return Procedure(name, tuple(Argument.of(part) for part in arguments.split()), typed, carry_out)


def not_here(name: str, instead: str) -> Procedure:
    """Return a procedure that this release refuses. ``instead``: the reason, and what to use instead."""
    return Procedure(name, instead=instead)
