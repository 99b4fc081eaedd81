"""Writers in separate processes. Each commit has its own row, and every tenth commit also adds one to a shared counter.

The row and the counter travel in one commit, so a table shows whether anything was lost, doubled or torn: the counter must equal the number
of visible rows that say they moved it. Each writer keeps a journal beside the table (`try` before a commit, `ack` after it), which outlives a
SIGKILL.
"""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import secrets
import signal
import time
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pyarrow as pa
from support.tables import create_plain

import pyhudi_core as hudi
from pyhudi_core.errors import CommitConflictError, CommitStateUnknownError, SnapshotExpiredError

SCHEMA = pa.schema([("id", pa.string()), ("part", pa.string()), ("n", pa.int64()), ("moved", pa.bool_())])
COUNTER = "counter"
OPTIONS = {
    "hoodie.index.bloom.num_entries": 100,
    "hoodie.bloom.index.filter.dynamic.max.entries": 100,
    "pyhudi.commit.retries": 1000,
}

PROCESSES = multiprocessing.get_context("forkserver")
"""Starts the processes of these tests. What they use is loaded once: `pyhudi_core` itself loads its modules when they are used."""
PROCESSES.set_forkserver_preload(["pyhudi_core.opening", "pyhudi_core.services.registry", "reliability.soak_processes"])


@dataclass(frozen=True, slots=True)
class Job:
    """The work of one writer.

    Attributes:
        location, storage_options, options: the table, as `open_table` takes them.
        writer: its number; rows are called ``<writer>-<n>``.
        journal: folder for the journals.
        first, last: it writes the rows ``first <= n < last``.
        apart: every writer has a partition of its own (the counter always has one); else all share one.
        every: each how-manieth commit moves the counter; 0 for none.
    """

    location: str
    writer: int
    journal: str
    first: int = 0
    last: int = 100
    apart: bool = True
    every: int = 10
    storage_options: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, object] = field(default_factory=dict)

    def row(self, n: int) -> dict[str, object]:
        """The row of commit ``n``."""
        part = f"w{self.writer}" if self.apart else "all"
        return {"id": f"{self.writer}-{n}", "part": part, "n": n, "moved": bool(self.every) and n % self.every == 0}

    def open(self) -> hudi.HudiTable:
        return hudi.open_table(self.location, dict(self.storage_options), dict(self.options))


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of a journal: ``try`` (with the attempt's token) or ``ack``, and for `ack` what the commit reported."""

    kind: str
    row: str
    token: str
    retries: int = 0
    lock_wait: float = 0.0
    lock_held: float = 0.0
    at: float = 0.0


def make_table(
    location: str, storage_options: Mapping[str, str], options: Mapping[str, object], table_type: str = "copy_on_write"
) -> hudi.HudiTable:
    """A new table for the writers, with the counter at 0."""
    given = {"storage_options": dict(storage_options), "options": dict(options), "table_type": table_type}
    table = create_plain(location, SCHEMA, "id", partition_by="part", **given)  # type: ignore[arg-type]
    table.upsert(_rows({"id": COUNTER, "part": COUNTER, "n": 0, "moved": False}))
    return table


def start(job: Job) -> BaseProcess:
    """Start a writer."""
    process = PROCESSES.Process(target=work, args=(job,), name=f"{job.journal}/{job.writer}")
    process.start()
    return process


def end_of(process: BaseProcess) -> str:
    """Say how a process of `start` has ended; empty if all is well.

    Its standard output is that of the first test which started a process, so pytest does not show it with the test that fails.
    """
    if process.exitcode == 0:
        return ""
    path = Path(f"{process.name}.{process.pid}.error")
    why = path.read_text() if path.exists() else "it says no reason: the system or a signal ended it"
    return f"writer {process.name} ended with {process.exitcode}: {why}"


def finish(processes: Sequence[BaseProcess], seconds: float) -> None:
    """Wait for the writers. All must end without an error."""
    until = time.monotonic() + seconds
    for process in processes:
        process.join(max(0.0, until - time.monotonic()))
    late = [process for process in processes if process.is_alive()]
    for process in late:
        with suppress(ProcessLookupError):
            os.kill(process.pid or 0, signal.SIGUSR1)  # says where it stands, see `work`
    time.sleep(1 if late else 0)
    for process in late:
        process.kill()
        process.join()
    assert not late, f"{len(late)} writers did not end within {seconds:g} s; where they stood is in their output"
    ends = [end_of(process) for process in processes]
    assert not any(ends), "\n".join(ends)


def work(job: Job) -> None:
    """The main function of a writer's process. An error is left beside the journal, see `end_of`."""
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    try:
        _work(job)
    except BaseException:
        path = Path(job.journal, f"{job.writer}.{os.getpid()}.error")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(traceback.format_exc())
        raise


def _work(job: Job) -> None:
    table = job.open()
    journal = Journal(Path(job.journal, f"{job.writer}.log"))
    for n in range(job.first, job.last):
        row = job.row(n)
        if row["moved"]:
            _move_counter(table, row, journal)
        else:
            _write(table, row, journal)


def _write(table: hudi.HudiTable, row: dict[str, Any], journal: Journal) -> None:
    """Make one commit; on a conflict it is planned again."""
    with table.begin("upsert") as write:
        try:
            write.write(_rows(row))
        except CommitConflictError as conflict:  # an index came or went at the same time
            _again(write, conflict)
        _commit(table, write, row, journal)


def _move_counter(table: hudi.HudiTable, row: dict[str, Any], journal: Journal) -> None:
    """Read the counter and write its value plus one; read again if another commit changed it, or a clean removed its file, in the meantime."""
    for attempt in range(1000):
        with suppress(CommitConflictError, SnapshotExpiredError), table.begin("upsert") as write:
            read = write.scan(["n"], f"id = '{COUNTER}'").to_arrow()["n"][0].as_py()
            write.write(_rows(row, {"id": COUNTER, "part": COUNTER, "n": read + 1, "moved": False}))
            return _commit(table, write, row, journal, attempt)
        time.sleep(secrets.randbelow(20 * 2 ** min(attempt, 6) + 1) / 1000)
    raise AssertionError("1000 conflicts")


def _commit(table: hudi.HudiTable, write: hudi.Write, row: dict[str, Any], journal: Journal, before: int = 0) -> None:
    while True:
        journal.tried(row, str(write.token))
        try:
            commit = write.commit()
            return journal.acknowledged(row, commit, before + commit.retries)
        except CommitConflictError as conflict:
            _again(write, conflict)
        except CommitStateUnknownError as unknown:
            if table.commit_status(unknown.token) is hudi.CommitStatus.COMMITTED:
                return journal.acknowledged(row, None, before, unknown.token)
            raise


def _again(write: hudi.Write, conflict: CommitConflictError) -> None:
    """Write again; as often as an index comes or goes meanwhile. Raises the conflict if `Write.again` does not help."""
    while True:
        try:
            return write.again(conflict)
        except CommitConflictError as another:
            if another is conflict:
                raise
            conflict = another


def _rows(*rows: dict[str, Any]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=SCHEMA)


class Journal:
    """Appends lines. A line survives a SIGKILL as soon as the call returns."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def tried(self, row: Mapping[str, Any], token: str) -> None:
        self._say("try", row["id"], token)

    def acknowledged(self, row: Mapping[str, Any], commit: hudi.Commit | None, attempt: int, token: str = "") -> None:
        figures = (0.0, 0.0) if commit is None else (commit.lock_wait, commit.lock_held)
        self._say("ack", row["id"], commit.token if commit else token, attempt, *figures, time.time())

    def _say(self, *words: object) -> None:
        os.write(self._file, ("\t".join(map(str, words)) + "\n").encode())


def journals(folder: str | Path) -> list[Entry]:
    """All entries of the writers; an incomplete last line (after SIGKILL) is ignored."""
    found: list[Entry] = []
    for path in sorted(Path(folder).glob("*.log")):
        for line in path.read_text().splitlines():
            words = line.split("\t")
            if words[0] == "try" and len(words) == 3:
                found.append(Entry(*words))
            elif words[0] == "ack" and len(words) == 7:
                found.append(Entry(*words[:3], int(words[3]), *map(float, words[4:])))
    return found


@dataclass(frozen=True, slots=True)
class Verdict:
    """The comparison of a table with its journals.

    Attributes:
        rows: rows of the writers in the table.
        acknowledged: commits whose writer was told that they succeeded.
        unheard: commits that are there although their writer was killed before it heard so.
        given_up: rows that were tried, by a writer that was killed, and are not there.
        counter: the shared counter.
        retries: attempts beyond the first, of all acknowledged commits.
    """

    rows: int
    acknowledged: int
    unheard: int
    given_up: int
    counter: int
    retries: int

    def figures(self) -> dict[str, int]:
        return asdict(self)


def judge(table: hudi.HudiTable, entries: Sequence[Entry]) -> Verdict:
    """Check that no commit is lost, duplicated or incomplete."""
    rows = table.scan(columns=["id", "n", "moved"]).to_arrow().to_pylist()
    ids = [row["id"] for row in rows]
    assert len(ids) == len(set(ids)), f"{len(ids) - len(set(ids))} keys are there twice"
    counter = next(row["n"] for row in rows if row["id"] == COUNTER)
    seen = {row["id"] for row in rows} - {COUNTER}
    acks = [entry for entry in entries if entry.kind == "ack"]
    acknowledged = {entry.row for entry in acks}
    tried = {entry.row for entry in entries if entry.kind == "try"}
    assert acknowledged <= seen, f"acknowledged and lost: {sorted(acknowledged - seen)[:5]}"
    assert seen <= tried, f"rows that nobody wrote: {sorted(seen - tried)[:5]}"
    moved = sum(bool(row["moved"]) for row in rows)
    assert counter == moved, f"the counter says {counter}, {moved} commits moved it"
    retries = sum(entry.retries for entry in acks)
    return Verdict(len(seen), len(acks), len(seen - acknowledged), len(tried - seen), counter, retries)
