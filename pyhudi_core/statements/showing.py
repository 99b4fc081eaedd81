"""Statements that describe tables: SHOW and DESCRIBE, and statements about indexes, which the table executes (`HudiTable.sql`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from pyhudi_core.model.masking import is_secret
from pyhudi_core.model.table_rules import TableRules
from pyhudi_core.statements.names import Names, is_place
from pyhudi_core.statements.text import Words, is_about_indexes, not_understood
from pyhudi_core.statements.types import quoted, sql_type
from pyhudi_core.table import HudiTable

_TEXT = pa.string()


def show(words: Words, names: Names) -> Any:
    """Carry out SHOW, DESCRIBE, and CREATE or DROP INDEX."""
    if is_about_indexes(words):
        return _about_an_index(words, names)
    if words.has("DESCRIBE") or words.has("DESC"):
        return _described(words, names)
    words.has("SHOW")
    if words.has("TABLES"):
        words.end()
        return _rows(("name", "location", "kind"), _tables(names))
    for start_words, answer in _SHOWN.items():
        if words.has(*start_words):
            words.has("FROM") or words.has("IN")
            table = names.table(words.name())
            words.end()
            return answer(table)
    raise words.expected("TABLES, PARTITIONS, COLUMNS, TBLPROPERTIES, CREATE TABLE or INDEXES")


def _tables(names: Names) -> list[tuple[str, str, str]]:
    found = []
    for name, given in names.given.items():
        if isinstance(given, HudiTable):
            found.append((str(name), given.location, "table"))
        elif is_place(given):
            found.append((str(name), str(given), "table"))
        else:
            found.append((str(name), "", f"data ({type(given).__name__})"))
    return found


def _described(words: Words, names: Names) -> pa.Table:
    if words.has("HISTORY"):
        table = names.table(words.name())
        words.end()
        return table.history().to_arrow()
    words.has("TABLE")
    more = words.has("EXTENDED") or words.has("FORMATTED")
    table = names.table(words.name())
    words.end()
    rows = _columns(table)
    if more:
        config = table.config
        facts = {
            "name": config.name,
            "location": table.location,
            "type": config.table_type.value,
            "record key": ", ".join(config.record_key_fields),
            "partition columns": ", ".join(config.partition_fields),
            "ordering columns": ", ".join(config.ordering_fields),
        }
        rows += [("", "", "")] + [(f"# {key}", value, "") for key, value in facts.items()]
        rows += [(key, value, "") for key, value in _properties(table)]
    return _rows(("col_name", "data_type", "comment"), rows)


def _columns(table: HudiTable) -> list[tuple[str, str, str]]:
    comments = table.rules.comments
    return [(field.name, sql_type(field.type), comments.get(field.name, "")) for field in table.schema]


def _properties(table: HudiTable) -> list[tuple[str, str]]:
    return sorted((key, "***" if is_secret(key) else str(value)) for key, value in table.config.to_properties().items())


def create_statement(table: HudiTable) -> str:
    """Return the CREATE TABLE that makes a table with the columns and the properties of this table."""
    config = table.config
    rules = table.rules
    lines = [f"  {quoted(field.name)} {sql_type(field.type)}{_rules_of(field.name, rules)}" for field in table.schema]
    lines += [f"  CONSTRAINT {quoted(name)} CHECK ({condition})" for name, condition in rules.checks.items()]
    columns = ",\n".join(lines)
    said = {
        "type": "mor" if config.table_type.value == "MERGE_ON_READ" else "cow",
        "primaryKey": ",".join(config.record_key_fields),
        "orderingFields": ",".join(config.ordering_fields),
        "hoodie.table.name": config.name,
    }
    properties = ",\n".join(f"  {_literal(key)} = {_literal(value)}" for key, value in said.items() if value)
    partitioned = (
        f"\nPARTITIONED BY ({', '.join(map(quoted, config.partition_fields))})" if config.partition_fields else ""
    )
    return (
        f"CREATE TABLE {quoted(config.name)} (\n{columns})\nUSING hudi\nTBLPROPERTIES (\n{properties}){partitioned}\n"
        f"{f'COMMENT {_literal(rules.comment)}{chr(10)}' if rules.comment else ''}"
        f"LOCATION {_literal(table.location)}"
    )


def _rules_of(name: str, rules: TableRules) -> str:
    said = " NOT NULL" if name in rules.not_null else ""
    if name in rules.generated:
        said += f" GENERATED ALWAYS AS ({rules.generated[name]})"
    if name in rules.defaults:
        said += f" DEFAULT {rules.defaults[name]}"
    return said + (f" COMMENT {_literal(rules.comments[name])}" if name in rules.comments else "")


def _literal(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _partitions(table: HudiTable) -> pa.Table:
    return _rows(("partition",), [(path,) for path in sorted(map(str, table.partition_sizes()))])


_SHOWN: dict[tuple[str, ...], Callable[[HudiTable], pa.Table]] = {
    ("PARTITIONS",): _partitions,
    ("COLUMNS",): lambda table: _rows(("col_name",), [(name,) for name in table.schema.names]),
    ("TBLPROPERTIES",): lambda table: _rows(("key", "value"), _properties(table)),
    ("CREATE", "TABLE"): lambda table: _rows(("createtab_stmt",), [(create_statement(table),)]),
}


def _rows(names: Sequence[str], rows: Sequence[tuple[str, ...]]) -> pa.Table:
    return pa.Table.from_pylist(
        [dict(zip(names, row, strict=True)) for row in rows], pa.schema([(name, _TEXT) for name in names])
    )


def _about_an_index(words: Words, names: Names) -> Any:
    """Carry out a statement about an index at the table that the statement names. The table's own name replaces the name in the statement."""
    for number, token in enumerate(words.tokens):
        if token.text.upper() in ("ON", "FROM", "IN"):
            words.next = number + 1
            words.has("TABLE")
            first = words.next
            table = names.table(words.name())
            start, end = words.tokens[first].start, words.tokens[words.next - 1].end
            statement = f"{words.text[:start]}{quoted(table.name)}{words.text[end + 1 :]}"
            return table.sql(statement)
    raise not_understood(
        "it names no table",
        "Write CREATE INDEX name ON table (column), DROP INDEX name ON table, SHOW INDEXES FROM table.",
    )
