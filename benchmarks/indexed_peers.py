"""Upserts into logs and by a record index through PySpark, beside Apache Hudi with the same options; logs also beside Iceberg's merge-on-read.

Each kind of table (`KINDS`) has its own rounds, in which the contestants take turns on tables of the same rows. `LOGS` also compares with Spark's own
write of the incoming rows as Parquet: what an upsert costs that only appends.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from benchmarks import contestants, workload
from benchmarks.contestants import Contestant
from benchmarks.ratios import Goal, ratio
from benchmarks.sections import SPARK, Say, Scale

NAME = "indexed_peers"
INCOMING = "Spark's own write of the incoming rows"
LOGS, RECORDS, FEW = "merge-on-read", "copy-on-write, record index", "merge-on-read, record index, few rows"
WARM_UP = 2
FEW_ROWS = 1_000
_LOGGED = {"hoodie.datasource.write.table.type": "MERGE_ON_READ"}
_INDEXED = {"hoodie.metadata.record.index.enable": "true"}
_BY_RECORD_INDEX = {**_INDEXED, "hoodie.index.type": "RECORD_INDEX"}


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of table, and what is upserted.

    Attributes:
        table: the table type.
        options: of the table, for this project. All tables have a metadata table.
        theirs: the same for Apache Hudi.
        few: whether only `FEW_ROWS` rows are upserted, all of them of the table.
        peers: whether Iceberg takes part.
    """

    table: str
    options: dict[str, Any]
    theirs: dict[str, str]
    few: bool = False
    peers: bool = False


KINDS = {
    LOGS: Kind("mor", {}, _LOGGED, peers=True),
    RECORDS: Kind("cow", _INDEXED, _BY_RECORD_INDEX),
    FEW: Kind("mor", _INDEXED, {**_LOGGED, **_BY_RECORD_INDEX}, few=True),
}


def indexed_peers(scale: Scale, say: Say) -> dict[str, Any]:
    """Seconds of the upserts of each kind."""
    hudi, _, iceberg = contestants.peers()
    seconds: dict[str, dict[str, list[float]]] = {}
    for name, kind in KINDS.items():
        with ExitStack() as stack:
            ours = stack.enter_context(contestants.pyhudi_spark())
            others = [stack.enter_context(each) for each in ((hudi, iceberg) if kind.peers else (hudi,))]
            seconds[name] = _rounds(name, scale, ours, others, say)
    return {"size": scale.size, "rows": scale.updates + scale.inserts, "few": _few(scale), "seconds": seconds}


def _rounds(name: str, scale: Scale, ours: Contestant, others: list[Contestant], say: Say) -> dict[str, list[float]]:
    kind = KINDS[name]
    commands = {each.name: _command(kind, name, each, scale.size) for each in (ours, *others)}
    for each in (ours, *others):
        each.ask("load", data=str(workload.load_file(scale.size)), **commands[each.name])
    found: dict[str, list[float]] = {}
    for number in range(scale.rounds + WARM_UP):
        few = str(workload.upsert_file(scale.size, number + 1, _few(scale), 0))
        data = few if kind.few else scale.upsert(number + 1)
        plan = [(each.name, each, "upsert", commands[each.name]) for each in (ours, *others)]
        if name == LOGS:
            plan.append((INCOMING, ours, "plain_load", {"table": str(workload.HOME / "tables" / "incoming")}))
        for who, each, verb, command in plan if number % 2 else plan[::-1]:
            taken = each.seconds(verb, data=data, **command)
            say(f"{name}, round {number - WARM_UP}: {who} {taken:.2f} s")
            if number >= WARM_UP:
                found.setdefault(who, []).append(taken)
    counts = {each.name: each.ask("count", **commands[each.name])["rows"] for each in (ours, *others)}
    if len(set(counts.values())) != 1:
        raise contestants.ContestantError(f"the contestants ended with different tables: {counts}")
    return found


def _command(kind: Kind, name: str, who: Contestant, size: int) -> dict[str, Any]:
    """The table, and what makes it of this kind."""
    letters = "".join(letter if letter.isalnum() else "_" for letter in f"{name} {who.name}".lower())
    table = {"table": str(workload.HOME / "tables" / f"{letters}_{size}")}
    if who.name == SPARK:
        return {**table, "kind": kind.table, "options": {"hoodie.metadata.enable": True, **kind.options}}
    return {**table, "options": kind.theirs, "mode": "merge-on-read"}


def _few(scale: Scale) -> int:
    return min(FEW_ROWS, scale.updates)


def goals(kept: dict[str, Any]) -> list[Goal]:
    """What is promised of these upserts."""
    if NAME not in kept:
        return []
    result = kept[NAME]
    logs, records, few = (result["seconds"][name] for name in (LOGS, RECORDS, FEW))
    hudi = next(name for name in logs if name.startswith("Apache Hudi"))
    iceberg = next(name for name in logs if name.startswith("Iceberg"))
    into = f"of {result['rows']:,} rows into {result['size']:,} through PySpark"
    return [
        Goal(f"MOR upsert {into}: times {INCOMING}", ratio(logs[SPARK], logs[INCOMING]), 3.5, NAME),
        Goal(f"{hudi} takes this many times as long for it", ratio(logs[hudi], logs[SPARK]), 10, NAME, at_least=True),
        Goal(f"{iceberg} (merge-on-read) takes this many times as long for it", ratio(logs[iceberg], logs[SPARK]), 1, NAME, at_least=True),
        Goal(f"COW upsert {into}, record index: {hudi} takes this many times as long", ratio(records[hudi], records[SPARK]), 10, NAME,
             at_least=True),
        Goal(f"MOR upsert of {result['few']:,} rows into {result['size']:,} through PySpark, record index: {hudi} takes this many times as long",
             ratio(few[hudi], few[SPARK]), 8, NAME, at_least=True),
    ]  # fmt: skip


def section(kept: dict[str, Any]) -> str:
    """The part of the page: each contestant as a multiple of this project."""
    if NAME not in kept:
        return ""
    result = kept[NAME]
    upserts = f"{result['rows']:,} rows into {result['size']:,}, or of {result['few']:,} rows of the table"
    lines = [
        "## Logs and record index beside peers",
        "",
        f"Upserts of {upserts} (the last kind), with a metadata table. Times {SPARK}.",
        "",
        "| kind | contestant | upsert |",
        "|---|---|---|",
    ]
    for name, seconds in result["seconds"].items():
        lines += [f"| {name} | {who} | {ratio(taken, seconds[SPARK])} |" for who, taken in seconds.items()]
    return "\n".join([*lines, ""])
