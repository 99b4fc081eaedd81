"""Options: key, type, default, bounds and text; and classes whose fields declare their options (`declared`, `options_of`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from enum import Enum
from functools import partial
from typing import Any

MEBIBYTE = 1 << 20


class Scope(Enum):
    """Whether an option describes a new table or a write."""

    TABLE = "table"
    """An option of a new table, stored with it. For an existing table its value must agree with the table."""
    WRITE = "write"
    READ = "read"
    LOCK = "lock"
    STORAGE = "storage"


@dataclass(frozen=True, slots=True, eq=False)
class Option:
    """One option.

    Attributes:
        key: the name of the option in a mapping.
        attribute: the place of its value: ``concern.field`` in ``WriteOptions``, or a field in ``TableOptions``. Empty: the value is checked and not
            used.
        kind: type of the value: bool, int, float or str.
        default: the value if the option is not set; None means that the table or the call decides.
        doc: one or two sentences.
        choices: allowed words, lower case, with the value of each. Empty: any text.
        not_yet: Hudi's words that this release does not support yet, lower case.
        minimum, maximum: bounds of a number.
        aliases: other keys for the same option.
        secret: the value is, or may contain, a credential: it is not sent to other processes and not shown.
    """

    key: str
    attribute: str
    kind: type
    default: bool | int | float | str | None
    doc: str
    scope: Scope = Scope.WRITE
    choices: Mapping[str, str] = field(default_factory=dict)
    not_yet: tuple[str, ...] = ()
    minimum: float | None = None
    maximum: float | None = None
    aliases: tuple[str, ...] = ()
    secret: bool = False


def words(*names: str, **others: str) -> dict[str, str]:
    """Return the choices of an option: each name in ``names`` is its own value; ``others`` maps further names to values."""
    return {**{word.lower(): word for word in names}, **others}


@dataclass(frozen=True, slots=True)
class Choice:
    """One choice of an option: its word, its effect, and Hudi's class with the same meaning (None if there is none)."""

    word: str
    what: str
    of_hudi: str | None


def choices_of(known: Iterable[Choice]) -> dict[str, str]:
    """Return the choices of an option: its words, and Hudi's class names as alternatives."""
    return {name.lower(): each.word for each in known for name in (each.word, each.of_hudi) if name}


def described(known: Iterable[Choice]) -> str:
    """Return the effect of each choice, for the page."""
    return "; ".join(f"`{each.word}`, {each.what}" for each in known)


class LateWords(Mapping[str, str]):
    """Choices whose values are in modules that are imported on first use. ``what`` describes the choices, for the page."""

    def __init__(self, load: Callable[[], Mapping[str, str]], what: str) -> None:
        self._load = load
        self.what = what

    def __getitem__(self, word: str) -> str:
        return self._load()[word]

    def __iter__(self) -> Iterator[str]:
        return iter(self._load())

    def __len__(self) -> int:
        return len(self._load())


def declared(key: str, default: bool | int | float | str | None, doc: str, **more: Any) -> Any:
    """Return a field of a frozen dataclass with the option that sets it. The field has the type of the option. ``more``: as for `Option`.

    The ``repr`` of the dataclass does not show a secret.
    """
    option = partial(Option, key=key, default=default, doc=doc, **more)
    return field(default=default, repr=not more.get("secret"), metadata={"option": option})


def options_of(concern: str, values: type) -> tuple[Option, ...]:
    """Return the options that the fields of a class declare, as options of a concern."""
    kinds = {kind.__name__: kind for kind in (bool, int, float, str)}
    return tuple(
        each.metadata["option"](
            attribute=f"{concern}.{each.name}", kind=kinds.get(str(each.type).partition(" ")[0], str)
        )
        for each in fields(values)
        if "option" in each.metadata
    )
