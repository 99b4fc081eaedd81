"""The rules of a table in CREATE and ALTER TABLE: NOT NULL, DEFAULT, COMMENT, GENERATED ALWAYS AS, CHECK."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import sqlglot.expressions as exp

from pyhudi_core.model.table_rules import TableRules
from pyhudi_core.predicates.sql import Dialect
from pyhudi_core.statements.text import not_understood, place_of


@dataclass(slots=True)
class RuleParts:
    """The rules that a statement gives, collected part by part."""

    checks: dict[str, str] = field(default_factory=dict)
    not_null: list[str] = field(default_factory=list)
    defaults: dict[str, object] = field(default_factory=dict)
    generated: dict[str, str] = field(default_factory=dict)
    comments: dict[str, str] = field(default_factory=dict)
    comment: str = ""

    def of_column(self, column: Any, path: str) -> None:
        """Add the rules that the statement has after the definition of a column."""
        for constraint in column.args.get("constraints") or ():
            kind = constraint.args["kind"]
            if isinstance(kind, exp.NotNullColumnConstraint):
                self.not_null += [] if kind.args.get("allow_null") else [path]
            elif isinstance(kind, exp.CommentColumnConstraint):
                self.comments[path] = kind.this.name
            elif isinstance(kind, exp.DefaultColumnConstraint):
                self.defaults[path] = _sql(kind.this)
            elif isinstance(kind, exp.ComputedColumnConstraint):
                self.generated[path] = _sql(kind.this)
            elif isinstance(kind, exp.CheckColumnConstraint):
                self.checks[f"{path}_check"] = _sql(kind.this)
            else:
                raise _no_rule(kind, column)

    def of_table(self, part: Any) -> None:
        """Add a CONSTRAINT name CHECK (condition), or a CHECK without a name."""
        checks = part.expressions if isinstance(part, exp.Constraint) else [part]
        if len(checks) != 1 or not isinstance(checks[0], exp.CheckColumnConstraint):
            raise _no_rule(part, part)
        name = part.name if isinstance(part, exp.Constraint) else f"check_{len(self.checks) + 1}"
        self.checks[name] = _sql(checks[0].this)

    def rules(self) -> TableRules:
        """Return the rules of a new table."""
        return TableRules(self.checks, self.not_null, self.defaults, self.generated, self.comment, self.comments)

    def changes(self) -> dict[str, Any]:
        """Return the rules as arguments of `HudiTable.alter`. Rules that the statement does not give are left out."""
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
