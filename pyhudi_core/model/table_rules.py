"""The rules of a table: checks, columns without nulls, defaults, generated columns, comments, and the expiry of partitions.

They are properties of the table whose keys begin with `PREFIX`. Hudi does not have the first four kinds of rules: its writers preserve such
properties, and ignore them. Comments are also the ``doc`` of columns in the schema of each commit, where Hudi and Spark look for them.
``write/row_rules.py`` enforces the rules for rows, and ``services/expiry`` deletes partitions.

Invariant: an expression is SQL text, and has the same meaning for every writer. So it is never a Python object, and its times are in UTC.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from decimal import Decimal
from typing import Any

from pyhudi_core.errors import InvalidOptionError
from pyhudi_core.model.printing import printable
from pyhudi_core.model.safe_path import is_unicode
from pyhudi_core.naming import set_module

PREFIX = "pyhudi.rules."
_CHECK, _DEFAULT, _GENERATED = f"{PREFIX}check.", f"{PREFIX}default.", f"{PREFIX}generated."
COMMENT, _COMMENTS, _NOT_NULL = f"{PREFIX}comment", f"{PREFIX}comment.", f"{PREFIX}not_null."
EXPIRE = f"{PREFIX}partitions_expire"
MOST_DAYS = dt.timedelta.max.days
LIMIT = 10_000
"""Characters of an expression or a comment."""


def _mapping(name: str, given: object) -> dict[str, object]:
    if given is None:
        return {}
    if isinstance(given, Mapping) and all(isinstance(key, str) and key.strip() and is_unicode(key) for key in given):
        return dict(given)
    raise InvalidOptionError(
        f"{name}= takes a mapping from names to texts, not {given!r:.80}", hint='For example {"positive": "price > 0"}.'
    )


def _texts(name: str, given: object) -> dict[str, str]:
    return {key: _text(f"{name}[{key!r}]", value) for key, value in _mapping(name, given).items()}


def _text(name: str, given: object, *, empty: bool = False) -> str:
    """Return a text that a properties file can store. Raises `InvalidOptionError`."""
    if isinstance(given, str) and len(given) <= LIMIT and (empty or given.strip()) and is_unicode(given):
        return given
    hint = "Give SQL as text: an expression of Arrow cannot be stored in a table. An empty text is \"''\" in SQL."
    raise InvalidOptionError(f"{name} takes a text of at most {LIMIT:,} characters, not {given!r:.80}", hint=hint)


def _sql(name: str, value: object) -> str:
    """Return a default as SQL."""
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, int | Decimal) or (isinstance(value, float) and math.isfinite(value)):
        return str(value)
    if isinstance(value, dt.datetime):
        return f"TIMESTAMP '{value.isoformat(sep=' ')}'"
    if isinstance(value, dt.date):
        return f"DATE '{value.isoformat()}'"
    return _text(f"The default of {name}", value)


def _days(given: object) -> int:
    if isinstance(given, int) and not isinstance(given, bool) and 0 <= given <= MOST_DAYS:
        return given
    hint = f"Partitions expire so many days after the last write to them, at most {MOST_DAYS:,}; 0: never."
    raise InvalidOptionError(f"partitions_expire takes a number of days, not {given!r:.80}", hint=hint)


def _columns(given: object, name: str = "not_null") -> tuple[str, ...]:
    listed = (given,) if isinstance(given, str) else given
    if isinstance(listed, Sequence) and all(isinstance(each, str) and each for each in listed):
        return tuple(dict.fromkeys(listed))
    raise InvalidOptionError(f"{name}= takes a list of names, not {given!r:.80}", hint=f'For example {name}=["price"].')


@set_module("pyhudi")
@dataclass(frozen=True, slots=True)
@printable
class TableRules:
    """The rules of a table: checks, not null, defaults, generated columns, comments, expiry.

    Give the rules to ``create_table(rules=...)``; ``table.alter`` changes them, ``table.rules`` returns them.

    Attributes:
        checks: conditions by their names, in SQL: ``{"positive": "price > 0"}``. A row is refused if a condition is false for it; null passes.
        not_null: columns in which every row must have a value.
        defaults: SQL without columns, or a Python value, by column. It fills a column that the data lacks; a null in the data stays null.
        generated: SQL by column. Data may lack the column; values in the data must equal the expression.
        comment: the description of the table.
        comments: the descriptions of columns.
        partitions_expire: days after which the service ``expiry`` and upkeep delete a partition; 0: never.
    """

    checks: Mapping[str, str] = field(default_factory=dict)
    not_null: Sequence[str] = ()
    defaults: Mapping[str, object] = field(default_factory=dict)
    generated: Mapping[str, str] = field(default_factory=dict)
    comment: str = ""
    comments: Mapping[str, str] = field(default_factory=dict)
    partitions_expire: int = 0

    def __post_init__(self) -> None:
        for name in ("checks", "generated", "comments"):
            object.__setattr__(self, name, _texts(name, getattr(self, name)))
        object.__setattr__(
            self, "defaults", {name: _sql(name, value) for name, value in _mapping("defaults", self.defaults).items()}
        )
        object.__setattr__(self, "not_null", _columns(self.not_null))
        _text("comment", self.comment, empty=True)
        _days(self.partitions_expire)

    def __bool__(self) -> bool:
        return any(getattr(self, item.name) for item in fields(self))

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), tuple(getattr(self, item.name) for item in fields(self))

    @property
    def enforced(self) -> TableRules:
        """The rules for rows, which every write enforces."""
        return replace(self, comment="", comments={}, partitions_expire=0)

    @property
    def refusing(self) -> bool:
        """Whether the rules can refuse a row."""
        return bool(self.checks or self.not_null or self.generated)

    @property
    def given(self) -> frozenset[str]:
        """Return the columns that get a value if the data lacks them."""
        return frozenset((*self.defaults, *self.generated))

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> TableRules:
        """Return the rules in the properties of a table. Ignores properties with this prefix that this release does not know."""
        mine = {key: value for key, value in properties.items() if key.startswith(PREFIX)}
        if not mine:
            return NO_RULES

        def named(prefix: str) -> dict[str, str]:
            return {key[len(prefix) :]: mine[key] for key in sorted(mine) if key.startswith(prefix)}

        return cls(
            named(_CHECK),
            tuple(named(_NOT_NULL)),
            named(_DEFAULT),
            named(_GENERATED),
            mine.get(COMMENT, ""),
            named(_COMMENTS),
            int(mine.get(EXPIRE, "").strip() or 0),
        )

    def to_properties(self) -> dict[str, str]:
        """Return the properties for these rules."""
        named: tuple[tuple[str, Mapping[str, object]], ...] = (
            (_CHECK, self.checks),
            (_NOT_NULL, dict.fromkeys(self.not_null, "true")),
            (_DEFAULT, self.defaults),
            (_GENERATED, self.generated),
            (_COMMENTS, self.comments),
        )
        found = {f"{prefix}{name}": str(value) for prefix, values in named for name, value in values.items()}
        days = {EXPIRE: str(self.partitions_expire)} if self.partitions_expire else {}
        return {**found, **({COMMENT: self.comment} if self.comment else {}), **days}

    def changes_from(self, before: TableRules) -> tuple[tuple[str, str | None], ...]:
        """Return the changes of properties from the rules ``before`` to these rules."""
        old, new = before.to_properties(), self.to_properties()
        changed: dict[str, str | None] = {key: value for key, value in new.items() if old.get(key) != value}
        return tuple(sorted({**changed, **dict.fromkeys(old.keys() - new.keys())}.items()))

    def renamed(self, names: Mapping[str, str | None]) -> TableRules:
        """Return the rules with new names in the rules of single columns; None drops the rule. Expressions do not change."""

        def now(of: Mapping[str, Any]) -> dict[str, Any]:
            return {new: value for name, value in of.items() if (new := names.get(name, name)) is not None}

        not_null = tuple(now(dict.fromkeys(self.not_null)))
        return replace(
            self,
            not_null=not_null,
            defaults=now(self.defaults),
            generated=now(self.generated),
            comments=now(self.comments),
        )

    def beyond(self, before: TableRules) -> TableRules:
        """Return the rules that a row can violate now and could not violate before."""

        def new(name: str) -> dict[str, str]:
            return {key: text for key, text in getattr(self, name).items() if getattr(before, name).get(key) != text}

        return TableRules(
            new("checks"),
            tuple(name for name in self.not_null if name not in before.not_null),
            generated=new("generated"),
        )

    def of_column(self, name: str) -> list[str]:
        """Return the rules of a column, in the words of SQL. Checks are omitted, because they can be about several columns."""
        said = ["NOT NULL"] if name in self.not_null else []
        said += [f"DEFAULT {self.defaults[name]}"] if name in self.defaults else []
        return said + ([f"GENERATED AS ({self.generated[name]})"] if name in self.generated else [])


NO_RULES = TableRules()


@dataclass(frozen=True, slots=True)
class RuleChanges:
    """The changes of rules by `table.alter`. Raises `InvalidOptionError` for arguments of a wrong form.

    Attributes:
        add: rules to add. A default, generated column or comment replaces the old one of its column.
        drop_checks: names of checks.
        nullable: columns that may have nulls again.
        drop: columns that lose their default, comment or generated value, by the name of the field.
        partitions_expire: the new number of days after which partitions expire; None: unchanged.
    """

    add: TableRules = NO_RULES
    drop_checks: tuple[str, ...] = ()
    nullable: tuple[str, ...] = ()
    drop: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    drop_comment: bool = False
    partitions_expire: int | None = None

    @classmethod
    def of(
        cls,
        add_check: Mapping[str, str] | None = None,
        drop_check: str | Sequence[str] = (),
        not_null: str | Sequence[str] = (),
        nullable: str | Sequence[str] = (),
        default: Mapping[str, object] | None = None,
        generated: Mapping[str, str | None] | None = None,
        comment: str | Mapping[str, str | None] | None = None,
        partitions_expire: int | None = None,
    ) -> RuleChanges:
        """Return the arguments of `table.alter`, checked."""
        comments = {} if comment is None or isinstance(comment, str) else _mapping("comment", comment)
        given = {
            "defaults": _mapping("default", default),
            "generated": _mapping("generated", generated),
            "comments": comments,
        }
        kept: dict[str, Any] = {
            name: {
                key: value for key, value in values.items() if value is not None and (value, name) != ("", "comments")
            }
            for name, values in given.items()
        }
        drop = {name: tuple(key for key in values if key not in kept[name]) for name, values in given.items()}
        text = comment if isinstance(comment, str) else ""
        add = TableRules(add_check or {}, not_null, comment=text, **kept)
        names = _columns(drop_check, "drop_check"), _columns(nullable, "nullable")
        dropped = {name: keys for name, keys in drop.items() if keys}
        return cls(add, *names, dropped, comment == "", None if partitions_expire is None else _days(partitions_expire))

    def __bool__(self) -> bool:
        given = self.add or self.drop_checks or self.nullable or self.drop or self.drop_comment
        return bool(given) or self.partitions_expire is not None

    def applied(self, before: TableRules) -> TableRules:
        """Return the rules after the change. Raises `InvalidOptionError` if an added check exists already, or a dropped check does not exist."""
        missing = [name for name in self.drop_checks if name not in before.checks]
        if missing:
            raise InvalidOptionError(
                f"The table has no check {missing[0]!r}",
                hint=f"It has {', '.join(map(repr, before.checks)) or 'none'}.",
            )
        checks = {name: text for name, text in before.checks.items() if name not in self.drop_checks}
        twice = [name for name, text in self.add.checks.items() if checks.get(name, text) != text]
        if twice:
            raise InvalidOptionError(
                f"The table has another check {twice[0]!r}: {checks[twice[0]]}",
                hint="Choose another name, or name it in drop_check= too.",
            )
        found: dict[str, Any] = {"checks": {**checks, **self.add.checks}}
        for name in ("defaults", "generated", "comments"):
            kept = {key: value for key, value in getattr(before, name).items() if key not in self.drop.get(name, ())}
            found[name] = {**kept, **getattr(self.add, name)}
        not_null = dict.fromkeys(name for name in (*before.not_null, *self.add.not_null) if name not in self.nullable)
        comment = self.add.comment or ("" if self.drop_comment else before.comment)
        days = before.partitions_expire if self.partitions_expire is None else self.partitions_expire
        return TableRules(not_null=tuple(not_null), comment=comment, partitions_expire=days, **found)
