"""What an option is: its key, type, default, bounds and text (``definitions`` and ``clustering`` list the options)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

MEBIBYTE = 1 << 20


class Scope(Enum):
    """Whether an option describes a new table or a write."""

    TABLE = "table"
    """Chosen when the table is created, stored with it; given later it has to agree."""
    WRITE = "write"
    READ = "read"
    LOCK = "lock"


@dataclass(frozen=True, slots=True, eq=False)
class Option:
    """One option.

    Attributes:
        key: its name in an options mapping.
        attribute: where its value is: ``concern.field`` in ``WriteOptions``, a field in ``TableOptions``.
        kind: type of the value: bool, int, float or str.
        default: the value when it is not given; None means that the table or the call decides.
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
    """The choices of an option: words that are their own values, and other words for values."""
    return {**{word.lower(): word for word in names}, **others}
