"""Random walks over everything that a table can do: every verb and every table service, in any order, on tables of every form.

A walk is made from a number. It chooses the form of a table (its type, its keys, its indexes, its options), and applies operations to it. A
dictionary says which rows the table must have. After each operation, the rows are compared: now, by look-ups, by conditions, as of earlier commits,
and as changes since earlier commits. The doctor must find nothing.

An operation may be refused, for example by a clustering that is planned; then the table must be as it was. The walk counts refusals, so that a test
can see that they are few. With ``crashes``, the process vanishes at some storage call of an operation; the rows must be those from before or after.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from reliability.walk_forms import DAYS, Columns, Rows, changes, form_of
from reliability.walk_operations import Operations
from support.homes import StandingClock, home_at, runtime_with
from support.wrapping import WrappedStorage

import pyhudi_core as hudi
from pyhudi_core.errors import HudiError, SnapshotExpiredError
from pyhudi_core.opening import create_at, create_whole
from pyhudi_core.runtime.base import Runtime
from pyhudi_core.storage.base import Storage
from pyhudi_core.storage.memory import MemoryBucket, MemoryStorage

WRITES = ("put", "put_if_absent", "put_if_match", "delete", "delete_if_match", "delete_many", "open_output")


class Vanished(BaseException):
    """The process ends here."""


class Mortal(WrappedStorage):
    """A storage whose process vanishes at the n-th call that changes something, and makes no call after it."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self.left: int | None = None

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._storage, name)
        if name not in WRITES:
            return real

        def call(*arguments: Any, **named: Any) -> Any:
            if self.left is not None:
                self.left -= 1
                if self.left < 0:
                    raise Vanished
            return real(*arguments, **named)

        return call


@dataclass
class Walk(Operations):
    """One walk; ``log`` says what was done, to be read when something is wrong."""

    seed: int
    crashes: bool = False
    log: list[str] = field(default_factory=list)
    refusals: Counter[str] = field(default_factory=Counter)
    done: Counter[str] = field(default_factory=Counter)
    reads: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.draw = random.Random(self.seed)
        self.form = form_of(self.draw)
        self.clock = StandingClock()
        self.storage = Mortal(self.place())
        self.state: Rows = {}
        self.columns = self.columns_after = self.form.columns
        self.past: list[tuple[str, str, Rows, Columns]] = []
        self.held: list[tuple[Any, Rows, Columns]] = []
        self.table = self.handle(create=True)
        self.log.append(f"seed {self.seed}: {self.form}")

    def place(self) -> Storage:
        """Where the table is."""
        return MemoryStorage("memory://walk", MemoryBucket(), self.clock)

    def handle(self, create: bool = False) -> hudi.HudiTable:
        """A new handle of the table, as a new process has it."""
        home = home_at(self.storage, self.runtime(), self.columns.options(self.form.options))
        if create:
            partition_by = "day" if self.form.partitioned else ()
            ordering = "ts" if self.form.ordered else None
            # The record index comes with the table; any other metadata table with the first write.
            make = create_whole if self.form.options.get("hoodie.index.type") == "RECORD_INDEX" else create_at
            return make(home, self.columns.schema, "id", partition_by, ordering, self.form.table_type)
        return hudi.HudiTable(home)

    def runtime(self) -> Runtime:
        """What a new process is given."""
        return runtime_with(clock=self.clock)

    # --- a step

    def step(self) -> None:
        """One operation, and everything that must hold after it."""
        name = self.draw.choice(sorted(self.operations()))
        if self.draw.random() < 0.3:
            self.table = self.handle()
        self.columns_after = self.columns
        chosen = self.operations()[name]()
        if chosen is None:
            return
        act, after = chosen
        name = name.rstrip("234")
        before, then = (self.state, self.columns), (after, self.columns_after)
        vanish = self.crashes and self.draw.random() < 0.25
        self.storage.left = self.draw.randint(0, 40) if vanish else None
        self.log.append(f"{name}{' (vanishes)' if vanish else ''}: {changes(self.state, after)}")
        allowed = [then]
        try:
            result = act()
            self.log.append(f"   -> {str(result)[:300]}")
            self.done[name] += 1
        except HudiError as error:
            self.refusals[f"{name}: {type(error).__name__}: {error.message[:90]}"] += 1
            self.log.append(f"   refused: {type(error).__name__}: {str(error)[:400]}")
            allowed = [before]
        except Vanished:
            allowed = [before, then]
            self.log.append("   vanished")
        vanished, self.storage.left = self.storage.left is not None and self.storage.left < 0, None
        if vanished:
            allowed = [before, then]  # a service after the commit may have kept the end of the process to itself
            self.table = self.handle()
            self.clock.sleep(7200)
            self.table.failed_writes.run()
        if name in ("restore", "rollback_newest"):
            self.held.clear()
            self.past = [one for one in self.past if self.is_there(one[0])]
        self.check(allowed)
        if self.columns != before[1]:
            self.table = self.handle()
        self.remember()

    def is_there(self, requested: str) -> bool:
        return any(i.requested_time == requested for i in self.table.timeline.commits)

    def remember(self) -> None:
        commits = self.table.timeline.commits
        newest = max(commits, key=lambda i: i.completion_time or "", default=None)
        if newest is not None and newest.completion_time and newest.requested_time not in {one[0] for one in self.past}:
            self.past.append((newest.requested_time, newest.completion_time, self.state, self.columns))

    def check(self, allowed: list[tuple[Rows, Columns]]) -> None:
        schema = self.table.schema
        differ = []
        for rows, columns in allowed:
            if set(columns.schema) <= set(schema):
                found = self.rows(self.table.scan(columns=columns.names), columns)
                if found == rows:
                    self.state, self.columns = rows, columns
                    break
                differ.append(changes(rows, found))
        else:
            raise AssertionError(f"rows or columns differ: {differ}, {schema.names}, {[one[1] for one in allowed]}")
        self.check_more()

    def check_more(self) -> None:
        """What else must hold: all ways to read give the same rows, and the doctor is content."""
        self.check_reads()
        report = self.table.check()
        fine = ("info", "warning", "repairable") if self.crashes else ("info", "warning")
        bad = [finding for finding in report.findings if str(finding.severity) not in fine]
        self.log.extend(f"   finding {f}" for f in report.findings)
        assert not bad, bad

    def check_reads(self) -> None:
        """Other ways to read give the same rows."""
        price, columns = float(self.draw.randint(0, 9)), self.columns
        for where, fits in (
            (f"{columns.price} > {price}", lambda r: r[2] is not None and r[2] > price), ("day = 'b'", lambda r: r[0] == "b"),
            (f"{columns.note} = 'x'", lambda r: r[3] == "x"), (f"{columns.note} IS NULL", lambda r: r[3] is None), (f"lower({columns.note}) = 'x'", lambda r: r[3] == "x"),
        ):  # fmt: skip
            try:
                found = self.rows(self.table.scan(columns=columns.names, where=where))
            except HudiError as error:
                if where.startswith("lower"):
                    continue
                raise AssertionError(f"where {where}") from error
            wanted = {k: r for k, r in self.state.items() if fits(r)}
            assert found == wanted, f"where {where}: {changes(wanted, found)}"
        ids = self.draw.sample(range(14), 3)
        pairs = [(i, d) for i in ids for d in DAYS] if self.form.partitioned else [(i, "") for i in ids]
        keys = pa.table({"id": pa.array([p[0] for p in pairs], pa.int64()), "day": [p[1] for p in pairs]})
        if not self.form.partitioned:
            keys = keys.select(["id"])
        found = self.rows(self.table.lookup(keys, columns=columns.names))
        wanted = {k: r for k, r in self.state.items() if self.id_of(k) in ids}
        assert found == wanted, f"lookup: {changes(wanted, found)}"
        assert self.table.scan().count() == len(self.state), "count"
        if self.past:
            self.check_past(self.draw.choice(self.past))
        if self.held:
            hold, then, columns = self.draw.choice(self.held)
            found = self.rows(self.table.scan(columns=columns.names, as_of=hold.token), columns)
            assert found == then, f"held {hold.name}: {changes(then, found)}"
            self.reads["held"] += 1

    def check_past(self, one: tuple[str, str, Rows, Columns]) -> None:
        instant, completed, then, columns = one
        try:
            found = self.rows(self.table.scan(columns=columns.names, as_of=completed), columns)
            assert found == then, f"as of {completed} ({instant}): {changes(then, found)}"
            self.reads["as_of"] += 1
        except SnapshotExpiredError as error:
            assert self.may_forget, error
            self.reads["as_of expired"] += 1
        if columns.cleared != self.columns.cleared:
            then = {key: (*row[:3], None) for key, row in then.items()}
        try:
            told = self.table.changes(after=completed).to_arrow().to_pylist()
        except SnapshotExpiredError as error:
            assert self.may_forget, error
            self.reads["changes expired"] += 1
        else:
            self.reads["changes"] += 1
            reached = dict(then)
            # Changes of one commit have no order: its deletes are applied first.
            for change in sorted(told, key=lambda one: (one["ts_ms"], one["op"] != "d")):
                row = change["before"] if change["op"] == "d" else change["after"]
                key = self.key(row["id"], row["day"])
                if change["op"] == "d":
                    reached.pop(key, None)
                else:
                    reached[key] = self.columns.row(row)
            assert reached == self.state, f"changes after {completed}: {changes(self.state, reached)}"
        try:
            window = self.rows(self.table.incremental(after=completed, columns=self.columns.names))
        except SnapshotExpiredError:
            return
        assert window.items() <= self.state.items(), f"incremental: {changes(self.state, window)}"
        changed = {k for k, r in self.state.items() if then.get(k) != r}
        assert changed <= window.keys(), f"incremental after {completed} lacks {changed - window.keys()}"

    def rows(self, scan: Any, columns: Columns | None = None) -> Rows:
        found = scan.to_arrow().to_pylist()
        rows = {self.key(row["id"], row["day"]): (columns or self.columns).row(row) for row in found}
        assert len(rows) == len(found), f"a key is there twice: {found}"
        return rows
