"""What the tests of indexing share: a table whose metadata table lists its files, and a write between the two phases of a build."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import pytest

import pyhudi_core as hudi
from pyhudi_core.write.first_metadata.metadata_first_files import FirstFiles
from support.metadata_tables import SCHEMA, rows
from support.tables import create_plain

SMALL = {"hoodie.metadata.record.index.min.filegroup.count": 2, "pyhudi.commit.retries": 1}


def made(kind: str = "cow", location: str = "", **options: object) -> hudi.HudiTable:
    """A table with 40 rows, whose metadata table lists its files."""
    place = location or f"memory://{uuid.uuid4().hex}/t"
    table = create_plain(place, SCHEMA, "id", "day", ordering="ts", table_type=kind, options={**SMALL, **options})
    table.insert(rows(0, 30))
    table.upsert(rows(20, 40))
    table.metadata_table.create(["files"])
    return table


def beside(monkeypatch: pytest.MonkeyPatch, write: Callable[[], object]) -> None:
    """Write once between the phases: the partitions are listed as being built, and their base files are not there yet."""
    staged = FirstFiles.staged_base

    def writing(self: FirstFiles, first: object) -> object:
        monkeypatch.setattr(FirstFiles, "staged_base", staged)
        write()
        return staged(self, first)  # type: ignore[arg-type]

    monkeypatch.setattr(FirstFiles, "staged_base", writing)
