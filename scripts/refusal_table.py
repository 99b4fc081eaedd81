"""The text of docs/refusals.md, from the law of refusals; ``python scripts/generate_docs.py`` writes it."""

from __future__ import annotations

import re
from collections.abc import Iterable

from pyhudi_core.model.operation import OPERATIONS, WRITERS
from pyhudi_core.write.refusals import LAW, REWRITING, ROWS, STORING, Moment, Rule

_HEAD = """\
# What is refused

Written by `scripts/generate_docs.py` from `pyhudi_core/write/refusals.py`. Every write and every plan of a service asks this table, whether the call
comes from Arrow, Spark, the command or Dagster. A refused operation leaves nothing on disk. The first line that refuses is raised. Words in braces
stand for what the error names.

Other pages: rows with wrong values ([writing](writing.md)), writes at the same time ([conflicts](conflicts.md)), options that contradict each other
([options](options.md)).
"""

_WHEN = {
    Moment.BEFORE_ROWS: "When a write, or the plan of a service, is wanted. No row is read yet.",
    Moment.AFTER_ROWS: "When the columns are known that the operation would leave.",
    Moment.AT_BEGIN: "In each attempt: by the table as it is then, and by the state that the attempt begins with. Its instant is taken back.",
}

_GROUPS = (
    (frozenset(OPERATIONS), "all operations"),
    (WRITERS, "all writes"),
    (ROWS, "writes of rows and keys"),
    (STORING, "writes of rows"),
    (REWRITING, "compactions and clusterings"),
)


def render() -> str:
    """The page."""
    parts, seen = [_HEAD], set[str]()
    for moment, rules in LAW.items():
        again = [rule for rule in rules if rule.name in seen]
        parts += [
            f"## {moment.value.capitalize()}",
            "",
            _WHEN[moment],
            "",
            *_table(r for r in rules if r.name not in seen),
        ]
        if again:
            options = {
                rule.option.removeprefix("without ").partition("=")[0].partition(",")[0] or rule.kind for rule in again
            }
            why = "Asked again here, because another writer may have changed the table: the lines above about"
            parts += ["", f"{why} {', '.join(map(_code, sorted(options)))}."]
        seen |= {rule.name for rule in rules}
        parts.append("")
    return "\n".join(parts)


def _table(rules: Iterable[Rule]) -> list[str]:
    rows = ["| operation | table | option or argument | error | what to do |", "|---|---|---|---|---|"]
    for rule in rules:
        cells = (
            operations_of(rule),
            rule.kind,
            _code(rule.option),
            f"`{rule.error.__name__}`: {_text(rule.message)}",
            _text(rule.hint),
        )
        rows.append("| " + " | ".join(cells) + " |")
    return rows


def operations_of(rule: Rule) -> str:
    """The operations of a rule in few words."""
    left, found = set(rule.operations), []
    for group, words in _GROUPS:
        if group <= left:
            found.append(words)
            left -= group
    found += [operation.word for operation in OPERATIONS if operation in left]
    return ", ".join(found)


def _code(text: str) -> str:
    """Names of options and arguments as code."""
    return re.sub(r"[\w.]*(?:hoodie|pyhudi)[\w.=]*\w|\w+=\w+|\w+\(\w+\)", lambda found: f"`{found[0]}`", text)


def _text(template: str) -> str:
    """A template of a message, with its places."""
    return template.replace("{{", "{").replace("}}", "}").replace("|", "\\|")
