"""The other end of `judge.py`: starts a judge, sends it commands, and compares what it says, row for row.

A comparison takes the columns of the expected table, casts nothing but what Parquet itself leaves open (list
element names, large strings, decimal width), sorts both sides by key and asks for equality of every value.
Nothing is rounded.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyarrow as pa
import pyarrow.parquet as pq

ROOT = Path(__file__).resolve().parents[2]
PYTHON = ROOT / ".interop" / "venv" / "bin" / "python"
META_COLUMNS = (
    "_hoodie_commit_time",
    "_hoodie_commit_seqno",
    "_hoodie_record_key",
    "_hoodie_partition_path",
    "_hoodie_file_name",
)


Judges = Callable[[str], "JudgeProcess"]
"""Gives the judge of a release."""


class JudgeError(AssertionError):
    """What the judge answered when it could not do what it was asked."""


@dataclass
class JudgeProcess:
    """One running judge; use it as a context manager.

    `release` is a version of Hudi's Spark bundle, or `hudi-rs`; `log` takes all that it prints.
    """

    release: str
    log: Path
    _process: subprocess.Popen[str] = field(init=False)
    _scratch: tempfile.TemporaryDirectory[str] = field(init=False)
    _count: int = field(init=False, default=0)

    def __enter__(self) -> Self:
        self._scratch = tempfile.TemporaryDirectory(prefix="interop-")
        command = [str(PYTHON), str(Path(__file__).with_name("judge.py")), self.release]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(command, stdin=-1, stdout=-1, stderr=log, text=True)
        self._reply()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process.stdin:
            self._process.stdin.close()
        try:
            self._process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._scratch.cleanup()

    @property
    def writes(self) -> bool:
        """Whether this judge can write at all."""
        return self.release != "hudi-rs"

    @property
    def stays_exclusive(self) -> bool:
        """Whether the begin of an incremental read is left out (release 1.0.2 takes it in)."""
        return self.release != "1.0.2"

    def read(self, table: Path, **options: str) -> pa.Table:
        """All rows that this judge sees, meta columns included."""
        self._count += 1
        out = Path(self._scratch.name) / f"rows-{self._count}"
        columns = self._ask(do="read", table=str(table), options=options, out=str(out))["columns"]
        if not columns:
            return pa.table({})
        return pq.ParquetDataset(out).read(columns=columns) if pq.ParquetDataset(out).files else pa.table({})

    def files_scanned(self, table: Path, condition: str, **options: str) -> int:
        """How many files Spark scans for a condition, by the metrics of its plan. File slices of merge-on-read tables count as one file."""
        found: int = self._ask(do="files", table=str(table), options=options | {"condition": condition})["files"]
        return found

    def read_as_of(self, table: Path, instant: str) -> pa.Table:
        """Time travel to a begin time."""
        return self.read(table, **{"as.of.instant": instant})

    def read_since(self, table: Path, begin: str) -> pa.Table:
        """Incremental read of what completed after `begin` (release 1.0.2: at or after)."""
        kind = {
            "hoodie.datasource.query.type": "incremental",
            "hoodie.datasource.read.begin.instanttime": begin,
        }
        return self.read(table, **kind)

    def write(
        self,
        table: Path,
        rows: pa.Table,
        operation: str,
        *,
        mode: str = "append",
        **options: str,
    ) -> None:
        """Hudi's own DataFrame write of `rows` (operation: upsert, insert, delete, insert_overwrite, ...)."""
        self._count += 1
        data = Path(self._scratch.name) / f"data-{self._count}.parquet"
        pq.write_table(rows, data)
        chosen = {"hoodie.datasource.write.operation": operation} | options
        self._ask(do="write", table=str(table), data=str(data), options=chosen, mode=mode)

    def write_each(
        self, table: Path, batches: Sequence[pa.Table], attempts: int, **options: str
    ) -> list[dict[str, Any]]:
        """Hudi's own upsert of each batch, one commit after the other; returns what it was told of each: ok, conflicts, taken, error."""
        files = []
        for batch in batches:
            self._count += 1
            files.append(str(Path(self._scratch.name) / f"data-{self._count}.parquet"))
            pq.write_table(batch, files[-1])
        chosen = {"hoodie.datasource.write.operation": "upsert"} | options
        told: list[dict[str, Any]] = self._ask(
            do="each", table=str(table), data=files, options=chosen, attempts=attempts
        )["told"]
        return told

    def sql(self, text: str) -> list[list[str]]:
        """One statement of Spark SQL with Hudi's extensions; the rows as text."""
        rows: list[list[str]] = self._ask(do="sql", table="", text=text)["rows"]
        return rows

    @contextmanager
    def settings(self, values: Mapping[str, str]) -> Iterator[None]:
        """In the block, the session of Spark has these settings."""
        for key, value in values.items():
            self.sql(f"SET {key}={value}")
        try:
            yield
        finally:
            for key in values:
                self.sql(f"RESET {key}")

    def schedule_indexing(self, table: Path, name: str, schema: str, partitions: Sequence[str], **options: str) -> str:
        """Hudi plans to build partitions of the metadata table of the table of this name and Avro schema; the requested time of the plan."""
        given = {"name": name, "schema": schema, "options": options, "partitions": list(partitions)}
        planned: str = self._ask(do="index", table=str(table), **given)["instant"]
        return planned

    def execute_indexing(self, table: Path, name: str, schema: str, instant: str, **options: str) -> bool:
        """Hudi executes a planned indexing; whether it says that it did."""
        given = {"name": name, "schema": schema, "options": options, "instant": instant}
        done: bool = self._ask(do="index", table=str(table), **given)["done"]
        return done

    def timeline_files(self, table: Path) -> list[str]:
        """The file names on the active timeline, sorted."""
        files: list[str] = self._ask(do="timeline", table=str(table))["files"]
        return files

    def _ask(self, **command: Any) -> dict[str, Any]:
        if not self._process.stdin:
            raise JudgeError(f"judge {self.release} is closed")
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()
        reply = self._reply()
        if not reply.get("ok"):
            raise JudgeError(
                f"Hudi {self.release} could not {command['do']} {command.get('table') or command.get('text')}: {reply.get('error')}"
            )
        return reply

    def _reply(self) -> dict[str, Any]:
        line = self._process.stdout.readline() if self._process.stdout else ""
        if not line:
            raise JudgeError(f"judge {self.release} ended with {self._process.wait()}; see {self.log}")
        reply: dict[str, Any] = json.loads(line)
        return reply


def assert_same_rows(
    actual: pa.Table,
    expected: pa.Table,
    *,
    by: list[str],
    columns: list[str] | None = None,
) -> None:
    """Fails unless both tables hold the same rows, compared exactly, in any order.

    `by` names columns that identify a row; `columns` limits the comparison (default: the columns of `expected`).
    """
    names = columns or expected.column_names
    missing = [name for name in names if name not in actual.column_names]
    assert not missing, f"columns {missing} are missing; there are {actual.column_names}"
    left, right = _normal(actual, names, by), _normal(expected, names, by)
    assert left.num_rows == right.num_rows, f"{left.num_rows} rows, expected {right.num_rows}"
    for name in names:
        mine, theirs = left[name].to_pylist(), right[name].to_pylist()
        different = [row for row, pair in enumerate(zip(mine, theirs, strict=True)) if not _equal(*pair)]
        assert not different, _difference(left, right, name, by, different)


def _normal(table: pa.Table, names: list[str], by: list[str]) -> pa.Table:
    """The named columns, sorted by the key columns."""
    order = [(name, "ascending") for name in by]
    wanted = list(dict.fromkeys([*by, *names]))
    return table.select(wanted).sort_by(order)


def _equal(mine: Any, theirs: Any) -> bool:
    """Equality of two Python values; NaN equals NaN, and 0.0 differs from -0.0 as it does in a file."""
    if isinstance(mine, float) and isinstance(theirs, float):
        return repr(mine) == repr(theirs)
    if isinstance(mine, list) and isinstance(theirs, list):
        return len(mine) == len(theirs) and all(_equal(*pair) for pair in zip(mine, theirs, strict=True))
    if isinstance(mine, tuple) and isinstance(theirs, tuple):
        return len(mine) == len(theirs) and all(_equal(*pair) for pair in zip(mine, theirs, strict=True))
    if isinstance(mine, dict) and isinstance(theirs, dict):
        return mine.keys() == theirs.keys() and all(_equal(mine[key], theirs[key]) for key in mine)
    return bool(mine == theirs) and type(mine) is type(theirs)


def _difference(left: pa.Table, right: pa.Table, name: str, by: list[str], rows: list[int]) -> str:
    first = rows[0]
    key = {column: left[column][first].as_py() for column in by}
    found, wanted = left[name][first].as_py(), right[name][first].as_py()
    return f"column {name} differs in {len(rows)} rows; first at {key}: {found!r}, expected {wanted!r}"
