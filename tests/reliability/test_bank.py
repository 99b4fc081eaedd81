"""Transfers between two tables, by processes that are killed and stopped: the money is all there in every snapshot of both tables.

``PYHUDI_BANK_SECONDS`` says how long; the figures are printed.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from pathlib import Path

import pyarrow as pa
import pytest
from reliability.processes import PROCESSES

import pyhudi_core as hudi
from pyhudi_core.errors import CommitError, LockError, SnapshotExpiredError
from pyhudi_core.table_transactions import snapshot, transaction

SCHEMA = pa.schema([("account", pa.int64()), ("money", pa.int64())])
OPTIONS: dict[str, object] = {
    "hoodie.client.heartbeat.interval_in_ms": 1_000,
    "hoodie.client.heartbeat.tolerable.misses": 4,
    "hoodie.metadata.enable": False,
    "hoodie.clean.commits.retained": 20,
    "pyhudi.commit.retries": 1000,
}
NAMES = ("giro", "savings")
WRITERS, MONEY = 3, 1_000
SECONDS = int(os.environ.get("PYHUDI_BANK_SECONDS", "60"))


def tables(folder: Path) -> list[hudi.HudiTable]:
    return [hudi.open_table(str(folder / name), options=OPTIONS) for name in NAMES]


def balances(both: list[hudi.HudiTable]) -> list[dict[int, int]]:
    """What the accounts of both tables hold, in one state."""
    state = snapshot(both)
    found = (state.scan(table, SCHEMA.names).to_arrow().to_pylist() for table in both)
    return [{row["account"]: row["money"] for row in each} for each in found]


def transfer(folder: Path, account: int) -> None:
    """Move money of one account between the tables, for ever. Each transfer that is committed is a line of the journal."""
    both, chance = tables(folder), random.Random()
    while True:
        try:
            giro, savings = (each[account] for each in balances(both))
            amount = chance.randint(-savings, giro)
            with transaction(both) as changes:
                for table, money in zip(both, (giro - amount, savings + amount), strict=True):
                    changes.upsert(table, pa.table({"account": [account], "money": [money]}, SCHEMA))
            with Path(folder, f"{account}.done").open("a") as journal:
                journal.write(f"{amount}\n")
        except (CommitError, LockError, SnapshotExpiredError) as error:
            with Path(folder, f"{account}.lost").open("a") as journal:
                journal.write(f"{type(error).__name__}\n")


@dataclass
class Bank:
    """The processes that transfer, and what was done to them."""

    folder: Path
    chance: random.Random
    running: list[BaseProcess] = field(default_factory=list)
    stopped: dict[int, float] = field(default_factory=dict)
    done: Counter[str] = field(default_factory=Counter)

    def start(self, account: int) -> BaseProcess:
        process = PROCESSES.Process(target=transfer, args=(self.folder, account))
        process.start()
        return process

    def disturb(self) -> None:
        """Kill a process and start it again, or stop one for up to twice as long as its heartbeat lives; wake up those whose time is over."""
        for account, until in list(self.stopped.items()):
            if time.monotonic() > until:
                os.kill(self.running[account].pid or 0, signal.SIGCONT)
                del self.stopped[account]
        account = self.chance.randrange(WRITERS)
        assert self.running[account].is_alive(), "a process has ended by itself, with an error"
        if account in self.stopped:
            return
        if self.chance.random() < 0.6:
            self.running[account].kill()
            self.running[account].join()
            self.running[account] = self.start(account)
            self.done["kills"] += 1
        else:
            os.kill(self.running[account].pid or 0, signal.SIGSTOP)
            self.stopped[account] = time.monotonic() + self.chance.uniform(0.1, 10)
            self.done["stops"] += 1


@contextmanager
def opened(folder: Path) -> Iterator[Bank]:
    bank = Bank(folder, random.Random(5))
    bank.running = [bank.start(account) for account in range(WRITERS)]
    try:
        yield bank
    finally:
        for process in bank.running:
            process.kill()
            process.join()


@pytest.mark.slow
@pytest.mark.row("K5", "T14")
def test_transfers_between_two_tables_keep_their_sum_while_processes_are_killed_and_stopped(tmp_path: Path) -> None:
    both = [hudi.create_table(str(tmp_path / name), SCHEMA, "account", options=OPTIONS) for name in NAMES]
    with transaction(both) as changes:
        for table, money in zip(both, (MONEY, 0), strict=True):
            accounts = list(range(WRITERS))
            changes.upsert(table, pa.table({"account": accounts, "money": [money] * WRITERS}, SCHEMA))
    both = tables(tmp_path)
    began = time.monotonic()
    due = began + 8
    with opened(tmp_path) as bank:
        while time.monotonic() - began < SECONDS:
            giro, savings = balances(both)
            bank.done["snapshots"] += 1
            for account in range(WRITERS):
                assert giro[account] + savings[account] == MONEY, (account, giro, savings)
            if time.monotonic() > due:
                bank.disturb()
                due = time.monotonic() + bank.chance.uniform(0.5, 8)
        for account in bank.stopped:
            os.kill(bank.running[account].pid or 0, signal.SIGCONT)
    for kind in ("done", "lost"):
        found = [path.read_text().splitlines() for path in tmp_path.glob(f"*.{kind}")]
        bank.done["transfers" if kind == "done" else "given up"] += sum(map(len, found))
    print(f"{SECONDS} s: {dict(bank.done)}")
    assert bank.done["transfers"] > 0
    time.sleep(6)  # the heartbeats of those who were killed last
    for table in both:
        table.upsert(pa.table({"account": [99], "money": [0]}, SCHEMA))
        assert not [finding for finding in table.check().findings if finding.severity != "info"]
