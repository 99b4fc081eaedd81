"""Statements about indexes in Hudi's SQL: CREATE INDEX, DROP INDEX, SHOW INDEXES. Parses text to values, without any look-up.

The grammar is that of Hudi 1.0: ``CREATE INDEX [IF NOT EXISTS] name ON [TABLE] table [USING type] (column, ...) [OPTIONS (key = 'value', ...)]``,
``DROP INDEX [IF EXISTS] name ON [TABLE] table``, ``SHOW INDEXES FROM|IN [TABLE] table``. Keywords may be written in any letter case; names may stand
in backquotes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from pyhudi_core.errors import InvalidOptionError

LENGTH_LIMIT = 100_000
"""The maximum number of characters of a statement."""
_TOKEN = re.compile(r"""\s*(?:(?P<word>[A-Za-z_0-9]+)|`(?P<quoted>[^`]+)`|(?P<text>'[^']*'|"[^"]*")|(?P<sign>\S))""")
_SHOWN = 60
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class CreateIndex:
    """``using`` is empty if the statement has no USING."""

    name: str
    table: tuple[str, ...]
    columns: tuple[str, ...]
    using: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class DropIndex:
    """``name``: with or without the prefix of its partition of the metadata table."""

    name: str
    table: tuple[str, ...]
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class ShowIndexes:
    """All indexes of a table."""

    table: tuple[str, ...]


Statement = CreateIndex | DropIndex | ShowIndexes


def parse(text: str) -> Statement:
    """Return the statement. Raises `InvalidOptionError` with the position of the error."""
    if not isinstance(text, str) or len(text) > LENGTH_LIMIT:
        raise InvalidOptionError("A statement is a text of at most 100,000 characters", hint="Give one statement.")
    return _Reader(text, _tokens(text)).statement()


@dataclass(frozen=True, slots=True)
class _Token:
    """One word, name, text or sign; ``at`` is its position in the statement."""

    kind: str
    value: str
    at: int


def _tokens(text: str) -> list[_Token]:
    found: list[_Token] = []
    at = 0
    while (match := _TOKEN.match(text, at)) is not None:
        kind = str(match.lastgroup)
        value = match[kind][1:-1] if kind == "text" else match[kind]
        found.append(_Token(kind, value, match.start(kind)))
        at = match.end()
    return found


@dataclass(slots=True)
class _Reader:
    """Reads one statement from its tokens."""

    text: str
    tokens: list[_Token]
    next: int = 0

    def statement(self) -> Statement:
        """Return the complete statement."""
        if self._has("CREATE", "INDEX"):
            found: Statement = self._create()
        elif self._has("DROP", "INDEX"):
            exists = self._has("IF", "EXISTS")
            found = DropIndex(self._name(), self._on(), exists)
        elif self._has("SHOW", "INDEXES"):
            if not (self._has("FROM") or self._has("IN")):
                raise self._expected("FROM")
            found = ShowIndexes(self._table())
        else:
            raise self._expected("CREATE INDEX, DROP INDEX or SHOW INDEXES")
        self._has(";")
        if self.next < len(self.tokens):
            raise self._expected("the end of the statement")
        return found

    def _create(self) -> CreateIndex:
        absent = self._has("IF", "NOT", "EXISTS")
        name, table = self._name(), self._on()
        using = self._name().lower() if self._has("USING") else ""
        columns = tuple(self._listed(self._column))
        options = dict(self._listed(self._option)) if self._has("OPTIONS") else {}
        return CreateIndex(name, table, columns, using, options, absent)

    def _on(self) -> tuple[str, ...]:
        if not self._has("ON"):
            raise self._expected("ON")
        return self._table()

    def _table(self) -> tuple[str, ...]:
        self._has("TABLE")
        return self._dotted()

    def _column(self) -> str:
        name = ".".join(self._dotted())
        if self._has("OPTIONS"):
            self.next -= 1
            raise self._expected(
                "a comma or a bracket (no index has options of a single column; give them after the columns)"
            )
        return name

    def _dotted(self) -> tuple[str, ...]:
        parts = [self._name()]
        while self._has("."):
            parts.append(self._name())
        return tuple(parts)

    def _option(self) -> tuple[str, str]:
        key = self._text() if self._is("text") else ".".join(self._dotted())
        if not self._has("="):
            raise self._expected("=")
        return key, self._text() if self._is("text") else self._name()

    def _listed(self, one: Callable[[], T]) -> list[T]:
        """Return the items in parentheses, at least one."""
        if not self._has("("):
            raise self._expected("(")
        found = [one()]
        while self._has(","):
            found.append(one())
        if not self._has(")"):
            raise self._expected(", or )")
        return found

    def _is(self, kind: str) -> bool:
        return self.next < len(self.tokens) and self.tokens[self.next].kind == kind

    def _text(self) -> str:
        self.next += 1
        return self.tokens[self.next - 1].value

    def _name(self) -> str:
        if not (self._is("word") or self._is("quoted")):
            raise self._expected("a name")
        return self._text()

    def _has(self, *words: str) -> bool:
        """Say whether these words come next, and skip them if so."""
        ahead = self.tokens[self.next : self.next + len(words)]
        plain = [token.value.upper() for token in ahead if token.kind in ("word", "sign")]
        if plain != list(words):
            return False
        self.next += len(words)
        return True

    def _expected(self, what: str) -> InvalidOptionError:
        at = self.tokens[self.next].at if self.next < len(self.tokens) else len(self.text)
        return _unclear(self.text, at, what)


def _unclear(text: str, at: int, expected: str) -> InvalidOptionError:
    there = repr(text[at : at + _SHOWN]) if text[at:].strip() else "the end"
    return InvalidOptionError(
        f"The statement is not understood at character {at + 1}, {there}: expected {expected}",
        hint="Statements are CREATE INDEX name ON table [USING type] (column) [OPTIONS (key = 'value')], DROP INDEX name ON table,"
        " SHOW INDEXES FROM table; hudi.sql carries out others. Nothing was changed.",
    )
