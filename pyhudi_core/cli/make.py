"""``pyhudi init``, ``import`` and ``completion``: make a table, load files into one, and complete commands in a shell."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import click
import pyarrow as pa

from pyhudi_core.cli.terminal import at_location, console, reporting_errors, safe, table_option
from pyhudi_core.errors import (
    DataError,
    InvalidOptionError,
    ObjectNotFoundError,
    SchemaMismatchError,
    TableExistsError,
    TableNotFoundError,
)
from pyhudi_core.opening import create_table, open_table
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
                f"{text!r} is not NAME:TYPE; types are those of Arrow, such as int64, string, double, bool_, date32, timestamp[us],"
                " timestamp[us, tz=UTC], decimal128(9, 2); pyhudi import makes tables with nested columns",
                context,
                parameter,
            ) from None
    return pa.schema(fields)


def _arrow_type(text: str) -> pa.DataType:
    """The Arrow type that a text names, in pyarrow's own spelling. Raises `ValueError`."""
    decimal = _DECIMAL.fullmatch(text)
    if decimal is not None:
        return pa.decimal128(int(decimal[1]), int(decimal[2]))
    zoned = _ZONED.fullmatch(text)
    return pa.timestamp(zoned[1], zoned[2]) if zoned is not None else pa.type_for_alias(text)


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
@click.option(
    "--if-not-exists", is_flag=True, help="A table that is there with these columns and keys is left as it is."
)
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
    """Make an empty table at LOCATION. Exit code 0: made, or there already; 2: it was refused, or it failed."""
    with reporting_errors(context):
        try:
            made = create_table(location, columns, storage_options=storage_options, **given)
        except TableExistsError:
            if not if_not_exists:
                raise
            made = open_table(location, storage_options)
            _refuse_other_keys(made, given)
            _refuse_other_columns(made, columns)
        summary = str(made)
    click.echo(json.dumps({"location": made.location, "name": made.name}) if as_json else safe(summary))


@click.command("import")
@at_location
@click.argument("files", nargs=-1, required=True)
@_with_keys
@click.option("--operation", type=click.Choice(_OPERATIONS), default="upsert", show_default=True, help="How the rows are written.")  # fmt: skip
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
    options: dict[str, str],
    as_json: bool,
    **given: Any,
) -> None:
    """Write the rows of Parquet or CSV FILES into the table at LOCATION, in one commit. The table is made if there is none.

    The columns of a new table are those of the first file. A CSV file has a line with names, and values of the table's types.

    Exit code 0: written, or there was nothing to change; 2: it was refused, or it failed.
    """
    with reporting_errors(context):
        if location.endswith((".csv", ".parquet")):
            raise DataError(
                "The location of a table cannot be a file",
                path=location,
                hint="The table comes first, then the files: pyhudi import TABLE FILES",
            )
        table = _opened(location, storage_options, options, files[0], given)
        rows = pa.RecordBatchReader.from_batches(table.schema, _batches(files, table.schema))
        made = getattr(table, "insert" if operation == "upsert" and table.config.generates_keys else operation)(rows)
    if as_json:
        stats = made.stats
        summary = {
            "changed": made.changed,
            "instant": made.instant,
            "inserted": stats.rows_inserted,
            "updated": stats.rows_updated,
        }
        click.echo(json.dumps(summary))
    else:
        for line in str(made).splitlines():
            console().print(safe(line))


@click.command()
@click.argument("shell", type=click.Choice(("bash", "zsh", "fish")))
def completion(shell: str) -> None:
    """Print the completion of this command for a SHELL. For bash: eval "$(pyhudi completion bash)" in ~/.bashrc. Exit code 0: printed."""
    from click.shell_completion import get_completion_class  # noqa: PLC0415

    from pyhudi_core.cli.main import main  # noqa: PLC0415  (main imports this module when the command runs)

    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(main, {}, "pyhudi", "_PYHUDI_COMPLETE").source())


def _opened(
    location: str, storage_options: dict[str, str], options: dict[str, str], first: str, given: dict[str, Any]
) -> HudiTable:
    try:
        table = open_table(location, storage_options, options)
    except TableNotFoundError:
        schema = next(_file_batches(first, None)).schema
        return create_table(location, schema, storage_options=storage_options, options=options, **given)
    _refuse_other_keys(table, given)
    return table


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


def _refuse_other_keys(table: HudiTable, given: dict[str, Any]) -> None:
    """Raise `InvalidOptionError` if the table has other key or partition columns than are given."""
    asked = {name: value for name, value in given.items() if value}
    has = {"record_key": table.config.record_key_fields, "partition_by": table.config.partition_fields}
    wrong = [name for name, value in asked.items() if name in has and tuple(value) != has[name]]
    if wrong:
        raise InvalidOptionError(
            f"The table is there, and has {wrong[0]} {', '.join(has[wrong[0]]) or 'none'}",
            table=table.location,
            hint=f"Omit --{wrong[0].replace('_', '-')}.",
        )


def _batches(files: tuple[str, ...], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for file in files:
        for batch in _file_batches(file, schema):
            missing = [name for name in schema.names if name not in batch.schema.names]
            more = [name for name in batch.schema.names if name not in schema.names]
            if missing or more:
                what = (
                    f"lacks the column {missing[0]!r}"
                    if missing
                    else f"has a column {more[0]!r}, which the table lacks"
                )
                raise SchemaMismatchError(f"The file {file} {what}", path=file, hint=f"The table has: {', '.join(schema.names)}.")  # fmt: skip
            yield batch.select(schema.names).cast(schema)


_CSV = "A CSV file has a line with names, and values of the table's types; a time with a zone is written as 2026-01-31T12:00:00Z."


def _file_batches(file: str, schema: pa.Schema | None) -> Iterator[pa.RecordBatch]:
    """The batches of a file; of a CSV file with the types of a schema, or inferred ones."""
    import pyarrow.parquet as pq  # noqa: PLC0415
    from pyarrow import csv  # noqa: PLC0415

    folder, _, name = file.rpartition("/")
    with _opened_file(folder, name, file) as source:
        try:
            if name.endswith(".csv"):
                types = None if schema is None else {item.name: item.type for item in schema}
                convert = csv.ConvertOptions(column_types=types, strings_can_be_null=True)
                yield from csv.open_csv(source, convert_options=convert)
            else:
                yield from pq.ParquetFile(source).iter_batches()
        except pa.ArrowException as error:
            raise DataError(
                f"The file cannot be read: {str(error).splitlines()[0]}",
                path=file,
                hint=_CSV if name.endswith(".csv") else "Files end with .parquet or .csv.",
            ) from error


def _opened_file(folder: str, name: str, file: str) -> Any:
    try:
        return open_storage(folder or ".").open_input(name)
    except ObjectNotFoundError as error:
        raise DataError(
            "The file does not exist", path=file, hint="Give the paths of files, not of folders."
        ) from error
