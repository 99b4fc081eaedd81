"""Compaction and clustering in this process beside the same work by pyarrow alone, and the plan of a clean.

Seconds are processor time of the process (user and system, all threads), so that other work on the machine counts little. Tables take turns with the
bare work on the same files.

- compaction: a merge-on-read table, whose logs have new versions of 30 % of its rows. Bare: each base file is read, its rows are replaced by those
  of a plain Parquet file with the same new versions, and it is written again with the same codec and row groups.
- clustering: small files in the order of arrival become one sorted file for each partition. Bare: the files are read, sorted, and written again.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import pyhudi_core as hudi
from benchmarks import workload
from benchmarks.limit import _codec, current_base_files
from benchmarks.sections import Say
from benchmarks.workload import HOME

SHARE = 0.3
BATCHES = 4
SORTED_BY = "price"
_KEY = "_hoodie_record_key"


def services(rows: int, rounds: int, say: Say) -> dict[str, Any]:
    """Seconds of each round, by service, of pyhudi and of the bare work."""
    seconds: dict[str, dict[str, list[float]]] = {}
    for number in range(rounds + 1):
        for service, measure in (("compaction", _compaction), ("clustering", _clustering)):
            for who, taken in measure(rows).items():
                say(f"services, round {number}: {service}, {who} {taken:.2f} s of processor time")
                if number:
                    seconds.setdefault(service, {}).setdefault(who, []).append(taken)
    return {"size": rows, "share_in_logs": SHARE, "seconds": seconds}


def _compaction(rows: int) -> dict[str, float]:
    table = _table("compaction", "MERGE_ON_READ", {})
    numbers = np.arange(rows)
    table.bulk_insert(workload.rows(numbers, 0))
    changed = np.sort(np.random.default_rng(5).choice(rows, int(rows * SHARE), replace=False))
    table.upsert(workload.rows(changed, 1))
    newer = HOME / "newer.parquet"
    pq.write_table(table.scan(columns=[*_meta(), *workload.SCHEMA.names], where="ts = 1700000000001").to_arrow(), newer)
    bare = _seconds(lambda: _merge_and_rewrite(Path(table.location), newer))
    again = hudi.open_table(table.location)
    ours = _seconds(lambda: _done(again.compaction.run()))
    assert hudi.open_table(table.location).scan(columns=["id"], where="ts = 1700000000001").count() == len(changed)
    return {"pyarrow alone": bare, "pyhudi": ours}


def _clustering(rows: int) -> dict[str, float]:
    table = _table("clustering", "COPY_ON_WRITE", {"hoodie.parquet.small.file.limit": 0})
    for batch in np.array_split(np.arange(rows), BATCHES):
        table.insert(workload.rows(batch, 0))
    bare = _seconds(lambda: _sort_and_write(Path(table.location)))
    options = {"hoodie.clustering.plan.strategy.sort.columns": SORTED_BY}
    again = hudi.open_table(table.location, options=options)
    ours = _seconds(lambda: _done(again.clustering.run()))
    assert hudi.open_table(table.location).scan(columns=["id"]).count() == rows
    return {"pyarrow alone": bare, "pyhudi": ours}


def _merge_and_rewrite(location: Path, newer: Path) -> None:
    target = _emptied(HOME / "bare")
    new = pq.read_table(newer)
    for number, path in enumerate(current_base_files(str(location))):
        source = pq.ParquetFile(path)
        old = source.read()
        found = pc.index_in(old[_KEY], value_set=new[_KEY].combine_chunks())
        places = np.where(
            found.is_valid().to_numpy(), pc.fill_null(found, 0).to_numpy() + len(old), np.arange(len(old))
        )
        whole = pa.concat_tables([old, new.select(old.column_names).cast(old.schema)]).combine_chunks()
        _write(whole.take(pa.array(places)), target / f"{number}.parquet", path)


def _sort_and_write(location: Path) -> None:
    target = _emptied(HOME / "bare")
    folders: dict[Path, list[Path]] = {}
    for path in current_base_files(str(location)):
        folders.setdefault(path.parent, []).append(path)
    for number, paths in enumerate(folders.values()):
        whole = pa.concat_tables([pq.ParquetFile(path).read() for path in paths])
        _write(whole.sort_by(SORTED_BY), target / f"{number}.parquet", paths[0])


def _write(rows: pa.Table, target: Path, like: Path) -> None:
    groups = pq.ParquetFile(like).metadata.row_group(0).num_rows
    pq.write_table(rows, target, row_group_size=groups, **_codec(like))


def _meta() -> list[str]:
    return ["_hoodie_commit_time", "_hoodie_commit_seqno", _KEY, "_hoodie_partition_path", "_hoodie_file_name"]


def _table(name: str, kind: str, options: dict[str, object]) -> hudi.HudiTable:
    made = _emptied(HOME / "tables" / f"services_{name}")
    return hudi.create_table(
        str(made),
        schema=workload.SCHEMA,
        record_key=workload.KEY,
        partition_by=[workload.PARTITION],
        ordering=workload.ORDERING,
        table_type=kind,
        storage_options={"fsync": "false"},
        options=options,
    )


def _emptied(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def _done(result: object) -> None:
    if not result:
        raise RuntimeError(f"there was nothing to do: {result}")


def _seconds(work: Callable[[], None]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began
