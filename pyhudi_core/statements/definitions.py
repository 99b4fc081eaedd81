"""Statements that make or drop a table, or change its columns: CREATE TABLE, CREATE TABLE AS SELECT, DROP TABLE and ALTER TABLE."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import sqlglot.expressions as exp

from pyhudi_core.errors import DataError, InvalidOptionError, TableNotFoundError
from pyhudi_core.opening import create_table, drop_of
from pyhudi_core.predicates.sql import Dialect
from pyhudi_core.repairs.catalog_drop import CatalogDrop
from pyhudi_core.repairs.drop import TableDrop
from pyhudi_core.statements.changes import Changing, drop_partitions
from pyhudi_core.statements.names import is_path, is_place, parts_of, shown
from pyhudi_core.statements.queries import query
from pyhudi_core.statements.rule_parts import RuleParts
from pyhudi_core.statements.text import not_understood, place_of
from pyhudi_core.statements.types import arrow_type, type_of_column
from pyhudi_core.storage.paths import Place
from pyhudi_core.table import HudiTable
from pyhudi_core.write.result import Commit

_OPTIONS_PROPERTY: Any = getattr(exp, "OptionsProperty", ())
"""OPTIONS (...) as sqlglot 30 parses this clause. Older releases of sqlglot parse the clause as plain properties."""
_DROPPED = pa.schema([("table", pa.string()), ("files", pa.int64()), ("bytes", pa.int64())])
_WORDS = {
    "primarykey": "record_key",
    "precombinefield": "ordering",
    "orderingfields": "ordering",
    "type": "table_type",
}
"""Hudi's words in TBLPROPERTIES, with the names of the matching arguments of `create_table`."""


@dataclass(frozen=True, slots=True)
class _Definition:
    """The definition of a table in CREATE TABLE, as arguments of `create_table`."""

    place: Place
    name: str | None
    arguments: Mapping[str, Any]
    options: Mapping[str, object] = field(repr=False)
    partition_columns: pa.Schema
    rules: RuleParts


def create(how: Changing, tree: Any) -> HudiTable | Commit:
    """CREATE TABLE [IF NOT EXISTS] name (columns) USING hudi ... [AS query]. Returns the new table; with a query, the commit of the query's rows."""
    found = _definition(how, tree)
    exist_ok = bool(tree.args.get("exists"))
    if tree.expression is None:
        columns = _columns(tree.this, found)
        return _made(how, found, columns, exist_ok=exist_ok)
    rows = query(tree.expression, how.names)
    _refuse_rows(rows, found)
    made = _made(how, found, rows.schema, exist_ok=exist_ok)
    if commits := made.timeline.commits:
        return Commit.nothing("bulk_insert", "the table is there already", commits[-1].completion_time or "")
    return made.bulk_insert(rows, **how.commit)


def what_create_says(how: Changing, tree: Any) -> tuple[str, list[str]]:
    """Return the location and the columns of the table of CREATE TABLE. With a query, the columns are not known."""
    found = _definition(how, tree)
    return str(found.place), [] if tree.expression is not None else list(_columns(tree.this, found).names)


def alter(how: Changing, tree: Any) -> Commit:
    """ALTER TABLE name ADD | DROP | RENAME | ALTER | CHANGE COLUMN, and DROP PARTITION."""
    if tree.args.get("kind") != "TABLE":
        raise not_understood(f"ALTER {tree.args.get('kind')} is not supported")
    table = how.names.table(tree.this)
    actions = tree.args.get("actions") or []
    if actions and all(isinstance(action, exp.DropPartition) for action in actions):
        partitions = [part for action in actions for part in action.expressions]
        return drop_partitions(how, table, partitions, missing_ok=any(action.args.get("exists") for action in actions))
    changes = _Changes(list(table.schema.names))
    for action in actions:
        changes.take(action)
    return table.alter(**changes.arguments(), **how.commit)


class _Changes:
    """The changes of the actions of ALTER TABLE, as arguments of `HudiTable.alter`."""

    def __init__(self, names: list[str]) -> None:
        self.add: dict[str, pa.DataType] = {}
        self.drop: list[str] = []
        self.rename: dict[str, str] = {}
        self.retype: dict[str, pa.DataType] = {}
        self.names, self.placed = names, False
        self.rules, self.more = RuleParts(), dict[str, Any]()

    def arguments(self) -> dict[str, Any]:
        order = {"order": self.names} if self.placed else {}
        columns = {"add": self.add, "drop": self.drop, "rename": self.rename, "retype": self.retype}
        return {**columns, **order, **self.rules.changes(), **self.more}

    def take(self, action: Any) -> None:
        """Add the changes of one action. Raises `InvalidOptionError` for an action that tables do not support."""
        if isinstance(action, exp.Schema):
            for column in action.expressions:
                self._added(column)
        elif isinstance(action, exp.ColumnDef):
            self._added(action)
        elif isinstance(action, exp.Drop):
            self._dropped(action)
        elif isinstance(action, exp.RenameColumn):
            self.rename[_path(action.this)] = action.args["to"].name
        elif isinstance(action, exp.AddConstraint):
            for part in action.expressions:
                self.rules.of_table(part)
        elif isinstance(action, exp.AlterColumn):
            self._altered(action)
        else:
            raise not_understood(
                f"ALTER TABLE with {action.sql(dialect='spark')[:80]!r}{place_of(action)} is not supported",
                _hint(action),
            )

    def _dropped(self, action: Any) -> None:
        if str(action.args.get("kind")).upper() == "CONSTRAINT":
            self.more.setdefault("drop_check", []).extend(one.name for one in action.args["tables"])
            return
        for one in action.args["tables"]:
            self.drop += [_path(column) for column in (one.expressions if isinstance(one, exp.Schema) else [one])]

    def _altered(self, action: Any) -> None:
        """Add the changes of ALTER COLUMN or CHANGE COLUMN: a type, a name, a comment, NOT NULL, a default."""
        old, new, given = _path(action.this), action.args.get("rename_to"), action.args
        for other in ("using", "collate"):
            if given.get(other):
                raise not_understood(
                    f"ALTER COLUMN {old} with {other.upper()} is not supported", "Leave it out. Nothing was changed."
                )
        if given.get("dtype"):
            self.retype[old] = arrow_type(given["dtype"])
        if new is not None and new.name != old.rpartition(".")[2]:
            self.rename[old] = new.name
        if given.get("comment"):
            self.rules.comments[old] = given["comment"].name
        if given.get("default") is not None:
            self.rules.defaults[old] = given["default"].sql(dialect=Dialect)
        elif given.get("allow_null") is not None:
            self.more.setdefault("nullable" if given["allow_null"] else "not_null", []).append(old)
        elif given.get("drop"):
            self.more.setdefault("default", {})[old] = None

    def _added(self, column: Any) -> None:
        path = _path(column)
        self.rules.of_column(column, path)
        self.add[path] = type_of_column(column)
        position = column.args.get("position")
        if position is None:
            self.names.append(path)
            return
        after = position.this.name if position.this is not None else None
        if "." in path or (after is not None and after not in self.names):
            raise not_understood(
                f"{position.sql(dialect='spark')!r}{place_of(column)} names no place among the columns"
            )
        self.placed = True
        self.names.insert(0 if after is None else self.names.index(after) + 1, path)


def drop(how: Changing, tree: Any) -> pa.Table:
    """DROP TABLE [IF EXISTS] name. Returns a row that says what was dropped; no row if there was no table."""
    try:
        done = to_drop(how, tree)()
    except TableNotFoundError:
        if not tree.args.get("exists"):
            raise
        return _DROPPED.empty_table()
    return pa.Table.from_pylist([{"table": done.location, "files": done.files, "bytes": done.bytes}], _DROPPED)


def to_drop(how: Changing, tree: Any) -> TableDrop | CatalogDrop:
    """Return the drop that DROP TABLE requests. Raises `TableNotFoundError` if there is no table, and `InvalidOptionError` for another DROP
    statement.
    """
    kind = str(tree.args.get("kind")).upper()
    if kind != "TABLE":
        raise not_understood(
            f"DROP {kind} is not supported",
            "DROP TABLE and DROP INDEX are; partitions go by ALTER TABLE t DROP PARTITION (...).",
        )
    named = tree.args.get("tables") or [tree.this]
    if len(named) != 1:
        raise not_understood(f"DROP TABLE names {len(named)} tables", "Drop one at a time. Nothing was changed.")
    if how.names.whole and not (how.names.knows(named[0]) or is_path(parts_of(named[0]))):
        raise TableNotFoundError(
            f"The lake has no table {shown(named[0])}", hint="SHOW TABLES has all. Nothing was changed."
        )
    given = how.names.place(named[0])
    if is_place(given):
        return drop_of(given, how.names.storage_options, how.names.options)
    return how.names.table(named[0]).drop


def comment(how: Changing, tree: Any) -> Commit:
    """COMMENT ON TABLE name IS 'text', COMMENT ON COLUMN name.column IS 'text'."""
    table, text = what_comment_says(how, tree)
    return table.alter(comment=text, **how.commit)


def what_comment_says(how: Changing, tree: Any) -> tuple[HudiTable, str | dict[str, str]]:
    """Return the table of COMMENT ON, and its comment, or the comment of a column."""
    kind, text = str(tree.args.get("kind")).upper(), tree.expression.name
    if kind == "TABLE":
        return how.names.table(tree.this), text
    if kind != "COLUMN" or len(tree.this.parts) < 2:
        raise not_understood(f"COMMENT ON {kind} is not supported", "Write COMMENT ON TABLE t, or ON COLUMN t.column.")
    parts = tuple(part.name for part in tree.this.parts)
    return how.names.table(parts[:-1]), {parts[-1]: text}


def _hint(action: Any) -> str:
    if isinstance(action, exp.AlterRename):
        return (
            "The name of a table is part of its properties and does not change; programs name tables by their location."
        )
    if isinstance(action, exp.AlterSet):
        return "Options are given by each writer: options= of open_table and of hudi.sql. Nothing was changed."
    if isinstance(action, exp.AddPartition):
        return "A partition is there when rows are written into it. Nothing was changed."
    return (
        "ALTER TABLE has ADD COLUMNS, DROP COLUMN, RENAME COLUMN, ALTER COLUMN, CHANGE COLUMN, ADD and DROP CONSTRAINT, and DROP PARTITION."
        " Nothing was changed."
    )


def _definition(how: Changing, tree: Any) -> _Definition:
    if tree.args.get("kind") != "TABLE" or tree.args.get("replace") or tree.args.get("clone"):
        raise not_understood(
            f"CREATE{' OR REPLACE' if tree.args.get('replace') else ''} {tree.args.get('kind') or ''} is not supported",
            "CREATE TABLE, and CREATE INDEX, are. For a view, keep the query in your program. Nothing was changed.",
        )
    if tree.expression is not None and isinstance(tree.this, exp.Schema) and tree.this.expressions:
        raise not_understood("CREATE TABLE ... AS takes its columns from the query, and lists none")
    given: dict[str, Any] = {}
    options: dict[str, object] = {}
    place = None
    partitions, rules = pa.schema([]), RuleParts()
    for part in tree.args["properties"].expressions if tree.args.get("properties") else ():
        if isinstance(part, exp.FileFormatProperty):
            if part.name.lower() not in ("hudi", "pyhudi", "org.apache.hudi"):
                raise not_understood(f"USING {part.name}{place_of(part)} is no table of Hudi", "Write USING hudi.")
        elif isinstance(part, exp.LocationProperty):
            place = part.this.name
        elif isinstance(part, exp.PartitionedByProperty):
            partitions = _partitions(part, given, rules)
        elif isinstance(part, _OPTIONS_PROPERTY):
            _take_options(part.expressions, given, options)
        elif type(part) is exp.Property:
            _take_options([part], given, options)
        elif isinstance(part, exp.SchemaCommentProperty):
            rules.comment = part.this.name
        else:
            raise not_understood(f"{part.sql(dialect='spark')[:80]!r}{place_of(part)} is not supported")
    return _Definition(_place(how, tree.this, place), _name(tree.this, options), given, options, partitions, rules)


def _name(written: Any, options: Mapping[str, object]) -> str | None:
    """Return the name of a new table. An option may give the name. Otherwise the name is the name in the statement, unless that is a path."""
    parts = parts_of(written)
    return None if "hoodie.table.name" in options or is_path(parts) else parts[-1]


def _place(how: Changing, name: Any, written: str | None) -> Place:
    if written is not None:
        return written
    place = how.names.place(name) if how.names.knows(name) or is_path(parts_of(name)) else None
    if is_place(place):
        return place
    raise InvalidOptionError(
        f"CREATE TABLE {shown(name)} does not say where",
        hint=f"Write LOCATION '/lake/orders', or give tables={{{shown(name)}: '/lake/orders'}}. Nothing was created.",
    )


def _partitions(part: Any, given: dict[str, Any], rules: RuleParts) -> pa.Schema:
    columns = part.this.expressions if isinstance(part.this, exp.Schema | exp.Tuple) else [part.this]
    typed = []
    for column in columns:
        if isinstance(column, exp.ColumnDef):
            rules.of_column(column, column.name)
        if isinstance(column, exp.ColumnDef) and column.args.get("kind") is not None:
            typed.append((column.name, arrow_type(column.args["kind"])))
        elif not isinstance(column, exp.Identifier | exp.Column | exp.ColumnDef):
            raise not_understood(
                f"PARTITIONED BY{place_of(column)} takes columns, not {column.sql(dialect='spark')[:60]!r}",
                "For folders of times, give the options hoodie.keygen.timebased.* in TBLPROPERTIES.",
            )
    given["partition_by"] = [column.name for column in columns]
    return pa.schema(typed)


def _take_options(parts: Sequence[Any], given: dict[str, Any], options: dict[str, object]) -> None:
    for part in parts:
        key, value = part.name, part.args["value"].name
        word = _WORDS.get(key.lower())
        if word is None:
            options[key] = value
        elif word in given:
            raise not_understood(f"TBLPROPERTIES give {key!r} twice{place_of(part)}")
        else:
            names = [name.strip() for name in value.split(",") if name.strip()]
            given[word] = value if word == "table_type" else names


def _columns(schema: Any, found: _Definition) -> pa.Schema:
    if not isinstance(schema, exp.Schema):
        raise not_understood(
            "CREATE TABLE lists no columns", "Write CREATE TABLE orders (id BIGINT, ...) USING hudi ..."
        )
    fields = []
    for column in schema.expressions:
        if isinstance(column, exp.Constraint | exp.CheckColumnConstraint):
            found.rules.of_table(column)
            continue
        if not isinstance(column, exp.ColumnDef) or column.args.get("kind") is None:
            raise not_understood(
                f"{column.sql(dialect='spark')[:80]!r}{place_of(column)} is no column with a type",
                "Write CREATE TABLE orders (id BIGINT, ...). Keys are in TBLPROPERTIES (primaryKey = 'id'). Nothing was created.",
            )
        found.rules.of_column(column, column.name)
        fields.append(pa.field(column.name, arrow_type(column.args["kind"])))
    return pa.schema([*fields, *found.partition_columns])


def _made(how: Changing, found: _Definition, columns: pa.Schema, *, exist_ok: bool) -> HudiTable:
    return create_table(
        found.place,
        columns,
        name=found.name,
        **found.arguments,
        options={**how.names.options, **found.options},
        storage_options=how.names.storage_options,
        exist_ok=exist_ok,
        rules=found.rules.rules(),
    )


def _refuse_rows(rows: pa.Table, found: _Definition) -> None:
    """Refuse rows that a new table could not take, before the table is made: rows with a null key, and two rows with the same key."""
    keys = [name for name in found.arguments.get("record_key", ()) if name in rows.column_names]
    for name in keys:
        if rows[name].null_count:
            raise DataError(
                f"The query gives {name} null, and it is part of the record key", hint="Nothing was created."
            )
    if not keys:
        return
    partitions = [name for name in found.arguments.get("partition_by", ()) if name in rows.column_names]
    names = list(dict.fromkeys([*keys, *partitions]))
    counts = rows.group_by(names).aggregate([([], "count_all")])
    repeated = counts.filter(pc.greater(counts["count_all"], 1))
    if len(repeated):
        raise DataError(
            f"The query gives {len(repeated):,} record keys twice, for example {repeated.select(names).slice(0, 1).to_pylist()[0]}",
            hint="Leave one row for each key. Nothing was created.",
        )


def _path(column: Any) -> str:
    """Return the dotted path of a column."""
    if isinstance(column, exp.ColumnDef):
        return _path(column.this)
    if isinstance(column, exp.Dot):
        return f"{_path(column.this)}.{column.expression.name}"
    if isinstance(column, exp.Column):
        return ".".join(part.name for part in column.parts)
    return str(column.name)
