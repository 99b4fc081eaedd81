"""The rules of a table in CREATE and ALTER TABLE: NOT NULL, DEFAULT, COMMENT, GENERATED ALWAYS AS, CHECK."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain, count
from typing import Any

import sqlglot.expressions as exp

from pyhudi_core.model.table_rules import TableRules
from pyhudi_core.predicates.sql import Dialect
from pyhudi_core.statements.text import not_understood, place_of


@dataclass(slots=True)
class RuleParts:
    """The rules that a statement gives, collected part by part."""

    given_checks: dict[str, str] = field(default_factory=dict)
    """Conditions by the names that the statement gives them."""
    unnamed_checks: list[tuple[str, str]] = field(default_factory=list)
    """Conditions without a name: each with the column behind which it stands, or nothing."""
    not_null: list[str] = field(default_factory=list)
    defaults: dict[str, object] = field(default_factory=dict)
    generated: dict[str, str] = field(default_factory=dict)
    comments: dict[str, str] = field(default_factory=dict)
    comment: str = ""

    def of_column(self, column: Any, path: str) -> None:
        """Add the rules that the statement has after the definition of a column."""
        seen = set[type[Any]]()
        for constraint in column.args.get("constraints") or ():
            kind = constraint.args["kind"]
            if type(kind) in seen and not isinstance(kind, exp.CheckColumnConstraint):
                raise not_understood(
                    f"column {path!r}{place_of(column)} has a rule twice: {kind.sql(dialect='spark')[:60]!r}",
                    "Leave one of the two out. Nothing was changed.",
                )
            seen.add(type(kind))
            if isinstance(kind, exp.NotNullColumnConstraint):
                self.not_null += [] if kind.args.get("allow_null") else [path]
            elif isinstance(kind, exp.CommentColumnConstraint):
                self.comments[path] = kind.this.name
            elif isinstance(kind, exp.DefaultColumnConstraint):
                self.defaults[path] = _sql(kind.this)
            elif isinstance(kind, exp.ComputedColumnConstraint):
                self.generated[path] = _sql(kind.this)
            elif isinstance(kind, exp.CheckColumnConstraint):
                self._check(constraint.name, path, kind)
            else:
                raise _no_rule(kind, column)

    def of_table(self, part: Any) -> None:
        """Add a CONSTRAINT name CHECK (condition), or a CHECK without a name."""
        checks = part.expressions if isinstance(part, exp.Constraint) else [part]
        if len(checks) != 1 or not isinstance(checks[0], exp.CheckColumnConstraint):
            raise _no_rule(part, part)
        self._check(part.name if isinstance(part, exp.Constraint) else "", "", checks[0])

    def _check(self, name: str, path: str, kind: Any) -> None:
        if not name:
            self.unnamed_checks.append((path, _sql(kind.this)))
        elif name in self.given_checks:
            raise not_understood(
                f"two checks have the name {name!r}{place_of(kind)}", "Give each its own name. Nothing was changed."
            )
        else:
            self.given_checks[name] = _sql(kind.this)

    @property
    def checks(self) -> dict[str, str]:
        """All conditions by their names. Conditions without a name get names that the statement does not use."""
        found = dict(self.given_checks)
        for path, condition in self.unnamed_checks:
            stem = f"{path}_check" if path else "check"
            names = chain([stem] if path else [], (f"{stem}_{number}" for number in count(2 if path else 1)))
            found[next(name for name in names if name not in found)] = condition
        return found

    def rules(self) -> TableRules:
        """Return the rules of a new table."""
        return TableRules(self.checks, self.not_null, self.defaults, self.generated, self.comment, self.comments)

    def changes(self) -> dict[str, Any]:
        """Return the rules as arguments of `HudiTable.alter`. Rules that the statement does not have are omitted."""
        given = {
            "add_check": self.checks,
            "not_null": self.not_null,
            "default": self.defaults,
            "generated": self.generated,
            "comment": self.comments,
        }
        return {name: value for name, value in given.items() if value}


def _sql(part: Any) -> str:
    return str(part.sql(dialect=Dialect))


def _no_rule(kind: Any, where: Any) -> Exception:
    return not_understood(
        f"{kind.sql(dialect='spark')[:60]!r}{place_of(where)} is no rule that a table keeps",
        "Rules are NOT NULL, DEFAULT, COMMENT, GENERATED ALWAYS AS (expression) and [CONSTRAINT name] CHECK (condition). Nothing was changed.",
    )
