"""What `table_walk` does to a table: each operation draws its rows, and says what it calls and which rows the table has after it."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
from reliability.walk_forms import DAYS, NAMES, Columns, Form, Row, Rows
from support.homes import StandingClock

import pyhudi_core as hudi

Choice = tuple[Callable[[], object], Rows] | None
"""A call, and the rows after it; None if there is nothing to do."""


class Operations:
    """The operations of a walk, as methods that begin with ``do_``."""

    draw: random.Random
    form: Form
    clock: StandingClock
    table: hudi.HudiTable
    state: Rows
    columns: Columns
    columns_after: Columns
    past: list[tuple[str, str, Rows, Columns]]
    held: list[tuple[Any, Rows, Columns]]
    log: list[str]
    time = 0
    forgot = False
    was_late = was_partial = False

    # --- the model

    def key(self, id_: int, day: str) -> Any:
        return (id_, day) if self.form.partitioned and not self.is_global else id_

    @property
    def is_global(self) -> bool:
        return str(self.form.index).startswith("GLOBAL") or self.form.index == "RECORD_INDEX"

    @property
    def moves(self) -> bool:
        """Whether a row with another day moves there; if not, it stays in its partition."""
        return self.form.index != "RECORD_INDEX"

    def batch(self, low: int = 1, high: int = 6, known: bool = False) -> list[tuple[int, Row]]:
        """Rows; a key occurs once. Most are later than any row of the table."""
        ids = self.draw.sample(range(14), self.draw.randint(low, high))
        if known:
            live = sorted({self.id_of(key) for key in self.state})
            ids = self.draw.sample(live, min(len(live), self.draw.randint(low, high)))
        rows = []
        for id_ in ids:
            self.time += 1
            day = self.draw.choice(DAYS)
            if known:
                day = self.draw.choice([row[0] for key, row in self.state.items() if self.id_of(key) == id_])
            price = self.draw.choice([None, float(self.draw.randint(0, 9))])
            rows.append((id_, (day, self.time, price, self.draw.choice([None, "x", "y" * 20, f"n{self.time}"]))))
        return rows

    @staticmethod
    def id_of(key: Any) -> int:
        return key[0] if isinstance(key, tuple) else key

    def put(self, state: Rows, rows: list[tuple[int, Row]]) -> Rows:
        after = dict(state)
        for id_, row in rows:
            key = self.key(id_, row[0])
            old = after.get(key)
            if old is not None and self.form.ordered and row[1] < old[1]:
                continue
            if old is not None and self.is_global and self.form.partitioned and not self.moves:
                after[key] = (old[0], *row[1:])
            else:
                after[key] = row
        return after

    @property
    def may_forget(self) -> bool:
        """Whether old states may be gone."""
        archived = any(True for _ in self.table.archived_commits())
        return self.forgot or archived or bool(self.form.options.get("hoodie.clean.automatic"))

    # --- the operations: each returns what it does, and the rows after it

    def operations(self) -> dict[str, Callable[[], tuple[Callable[[], object], Rows] | None]]:
        return {name[3:]: getattr(self, name) for name in dir(self) if name.startswith("do_")}

    def do_upsert(self) -> Choice:
        rows = self.batch()
        return (lambda: self.table.upsert(self.columns.data(rows))), self.put(self.state, rows)

    do_upsert2 = do_upsert3 = do_upsert4 = do_upsert

    def do_update(self) -> Choice:
        rows = self.batch(1, 3, known=True)
        return ((lambda: self.table.upsert(self.columns.data(rows))), self.put(self.state, rows)) if rows else None

    do_update2 = do_update

    def do_late(self) -> Choice:
        """Rows older than those of the table: they lose, or win without an ordering column."""
        if not self.form.ordered or (self.was_partial and self.form.is_mor):
            return None
        rows = [(id_, (row[0], 0, *row[2:])) for id_, row in self.batch(1, 3, known=True)]
        self.was_late = True
        return ((lambda: self.table.upsert(self.columns.data(rows))), self.put(self.state, rows)) if rows else None

    def do_partial(self) -> Choice:
        rows = self.batch(1, 3, known=True)
        if not rows or (self.is_global and self.form.partitioned):
            return None
        if self.was_late and self.form.is_mor:
            return None  # a value of a row that lost can come back in a column that the partial row lacks, as in Hudi
        self.was_partial = True
        given = self.columns.data(rows).drop_columns([self.columns.note])
        after = dict(self.state)
        for id_, row in rows:
            key = self.key(id_, row[0])
            after[key] = (*row[:3], after[key][3])
        return (lambda: self.table.upsert(given, partial=True)), after

    def do_insert(self) -> Choice:
        rows = [(id_, row) for id_, row in self.batch() if self.key(id_, row[0]) not in self.state]
        verb = self.draw.choice(["insert", "bulk_insert"])
        return (
            ((lambda: getattr(self.table, verb)(self.columns.data(rows))), self.put(self.state, rows)) if rows else None
        )

    def do_insert_overwrite(self) -> Choice:
        if self.is_global and self.form.partitioned:
            return None
        rows = self.batch()
        days = {row[0] for _, row in rows}
        kept = {k: r for k, r in self.state.items() if r[0] not in days and self.form.partitioned}
        return (lambda: self.table.insert_overwrite(self.columns.data(rows))), kept | self.put({}, rows)

    def do_insert_overwrite_table(self) -> Choice:
        if self.draw.random() < 0.7:
            return None
        rows = self.batch()
        return (lambda: self.table.insert_overwrite_table(self.columns.data(rows))), self.put({}, rows)

    def do_delete(self) -> Choice:
        rows = self.batch(1, 3, known=True)
        if not rows:
            return None
        gone = {self.key(id_, row[0]) for id_, row in rows}
        keys = self.columns.data(rows).select(["id", "day"] if self.form.partitioned else ["id"])
        return (lambda: self.table.delete(keys)), {k: r for k, r in self.state.items() if k not in gone}

    do_delete2 = do_delete

    def do_delete_where(self) -> Choice:
        price = float(self.draw.randint(5, 9))
        kept = {k: r for k, r in self.state.items() if r[2] is None or r[2] < price}
        return (lambda: self.table.delete(where=f"{self.columns.price} >= {price}")), kept

    def do_delete_partitions(self) -> Choice:
        days = sorted({row[0] for row in self.state.values()})
        if not days or not self.form.partitioned or self.draw.random() < 0.5:
            return None
        day = self.draw.choice(days)
        kept = {k: r for k, r in self.state.items() if r[0] != day}
        return (lambda: self.table.delete_partitions([f"day={day}"])), kept

    def service(self, name: str) -> Choice:
        """Run it, or only plan it, or execute or cancel what is planned."""
        service = self.table.services[name]
        can = ["run", "run"]
        waiting = service.waiting()
        if hasattr(service, "_is_current") and name != "restore":
            can += ["schedule", "schedule"]
        if waiting:
            can += ["execute", "execute"] + (["cancel"] if hasattr(service, "cancel") else [])
        how = self.draw.choice(can)
        chosen = self.draw.choice(waiting) if waiting else None
        self.log.append(f"   {name}.{how} {chosen or ''}")
        if how in ("execute", "cancel"):
            return (lambda: getattr(service, how)(chosen)), self.state
        return getattr(service, how), self.state

    def do_compaction(self) -> Choice:
        return self.service("compaction") if self.form.is_mor else None

    do_compaction2 = do_compaction

    def do_log_compaction(self) -> Choice:
        return self.service("log_compaction") if self.form.is_mor else None

    def do_clustering(self) -> Choice:
        return self.service("clustering")

    do_clustering2 = do_clustering

    def do_cleaning(self) -> Choice:
        self.forgot = True
        return self.service("cleaning")

    def do_archival(self) -> Choice:
        return self.service("archival")

    def do_sweep(self) -> Choice:
        return self.service("sweep")

    def do_upkeep_of_metadata(self) -> Choice:
        name = self.draw.choice([n for n in self.table.services if n.startswith("metadata")])
        return self.service(name) if self.table.config.metadata_partitions else None

    def do_index(self) -> Choice:
        config = self.table.config
        if not config.metadata_partitions:
            return None
        have = set(config.metadata_partitions)
        kinds = ["column_stats", "record_index", "bloom_filters", "secondary", "year"]
        kind = self.draw.choice(kinds)
        if self.draw.random() < 0.4 and len(have) > 1:
            name = self.draw.choice(sorted(have - {"files"}))
            if name == "record_index" and self.form.index == "RECORD_INDEX":
                return None
            self.log.append(f"   drop {name}")
            return (lambda: self.table.indexes.drop(name)), self.state
        self.log.append(f"   create {kind}")
        if kind == "secondary":
            return (lambda: self.table.indexes.create("by_note", [self.columns.note])), self.state
        if kind == "year":
            return (
                lambda: self.table.indexes.create("low", [self.columns.note], "column_stats", {"expr": "lower"})
            ), self.state
        return (lambda: self.table.indexes.create(kind)), self.state

    def do_metadata(self) -> Choice:
        if self.draw.random() < 0.8:
            return None
        verb = self.draw.choice(["create", "drop", "rebuild"])
        self.log.append(f"   metadata {verb}")
        return getattr(self.table.metadata_table, verb), self.state

    def do_savepoint(self) -> Choice:
        if self.draw.random() < 0.5:
            return None
        found = list(self.table.savepoints)
        if found and self.draw.random() < 0.5:
            one = self.draw.choice(found)
            return (lambda: self.table.savepoints.delete(one.instant)), self.state
        return self.table.savepoints.create, self.state

    def do_hold(self) -> Choice:
        """Hold the files of the newest state, or end a hold."""
        if self.held and self.draw.random() < 0.3:
            ended = self.held.pop(self.draw.randrange(len(self.held)))[0]
            return (lambda: self.table.holds.delete(ended)), self.state
        return self._hold, self.state

    def _hold(self) -> Any:
        hold = self.table.holds.create(seconds=1e8)
        self.held.append((hold, self.state, self.columns))
        return hold

    def do_restore(self) -> Choice:
        if not self.past or self.draw.random() < 0.6:
            return None
        index = self.draw.randrange(len(self.past))
        instant, _, then, self.columns_after = self.past[index]
        self.log.append(f"   restore to {instant}")
        return (lambda: self.table.restore(instant)), then

    def do_rollback_newest(self) -> Choice:
        commits = list(self.table.timeline.commits)
        if len(self.past) < 2 or not commits or self.draw.random() < 0.5:
            return None
        newest = max(commits, key=lambda i: i.completion_time or "")
        before = sorted((i for i in commits if i is not newest), key=lambda i: i.completion_time or "")
        then = {instant: (rows, columns) for instant, _, rows, columns in self.past}
        if newest.requested_time not in then or not before or before[-1].requested_time not in then:
            return None
        self.log.append(f"   rollback {newest}")
        rows, self.columns_after = then[before[-1].requested_time]
        return (lambda: self.table.rollback(newest, completed=True)), rows

    def do_erase(self) -> Choice:
        if self.draw.random() < 0.6:
            return None
        rows = self.batch(1, 2, known=True)
        if not rows:
            return None
        self.forgot = True
        gone = {self.key(id_, row[0]) for id_, row in rows}
        keys = self.columns.data(rows).select(["id", "day"] if self.form.partitioned else ["id"])
        return (lambda: self.table.erasure.run(keys)), {k: r for k, r in self.state.items() if k not in gone}

    def do_alter(self) -> Choice:
        """Change columns: new names (that other columns had), a wider type, another order, or a new column in place of an old one."""
        columns, name = self.columns, self.draw.choice(NAMES)
        how = self.draw.choice(["rename price", "rename note", "swap", "clear", "widen", "order"])
        if how == "order":
            self.log.append("   order")
            return (lambda: self.table.alter(order=[columns.note, "id"])), self.state
        arguments: dict[str, Any]
        if how == "swap":
            arguments = {"rename": {columns.price: columns.note, columns.note: columns.price}}
            self.columns_after = replace(columns, price=columns.note, note=columns.price)
        elif how == "widen":
            arguments = {"retype": {columns.price: pa.float64()}}
            self.columns_after = replace(columns, wide=True)
        elif name in columns.names and not (how == "clear" and name == columns.note):
            return None
        elif how == "clear":
            self.time += 1
            arguments = {"drop": [columns.note], "add": {name: pa.string()}}
            self.columns_after = replace(columns, note=name, cleared=self.time)
        else:
            which = how.split()[1]
            arguments = {"rename": {getattr(columns, which): name}}
            self.columns_after = replace(columns, **{which: name})
        self.log.append(f"   {arguments}")
        rows = {k: (*r[:3], None) for k, r in self.state.items()} if how == "clear" else self.state
        return (lambda: self.table.alter(**arguments)), rows

    do_alter2 = do_alter

    def do_duplicates(self) -> Choice:
        return self.table.duplicates.run, self.state

    def do_wait(self) -> Choice:
        self.clock.sleep(self.draw.choice([60, 7200]))
        return (lambda: None), self.state
