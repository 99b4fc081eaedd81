"""Readers of Iceberg that know nothing of Hudi: pyiceberg in this process, DuckDB in another one."""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.table import StaticTable


def iceberg_table(folder: str) -> StaticTable:
    """The table as pyiceberg finds it: by the hint."""
    hint = (Path(folder) / "metadata" / "version-hint.text").read_text()
    return StaticTable.from_metadata(f"{folder}/metadata/v{hint}.metadata.json")


def iceberg_rows(folder: str, snapshot_id: int | None = None, **scan: Any) -> list[dict[str, Any]]:
    """The rows that pyiceberg reads, sorted."""
    return in_order(iceberg_table(folder).scan(snapshot_id=snapshot_id, **scan).to_arrow())


def column_ids(folder: str) -> dict[str, int]:
    """The ids of the columns, by name. No name of the mapping means two columns, for no reader could tell them apart."""
    table = iceberg_table(folder)
    ids = {field.name: field.field_id for field in table.schema().fields}
    mapping = table.name_mapping()
    assert mapping is not None
    names = [name for field in mapping.root for name in field.names]
    assert len(names) == len(set(names)), names
    assert {name: field.field_id for field in mapping.root for name in field.names if name in ids} == ids
    return ids


def in_order(table: pa.Table) -> list[dict[str, Any]]:
    """The rows, in an order that does not depend on files."""
    return sorted(table.to_pylist(), key=repr)


class DuckDb:
    """A DuckDB that reads Iceberg; ``python``: of an environment with DuckDB and the extension."""

    def __init__(self, python: Path, scratch: Path) -> None:
        script = Path(__file__).with_name("duckdb_iceberg.py")
        self._process = subprocess.Popen([str(python), str(script)], stdin=-1, stdout=-1, text=True)
        self._target = scratch / "rows.parquet"

    def rows(self, folder: str) -> list[dict[str, Any]]:
        """All rows of a table, sorted."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{folder}\t{self._target}\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline().strip()
        assert not answer, answer
        return in_order(pq.read_table(self._target))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate(timeout=60)
