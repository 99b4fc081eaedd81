"""What the tables of contestants take on the disk."""

from __future__ import annotations

from pathlib import Path

from benchmarks.workload import HOME

ICEBERG = HOME / "iceberg" / "db"
"""Iceberg's catalog keeps its tables here, by the names of the folders that the others use."""


def bytes_of(table: str) -> int:
    """The sizes of all files of a table, those of older versions included."""
    folders = [folder for folder in (Path(table), ICEBERG / Path(table).name) if folder.is_dir()]
    return sum(path.stat().st_size for folder in folders for path in folder.rglob("*") if path.is_file())
