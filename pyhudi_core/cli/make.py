"""``pyhudi init``, ``import`` and ``completion``: make a table, load files into one, and complete commands in a shell."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

import click
import pyarrow as pa

from pyhudi_core.cli.terminal import at_location, console, pairs, rename_option, reporting_errors, safe, table_option
from pyhudi_core.errors import (
    DataError,
    InvalidOptionError,
    SchemaMismatchError,
    TableExistsError,
    TableNotFoundError,
    at_table,
)
from pyhudi_core.importing.import_files import ImportRows, ImportStyle, import_rows
from pyhudi_core.opened_table.opened_table import OpenedTable
from pyhudi_core.opening import checked_config, create_table, open_table, table_type_of
from pyhudi_core.options import WriteOptions
from pyhudi_core.runtime.system import system_runtime
from pyhudi_core.storage.no_table import refuse_other_place
from pyhudi_core.storage.opening import open_storage
from pyhudi_core.table import HudiTable

_KEYS = (
    click.option("--record-key", multiple=True, help="A key column; may be repeated. Without one, keys are generated."),
    click.option("--partition-by", multiple=True, help="A partition column; may be repeated."),
    click.option("--ordering", multiple=True, help="A column that decides which version of a row is newer."),
    click.option("--table-type", help="copy_on_write (the default) or merge_on_read."),
    click.option("--name", help="The table's name; by default the last part of LOCATION."),
)
_DECIMAL = re.compile(r"decimal(?:128)?\((\d+), ?(\d+)\)")
_ZONED = re.compile(r"timestamp\[(s|ms|us|ns), ?tz=([\w/+:-]+)\]")
_TYPES = "those of Arrow, such as int64, string, double, bool_, date32, timestamp[us], timestamp[us, tz=UTC], decimal128(9, 2)"
_OF_GENERATED_KEYS = (
    "A table without a record key generates a key for each row, so an import adds all rows again and finds none of them. For a table with this key,"
    " import all files into another location with --record-key."
)
_ROWS_WERE_ADDED = (
    "The table has no record key, so all rows were added: those that an earlier import wrote are there twice now. To undo it: pyhudi rollback {} {}."
    " In a table with a record key, a second import of a file adds no row twice."
)
_ROWS_WERE_COMBINED = (
    "{:,} rows are not in the table: another row of the files has their key, and the last one of a key was taken. If they are different things, the"
    " key lacks a column: import the files into another location with one --record-key more."
)
_OPERATIONS = ("upsert", "insert", "bulk_insert", "insert_overwrite", "insert_overwrite_table")


def _with_keys(command: Any) -> Any:
    for option in reversed(_KEYS):
        command = option(command)
    return command


def _columns(context: click.Context, parameter: click.Parameter, given: tuple[str, ...]) -> pa.Schema:
    fields = []
    for text in given:
        name, _, kind = text.partition(":")
        try:
            fields.append(pa.field(name, _arrow_type(kind)))
        except ValueError:
            raise click.BadParameter(
                f"{text!r} is not NAME:TYPE; types are {_TYPES}; pyhudi import makes tables with nested columns",
                context,
                parameter,
            ) from None
    return pa.schema(fields)


def _arrow_type(text: str) -> pa.DataType:
    """Return the Arrow type that a text names, in pyarrow's own spelling. Raises `ValueError`."""
    decimal = _DECIMAL.fullmatch(text)
    if decimal is not None:
        return pa.decimal128(int(decimal[1]), int(decimal[2]))
    zoned = _ZONED.fullmatch(text)
    return pa.timestamp(zoned[1], zoned[2]) if zoned is not None else pa.type_for_alias(text)


def _types(context: click.Context, parameter: click.Parameter, given: tuple[str, ...]) -> dict[str, pa.DataType]:
    found = {}
    for name, kind in pairs(context, parameter, given).items():
        try:
            found[name] = _arrow_type(kind)
        except ValueError:
            raise click.BadParameter(f"{kind!r} is no type; types are {_TYPES}", context, parameter) from None
    return found


def _delimiter(context: click.Context, parameter: click.Parameter, given: str | None) -> str | None:
    text = {"tab": "\t", "\\t": "\t"}.get(given, given) if given is not None else None
    if text is not None and (len(text) != 1 or not text.isascii() or text in '"\r\n'):
        raise click.BadParameter("give one ASCII character that is no quote; tab is a tab", context, parameter)
    return text


@click.command()
@at_location
@click.option(
    "--column",
    "columns",
    multiple=True,
    required=True,
    callback=_columns,
    metavar="NAME:TYPE",
    help="A column and its Arrow type, such as id:int64; may be repeated.",
)
@_with_keys
@table_option("hoodie.metadata.enable")
@click.option("--if-not-exists", is_flag=True, help="Change nothing if the table exists with these columns and keys.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.pass_context
def init(
    context: click.Context,
    /,
    location: str,
    storage_options: dict[str, str],
    columns: pa.Schema,
    if_not_exists: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """Make an empty table at LOCATION. Exit code 0: the table was made, or it exists; 2: the call was refused, or it failed."""
    with reporting_errors(context):
        try:
            refuse_other_place(open_storage(location, storage_options))
            made = create_table(location, columns, storage_options=storage_options, **given)
        except TableExistsError:
            if not if_not_exists:
                raise
            made = open_table(location, storage_options, given["options"])
            _refuse_other_table(made, given)
            _refuse_other_columns(made, columns)
        summary = str(made)
    click.echo(json.dumps({"location": made.location, "name": made.name}) if as_json else safe(summary))


@click.command("import")
@at_location
@click.argument("files", nargs=-1, required=True)
@_with_keys
@click.option("--operation", type=click.Choice(_OPERATIONS), default="upsert", show_default=True, help="How the rows are written.")  # fmt: skip
@click.option(
    "--null",
    "nulls",
    multiple=True,
    metavar="TEXT",
    help="A word of CSV files that is null, such as NA; may be repeated.",
)
@click.option(
    "--delimiter",
    callback=_delimiter,
    help="The character between fields of CSV files: by default a comma, in .tsv files a tab.",
)
@click.option(
    "--type",
    "types",
    multiple=True,
    callback=_types,
    metavar="COLUMN=TYPE",
    help="The Arrow type of a CSV column; may be repeated.",
)
@rename_option
@table_option("hoodie.metadata.enable")
@click.option("--json", "as_json", is_flag=True, help="Print the commit as JSON.")
@click.pass_context
def import_(
    context: click.Context,
    /,
    location: str,
    storage_options: dict[str, str],
    files: tuple[str, ...],
    operation: str,
    nulls: tuple[str, ...],
    delimiter: str | None,
    types: dict[str, pa.DataType],
    rename: str | None,
    options: dict[str, str],
    as_json: bool,
    **given: Any,
) -> None:
    """Write the rows of Parquet or CSV FILES into the table at LOCATION, in one commit. The table is made if it does not exist.

    A new table has the columns of the first file. Later files follow the rule of all writes: a new column is added, a wider type widens the
    column of the table, and data that does not fit is refused before anything is written or made.

    A CSV file has a line with names, and values of the table's types. Only an empty field without quotes is null. The first 100,000 rows determine
    the types of new columns; numbers such as 007, and whole numbers beyond 64 bits, are texts.

    Exit code 0: written, or there was nothing to change; 2: the command was refused, or it failed.
    """
    with reporting_errors(context):
        if location.endswith((".csv", ".parquet")):
            raise DataError(
                "The location of a table cannot be a file",
                path=location,
                hint="The table comes first, then the files: pyhudi import TABLE FILES",
            )
        style = ImportStyle(nulls, delimiter, types, snake=rename is not None)
        table, rows = _table_and_rows(location, storage_options, options, files, style, operation, given)
        verb = "insert" if operation == "upsert" and table.config.generates_keys else operation
        again = table.config.generates_keys and verb in ("insert", "bulk_insert") and bool(table.timeline.commits)
        made = getattr(table, verb)(rows.reader())
    if as_json:
        stats = made.stats
        summary = {
            "changed": made.changed,
            "instant": made.instant,
            "inserted": stats.rows_inserted,
            "updated": stats.rows_updated,
            "combined": stats.rows_combined,
            "columns_added": list(made.columns_added),
        }
        click.echo(json.dumps(summary))
    else:
        for line in str(made).splitlines():
            console().print(safe(line))
    for note in rows.notes:
        console(stderr=True).print(safe(note))
    if made.stats.rows_combined and not table.config.ordering_fields:
        console(stderr=True).print(safe(_ROWS_WERE_COMBINED.format(made.stats.rows_combined)))
    if made and again:
        console(stderr=True).print(safe(_ROWS_WERE_ADDED.format(location, made.instant)))


@click.command()
@click.argument("shell", type=click.Choice(("bash", "zsh", "fish")))
def completion(shell: str) -> None:
    """Print the completion of this command for a SHELL. For bash: eval "$(pyhudi completion bash)" in ~/.bashrc. Exit code 0: printed."""
    from click.shell_completion import get_completion_class  # noqa: PLC0415

    from pyhudi_core.cli.main import main  # noqa: PLC0415  (main imports this module when the command runs)

    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(main, {}, "pyhudi", "_PYHUDI_COMPLETE").source())


def _table_and_rows(
    location: str,
    storage_options: dict[str, str],
    options: dict[str, str],
    files: tuple[str, ...],
    style: ImportStyle,
    operation: str,
    given: dict[str, Any],
) -> tuple[HudiTable, ImportRows]:
    """Return the table, and the rows of the files. A table is made only after all rows were checked, so a refused import leaves none."""
    settings = WriteOptions.parse(options).rows
    allow_lossy = settings.allow_lossy_widening
    try:
        table = open_table(location, storage_options, options)
    except TableNotFoundError:
        storage = open_storage(location, storage_options)
        refuse_other_place(storage)
        keys = (*given["record_key"], *given["partition_by"])
        rows = import_rows(files, style, None, table=storage.location, keys=keys, allow_lossy=allow_lossy)
        opened = OpenedTable(storage, system_runtime(), options)
        with at_table(storage.location):
            config = checked_config(opened, rows.schema, **given)
            combined = settings.combine_before_upsert if operation == "upsert" else settings.combine_before_insert
            kept = operation.startswith("insert_overwrite") or config.generates_keys
            rows.refuse_rows(config, unique=not (kept or combined))
        return create_table(location, rows.schema, storage_options=storage_options, options=options, **given), rows
    _refuse_other_table(table, given)
    keys = (*table.config.record_key_fields, *table.config.partition_fields)
    rules = table.config.rules.enforced
    rows = import_rows(
        files, style, table.schema, table=table.location, keys=keys, allow_lossy=allow_lossy, rules=rules
    )
    return table, rows


def _refuse_other_columns(table: HudiTable, columns: pa.Schema) -> None:
    """Raise `SchemaMismatchError` if the table lacks one of the columns, or has it with another type."""
    wrong = [
        field
        for field in columns
        if field.name not in table.schema.names or table.schema.field(field.name).type != field.type
    ]
    if wrong:
        raise SchemaMismatchError(
            f"The table is there, without the column {wrong[0].name} of type {wrong[0].type}",
            table=table.location,
            hint="`pyhudi schema` shows its columns; table.alter adds some.",
        )


def _refuse_other_table(table: HudiTable, given: dict[str, Any]) -> None:
    """Raise `InvalidOptionError` if the given name, type, key, partition or ordering columns differ from the existing table."""
    config = table.config
    has = {
        "record_key": config.record_key_fields,
        "partition_by": config.partition_fields,
        "ordering": config.ordering_fields,
        "table_type": config.table_type.value.lower(),
        "name": config.name,
    }
    asked = {name: value for name, value in given.items() if value and name in has}
    if "table_type" in asked:
        asked["table_type"] = table_type_of(asked["table_type"]).value.lower()
    wrong = [name for name, value in asked.items() if value != has[name]]
    if wrong:
        differences = (f"{name} {_words(has[name]) or 'none'}, not {_words(asked[name])}" for name in wrong)
        raise InvalidOptionError(
            f"The table is there, and has {'; '.join(differences)}",
            table=table.location,
            hint=_OF_GENERATED_KEYS
            if config.generates_keys and "record_key" in wrong
            else f"Omit {' and '.join(map(_flag, wrong))}, or give another location for another table.",
        )


def _words(value: str | Sequence[str]) -> str:
    return value if isinstance(value, str) else ", ".join(value)


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"
