"""Planning over many files: a golden table of Hudi whose metadata table is changed to list the requested number of files.

The files do not exist; planning does not read them. Their instants are archived, so every file is valid.
"""

from __future__ import annotations

import io
import json
import shutil
import time
import uuid
import zipfile
from pathlib import Path
from typing import Any

import fastavro

import pyhudi_core as hudi
from benchmarks.sections import Say
from benchmarks.workload import HOME, ROOT
from pyhudi_core.formats.hfile.writer import HFileWriter
from pyhudi_core.metadata_table import names
from pyhudi_core.metadata_table.reader import MetadataTable
from pyhudi_core.metadata_table.slices import everything
from pyhudi_core.storage.local import LocalStorage
from pyhudi_core.timeline.active import TimelineFolder

GOLDEN = ROOT / "tests" / "golden" / "fixtures" / "hudi-1.0.2" / "cow_archived" / "table.zip"
PARTITIONS = 100


def planning(files: int, rounds: int, say: Say) -> dict[str, Any]:
    """Seconds to open the table and to choose the files of a scan: of the whole table, and of one partition."""
    location = made(files)
    seconds: dict[str, list[float]] = {"whole table": [], "one partition": []}
    for number in range(rounds + 1):
        for name, where in (("whole table", None), ("one partition", "region = 'p007'")):
            started = time.perf_counter()
            chosen = len(hudi.open_table(str(location)).scan(where=where).slices())
            taken = time.perf_counter() - started
            say(f"planning, round {number}: {name}, {chosen:,} files {taken:.3f} s")
            if number:
                seconds[name].append(taken)
    return {"files": files, "seconds": seconds}


def made(files: int) -> Path:
    """A new copy of the table."""
    location = HOME / "tables" / f"planning_{files}"
    shutil.rmtree(location, ignore_errors=True)
    with zipfile.ZipFile(GOLDEN) as archive:
        archive.extractall(location)
    storage = LocalStorage(str(location), fsync=False)
    data = TimelineFolder(storage, ".hoodie/timeline")
    table = MetadataTable.open(data.load(), data, (names.FILES,))
    schema = next(a.schema for p in table.slices.pieces(names.FILES) for a in table.slices.arrivals(p, everything))
    entries = _entries(table.scan(names.FILES), files, hudi.open_table(str(location)).timeline.first_write or "")
    parsed, writer = fastavro.parse_schema(json.loads(schema)), HFileWriter(schema)
    for key in sorted(entries, key=str.encode):
        body = io.BytesIO()
        fastavro.schemaless_writer(body, parsed, entries[key])
        writer.add(key.encode(), body.getvalue())
    folder = location / names.FOLDER / names.FILES
    for path in folder.iterdir():
        if not path.name.startswith(".hoodie_partition_metadata"):
            path.unlink()
    newest = max(instant.requested_time for instant in table.slices.own)
    (folder / f"files-0000-0_0-0-0_{newest}.hfile").write_bytes(writer.finish())
    return location


def _entries(known: dict[str, Any], files: int, first_write: str) -> dict[str, Any]:
    """The entries of the list with this number of additional files, in separate partitions."""
    partitions = dict(known[names.ALL_PARTITIONS])
    listed = dict(partitions["filesystemMetadata"])
    archived = str(int(first_write) - 1)
    entries = dict(known)
    for number in range(PARTITIONS):
        name = f"p{number:03d}"
        listed[name] = {"size": 0, "isDeleted": False}
        found = {
            f"{uuid.UUID(int=number * files + n)}-0_{n}-1-1_{archived}.parquet": {
                "size": 120_000_000,
                "isDeleted": False,
            }
            for n in range(files // PARTITIONS)
        }
        entries[name] = {**partitions, "key": name, "type": 2, "filesystemMetadata": found}
    entries[names.ALL_PARTITIONS] = {**partitions, "filesystemMetadata": listed}
    return entries
