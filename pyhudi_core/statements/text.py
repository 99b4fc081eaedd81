"""Parse one statement from text to sqlglot's tree. If sqlglot has no grammar for the statement (SHOW, CALL), the result is the statement's words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import sqlglot
import sqlglot.expressions as exp
from sqlglot import TokenType
from sqlglot.errors import SqlglotError

from pyhudi_core.errors import InvalidOptionError
from pyhudi_core.model.safe_path import is_unicode
from pyhudi_core.predicates.sql import LENGTH_LIMIT, NOT_UNICODE, Dialect

_SHOWN = 60


class _Strict(Dialect):
    """The dialect of conditions, in which a statement that sqlglot does not know is an error. DEFAULT is a name with a place in the text, also in
    VALUES.
    """

    SUPPORTS_VALUES_DEFAULT = False

    class Parser(Dialect.Parser):  # type: ignore[misc, valid-type]  # made with the class
        def _warn_unsupported(self) -> None:
            self.raise_error("The statement is not understood")


class _Plain(Dialect):
    """The words of the same dialect. SHOW and CALL are ordinary words; otherwise sqlglot would read the rest of the statement as one text."""

    class Tokenizer(Dialect.Tokenizer):
        COMMANDS: ClassVar[set[TokenType]] = set()


_PLAIN = _Plain()
_TEXTS = (TokenType.STRING, TokenType.NUMBER)
_VALUES: dict[str, object] = {"true": True, "false": False, "null": None}

INSTEAD = {
    "ANALYZE": "Statistics are kept by each write: CALL init_metadata_table(table => ...), or table.metadata_table.create(['column_stats']).",
    "CACHE": "Keep the rows of a query in your program.",
    "CLEAR": "Every statement reads the latest state; nothing is cached.",
    "EXPLAIN": "`pyhudi sql LOCATION STATEMENT --plan` says what a statement would do; table.scan(...).explain() which files a scan reads.",
    "FSCK": "`pyhudi check LOCATION`, or table.check(), examines the table.",
    "MSCK": "Partitions are found without it; `pyhudi check LOCATION` examines the table.",
    "OPTIMIZE": "CALL run_clustering(table => ...), or table.clustering.run(); of a merge-on-read table also CALL run_compaction(...).",
    "REFRESH": "Every statement reads the latest state, so there is nothing to refresh.",
    "REORG": "CALL run_compaction(table => ...) and CALL run_clustering(...), or table.compaction.run() and table.clustering.run().",
    "REPAIR": "`pyhudi check LOCATION` says what is wrong, and what mends it.",
    "RESTORE": "CALL rollback_to_savepoint(...), or table.restore(commit).",
    "SET": "Options are given in options=.",
    "UNCACHE": "Every statement reads the latest state; nothing is cached.",
    "USE": "Name tables in tables=.",
    "VACUUM": "CALL run_clean(table => ...), or table.cleaning.run(); CALL archive_commits(...) for the timeline.",
}
"""Statements of Spark, Delta and DuckDB that this release does not carry out, with what to use instead."""


@dataclass(slots=True)
class Words:
    """Reads a statement word by word."""

    text: str
    tokens: Sequence[Any]
    next: int = 0

    def has(self, *words: str) -> bool:
        """Say whether these words or signs come next. If they come next, move to the word after them."""
        ahead = [token.text.upper() for token in self.tokens[self.next : self.next + len(words)]]
        if ahead != list(words) or any(self._is_text(self.next + place) for place in range(len(words))):
            return False
        self.next += len(words)
        return True

    def name(self) -> tuple[str, ...]:
        """Read a name, which may have dots. Return the parts of the name."""
        parts = [self._word()]
        while self.has("."):
            parts.append(self._word())
        return tuple(parts)

    def value(self) -> object:
        """Read a text, a number, a truth value or null, and return the value."""
        negative = self.has("-")
        if self.next >= len(self.tokens):
            raise self.expected("a value")
        token = self.tokens[self.next]
        self.next += 1
        if token.token_type is TokenType.NUMBER:
            number = float(token.text) if "." in token.text or "e" in token.text.lower() else int(token.text)
            return -number if negative else number
        if token.token_type is TokenType.STRING:
            return token.text
        if token.text.lower() in _VALUES:
            return _VALUES[token.text.lower()]
        self.next -= 1
        raise self.expected("a text in quotes, a number, true, false or null")

    def end(self) -> None:
        """Raise `InvalidOptionError` if the statement has more words."""
        self.has(";")
        if self.next < len(self.tokens):
            raise self.expected("the end of the statement")

    def expected(self, what: str) -> InvalidOptionError:
        """Return the error for a word that is not the expected word."""
        at = self.tokens[self.next].start if self.next < len(self.tokens) else len(self.text)
        there = repr(self.text[at : at + _SHOWN]) if self.text[at:].strip() else "the end"
        return not_understood(f"at character {at + 1}, {there}: expected {what}")

    def _word(self) -> str:
        if self.next >= len(self.tokens) or self._is_text(self.next):
            raise self.expected("a name")
        self.next += 1
        return str(self.tokens[self.next - 1].text)

    def _is_text(self, place: int) -> bool:
        return place < len(self.tokens) and self.tokens[place].token_type in _TEXTS


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement: its text, and the tree that sqlglot parses. The tree is None for statements that are read word by word."""

    text: str
    words: Words
    tree: Any = None

    HAS_NO_TREE: ClassVar[tuple[str, ...]] = ("SHOW", "CALL", "DESCRIBE", "DESC")


def parse(text: str) -> Statement:
    """Return one statement. Raises `InvalidOptionError` if the statement is not understood; the error names the place."""
    if not isinstance(text, str) or not text.strip() or len(text) > LENGTH_LIMIT:
        raise InvalidOptionError(f"A statement is a text of 1 to {LENGTH_LIMIT:,} characters", hint="Give one.")
    if not is_unicode(text):
        raise not_understood("it has an incomplete character (a lone surrogate)", NOT_UNICODE)
    try:
        tokens = _PLAIN.tokenize(text)
        words = Words(text, tokens)
        if not tokens:
            raise not_understood("it has only a comment")
        first = tokens[0].text.upper()
        if first in INSTEAD:
            raise not_understood(f"{first} is no statement here", f"{INSTEAD[first]} Nothing was changed.")
        if first in Statement.HAS_NO_TREE or is_about_indexes(words):
            return Statement(text, words)
        trees = [tree for tree in sqlglot.parse(text, dialect=_Strict) if tree is not None]
    except RecursionError:
        raise not_understood("it is nested too deeply") from None
    except SqlglotError as error:
        raise _syntax(text, error) from None
    if len(trees) != 1:
        raise not_understood(f"{len(trees)} statements were given, and one is carried out at a time")
    _shorten_names(trees[0])
    return Statement(text, words, trees[0])


def _shorten_names(tree: Any) -> None:
    """Make ``orders.id`` of ``shop.orders.id``, in place, if the statement names the table ``shop.orders`` and gives it no alias."""
    tables = [table for table in tree.find_all(exp.Table) if table.args.get("db") is not None and not table.alias]
    whole = {tuple(part.name.lower() for part in table.parts) for table in tables}
    for column in list(tree.find_all(exp.Column)) if whole else ():
        parts = column.parts
        for count in range(2, len(parts)):
            if tuple(part.name.lower() for part in parts[:count]) in whole:
                kept = zip(("this", "table", "db", "catalog"), reversed(parts[count - 1 :]), strict=False)
                column.replace(exp.Column(**{key: part.copy() for key, part in kept}))
                break


def is_about_indexes(words: Words) -> bool:
    """Say whether the table executes a statement itself, because the statement is about the indexes of the table."""
    upper = [token.text.upper() for token in words.tokens[:2]]
    return upper in (["CREATE", "INDEX"], ["DROP", "INDEX"], ["SHOW", "INDEXES"])


def not_understood(why: str, hint: str = "") -> InvalidOptionError:
    """Return the error for a statement that is not executed. Nothing was changed."""
    return InvalidOptionError(
        f"The statement is not understood: {why}",
        hint=hint or "Statements are those of Spark SQL with Hudi: see pyhudi help sql. Nothing was changed.",
    )


_OF_TARGET = ("this", "db", "catalog", "alias", "partition")


def refuse_other_parts(tree: Any, *understood: str) -> None:
    """Refuse parts of a statement that exist in Spark SQL or other databases and that pyhudi would ignore.

    The table that a statement changes must be named only by its name.

    Every part that is not in ``understood`` is refused. If a part were ignored, the statement would not change the rows that the user meant.
    """
    for name, part in tree.args.items():
        if name not in understood and part not in (None, False, []):
            raise not_understood(
                f"{type(tree).__name__.upper()} with {name.rstrip('_').upper()} is not supported",
                "Leave it out; a change by rows of another table is a MERGE INTO. Nothing was changed.",
            )
    target = tree.args.get("this") or next(iter(tree.expressions), None)
    named = target.this if isinstance(target, exp.Schema) else target
    if isinstance(named, exp.Table):
        other = next((part for part, found in named.args.items() if found and part not in _OF_TARGET), "")
        if other or (named.args.get("alias") is not None and named.args["alias"].args.get("columns")):
            raise not_understood(
                f"{type(tree).__name__.upper()} changes one table, the newest state of it, by its name, and not {named.sql(dialect='spark')[:80]!r}",
                "Leave the rest out; a change by rows of another table is a MERGE INTO. Nothing was changed.",
            )


def refuse_unknown(part: Any, what: str, *understood: str) -> None:
    """Refuse a part of a statement with elements that this package does not support."""
    for name, found in part.args.items():
        if name not in understood and found not in (None, False, []):
            raise not_understood(
                f"{what}{place_of(part)} has {name.rstrip('_').upper()}, which is not supported",
                "Leave it out. Nothing was changed.",
            )


def place_of(part: Any) -> str:
    """Return the position of a part of a tree in the statement, in words; empty if it is not known."""
    places = [node.meta["start"] for node in part.walk() if "start" in node.meta]
    return f" at character {min(places) + 1}" if places else ""


def _syntax(text: str, error: SqlglotError) -> InvalidOptionError:
    found = (getattr(error, "errors", None) or [{}])[0]
    line, column = found.get("line"), found.get("col")
    where = f"at line {line}, column {column}: " if line is not None else ""
    what = str(found.get("description") or error).splitlines()[0].partition(" but got <")[0].rstrip(".")
    if what.startswith("Required keyword"):  # sqlglot's own words name a class
        what = "a part of the statement is missing"
    near = str(found.get("highlight") or "")[:_SHOWN]
    return not_understood(f"{where}{what}{f', near {near!r}' if near else ''}, in {text[:120]!r}")
