"""``pyhudi export``: write the rows of a table into one Parquet, CSV or JSON file. It changes nothing in the table."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import IO, Any

import click
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from pyhudi_core.cli.json_text import json_text
from pyhudi_core.cli.terminal import at_location, reporting_errors
from pyhudi_core.errors import DataError, InvalidOptionError
from pyhudi_core.opening import open_table
from pyhudi_core.predicates.coercion import is_bytes
from pyhudi_core.read.scan import Scan
from pyhudi_core.storage.opening import open_storage

FORMATS = ("parquet", "csv", "json")


@click.command("export")
@at_location
@click.argument("file")
@click.option(
    "--format", "kind", type=click.Choice(FORMATS), help="The format; by default the ending of the file says it."
)
@click.option("--where", help="A condition in SQL, such as \"day = '2026-01-31'\".")
@click.option("--zone", help="The time zone of times in --where, such as Europe/Berlin. By default UTC.")
@click.option("--as-of", help="A time with its zone, or an instant: the state of the table then.")
@click.option("--column", "columns", multiple=True, help="Only this column; may be repeated.")
@click.option("--overwrite", is_flag=True, help="Replace a file that is there, on a disk; an object store refuses it.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.pass_context
def export(
    context: click.Context,
    location: str,
    storage_options: dict[str, str],
    file: str,
    kind: str | None,
    where: str | None,
    zone: str | None,
    as_of: str | None,
    columns: tuple[str, ...],
    overwrite: bool,
    as_json: bool,
) -> None:
    """Write the rows of the table at LOCATION into one FILE (.parquet, .csv or .json: an object on each line), without Hudi's meta columns.

    The file appears when it is complete. Exit code 0: written; 2: the command was refused, or it failed.
    """
    with reporting_errors(context):
        ending = file.rpartition(".")[2].lower()
        kind = kind or {"jsonl": "json", "ndjson": "json"}.get(ending, ending)
        if kind not in FORMATS:
            raise InvalidOptionError(
                f"The ending of {file!r} names no format", hint="Give --format parquet, csv or json."
            )
        options = {"pyhudi.condition.timezone": zone} if zone else None
        scan = open_table(location, storage_options, options).scan(columns or None, where, as_of, meta=False)
        folder, _, name = file.rpartition("/")
        rows = _write(
            scan, folder or ("/" if file.startswith("/") else "."), name, kind, storage_options, overwrite=overwrite
        )
    click.echo(json.dumps({"rows": rows, "file": file}) if as_json else f"{rows:,} rows in {file}")


def _write(scan: Scan, folder: str, name: str, kind: str, options: dict[str, str], *, overwrite: bool) -> int:
    """Write the rows, and return their number.

    Raises `InvalidOptionError` for an existing file, and `DataError` for columns that do not fit the format.
    """
    storage = open_storage(folder, options)
    if storage.head(name) is not None and not overwrite:
        raise InvalidOptionError("The file is there already", path=name, hint="Give another name, or --overwrite.")
    if kind == "csv":
        for field in scan.schema:
            if pa.types.is_nested(field.type) or is_bytes(field.type):
                what = "nested" if pa.types.is_nested(field.type) else str(field.type)
                hint = "Leave it out by --column, or export Parquet or JSON."
                raise DataError(f"Column {field.name} is {what}, and a CSV file has no place for it", hint=hint)
    out = storage.open_output(name)
    try:
        rows = _FORMS[kind](scan.schema, scan.to_batches(), out.stream)
        out.close()
    except BaseException:
        out.abort()
        raise
    return rows


def _by_arrow(writer_type: Any, schema: pa.Schema, batches: Iterator[pa.RecordBatch], stream: IO[bytes]) -> int:
    rows = 0
    with writer_type(stream, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
            rows += len(batch)
    return rows


def _json(schema: pa.Schema, batches: Iterator[pa.RecordBatch], stream: IO[bytes]) -> int:
    """Write an object on each line. Arrow has no writer of JSON, so this is the one loop over rows."""
    rows = 0
    for batch in batches:
        lines = [json_text(row, plain=_plain, ascii_only=False) + "\n" for row in batch.to_pylist()]
        stream.write("".join(lines).encode())
        rows += len(batch)
    return rows


def _plain(value: Any) -> str:
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


_FORMS: dict[str, Callable[[pa.Schema, Iterator[pa.RecordBatch], IO[bytes]], int]] = {
    "parquet": partial(_by_arrow, pq.ParquetWriter),
    "csv": partial(_by_arrow, pa_csv.CSVWriter),
    "json": _json,
}
