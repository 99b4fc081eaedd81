"""Small tables for tests, written without fsync and read as plain rows."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any
from unittest.mock import patch

import pyarrow as pa

import pyhudi_core as hudi
from pyhudi_core.formats.avro.container import decode_record
from pyhudi_core.model.instant import Instant

FAST = {"fsync": "false"}
WITHOUT_METADATA_TABLE = {"hoodie.metadata.enable": False}

ORDERS = pa.schema([("id", pa.int64()), ("day", pa.string()), ("price", pa.float64()), ("ts", pa.int64())])


def in_memory() -> str:
    """A place in memory that no other test has. A constant one exists already when an order of tests makes the fixture of a module again."""
    return f"memory://{uuid.uuid4().hex}/t"


def create_plain(
    location: str, *arguments: Any, options: Mapping[str, object] | None = None, **more: Any
) -> hudi.HudiTable:
    """A new table without a metadata table, unless the options say so: for tests of something else, as its making and its commits take time."""
    return hudi.create_table(location, *arguments, options={**WITHOUT_METADATA_TABLE, **(options or {})}, **more)


def make(
    location: str, schema: pa.Schema = ORDERS, record_key: str | Sequence[str] = "id", **arguments: Any
) -> hudi.HudiTable:
    """A new table with `partition_by="day"` and without a metadata table, unless the test passes something else."""
    arguments.setdefault("partition_by", "day" if "day" in schema.names else ())
    return create_plain(location, schema, record_key, storage_options=FAST, **arguments)


def make_inside(location: str, **arguments: Any) -> hudi.HudiTable:
    """A new table in the folder of another one, as programs make it that do not refuse this."""
    with patch("pyhudi_core.opening.refuse_inside"):
        return make(location, **arguments)


def make_around(location: str, *arguments: Any, **more: Any) -> hudi.HudiTable:
    """A new table in a folder that has tables already, as programs make it that do not refuse this."""
    with patch("pyhudi_core.opening.refuse_remains"):
        return hudi.create_table(location, *arguments, **more)


def reopen(table: hudi.HudiTable, **options: object) -> hudi.HudiTable:
    """Another handle of the same table with its own options; dots in keys are written as double underscores."""
    return hudi.open_table(
        table.location, storage_options=FAST, options={k.replace("__", "."): v for k, v in options.items()}
    )


def archive_all_but_the_newest(table: hudi.HudiTable, data: pa.Table) -> None:
    """Upsert the rows until archival keeps only these commits on the active timeline, and run it."""
    before = table.timeline.commits
    for _ in range(6):
        table.upsert(data)
    options = {"hoodie__keep__min__commits": 2, "hoodie__keep__max__commits": 3, "hoodie__clean__commits__retained": 1}
    reopen(table, **options).archival.run()
    assert not set(before) & set(table.timeline.commits), "the commits before are archived"


def orders(*rows: tuple[Any, ...]) -> pa.Table:
    """Rows (id, day, price, ts). Missing values at the end are null, except the day, which is "a"."""
    filled = [(*row, *(None, "a", None, None)[len(row) :]) for row in rows]
    columns = list(zip(*filled, strict=True)) or [()] * 4
    return pa.table(
        [pa.array(column, field.type) for column, field in zip(columns, ORDERS, strict=True)], schema=ORDERS
    )


def rows(source: Any, *columns: str, by: str | None = None) -> list[tuple[Any, ...]]:
    """The rows of a table, a scan or an Arrow table as sorted tuples of the given columns."""
    found = source.scan(columns=columns or None) if isinstance(source, hudi.HudiTable) else source
    table = found if isinstance(found, pa.Table) else found.to_arrow()
    chosen = table.select(list(columns)) if columns else table
    tuples = [tuple(row.values()) for row in chosen.to_pylist()]
    return sorted(
        tuples,
        key=lambda row: (
            tuple((value is not None, str(type(value)), value) for value in row) if by is None else str(row)
        ),
    )


def timeline_names(table: hudi.HudiTable) -> list[str]:
    """The file names of the active timeline, each instant in its latest state."""
    return [instant.file_name() for instant in table.timeline]


def read_avro(table: hudi.HudiTable, instant: Instant, record: str) -> Mapping[str, Any]:
    """The record in a timeline file."""
    from pathlib import Path

    path = Path(table.location, ".hoodie", "timeline", instant.file_name())
    return decode_record(path.read_bytes(), record, path=str(path))
