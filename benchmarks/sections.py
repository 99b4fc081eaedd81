"""The measurements: one function for each section, which returns a result for JSON.

A result has the seconds of every counted round of every contestant, in the same order. Round i of all contestants ran next to each other, and ratios
compare times of the same round. Round 0 is a warm-up and is not counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import contestants, workload
from benchmarks.contestants import Contestant
from benchmarks.disk import bytes_of
from benchmarks.memory import MemoryWatch

Say = Callable[[str], None]
SPARK = "pyhudi on PySpark"


@dataclass(frozen=True, slots=True)
class Scale:
    """Sizes and numbers of rounds.

    Attributes:
        size: rows of the table.
        updates, inserts, deletes: rows of one upsert and of one delete.
        rounds: counted rounds.
        peers: whether Apache Hudi, Delta and Iceberg take part.
    """

    size: int
    updates: int
    inserts: int
    deletes: int
    rounds: int
    peers: bool

    def upsert(self, version: int) -> str:
        """The input of upsert number `version`."""
        return str(workload.upsert_file(self.size, version, self.updates, self.inserts))

    def delete(self, version: int) -> str:
        """The input of delete number `version`."""
        return str(workload.delete_file(self.size, version, self.deletes))


def writes(scale: Scale, verbs: list[str], say: Say) -> dict[str, dict[str, Any]]:
    """Load, upsert and delete (those in `verbs`), each next to the rewrite of the current files of pyhudi on PySpark.

    Returns the result of each verb, by its name. At the end all tables must have the same number of rows.
    """
    results: dict[str, dict[str, Any]] = {}
    with ExitStack() as stack:
        limit = stack.enter_context(contestants.limit())
        runners = [stack.enter_context(each) for each in _runners(scale)]
        for verb in ["load", *[verb for verb in ("upsert", "delete") if verb in verbs]]:
            warming, rounds = _rounds(scale, verb, verbs)
            seconds: dict[str, list[float]] = {}
            for number in range(rounds + warming):
                for name, taken in _round(scale, verb, number, runners, limit):
                    say(f"{verb} {scale.size:,} round {number}: {name} {taken:.2f} s")
                    if number >= warming:
                        seconds.setdefault(name, []).append(taken)
            if verb in verbs:
                sizes = {each.name: bytes_of(_table(each, scale.size)) for each in runners}
                results[verb] = {"size": scale.size, "seconds": seconds, "bytes": sizes}
        counts = {each.name: each.ask("count", table=_table(each, scale.size))["rows"] for each in runners}
    if len(set(counts.values())) != 1:
        raise contestants.ContestantError(f"the contestants ended with different tables: {counts}")
    return results


def snapshot_read(scale: Scale, say: Say) -> dict[str, Any]:
    """Full scans of all columns: `scan().to_spark()` and Spark's own Parquet scan take turns in one session."""
    result: dict[str, Any] = {"size": scale.size, "planning": {}, "execution": {}, "local": {}}
    with ExitStack() as stack:
        spark = _with_table(stack.enter_context(contestants.pyhudi_spark()), scale)
        others = [_loaded(stack.enter_context(each), scale) for each in contestants.peers()] if scale.peers else []
        table = _table(spark, scale.size)
        for number in range(scale.rounds + 1):
            plan = [(spark, "scan", SPARK), (spark, "spark_scan", "Spark's own Parquet scan")]
            for who, verb, name in [
                *(plan if number % 2 else plan[::-1]),
                *[(each, "scan", each.name) for each in others],
            ]:
                answer = who.ask(verb, table=_table(who, scale.size))
                say(
                    f"read {scale.size:,} round {number}: {name} {answer['planning']:.2f} + {answer['execution']:.2f} s"
                )
                if number:
                    result["planning"].setdefault(name, []).append(answer["planning"])
                    result["execution"].setdefault(name, []).append(answer["execution"])
    with contestants.pyhudi_local() as local:
        for number in range(scale.rounds + 1):
            for verb, name in (
                ("scan", "pyhudi, local engine"),
                ("arrow_scan", "pyarrow's own dataset read"),
            ):
                taken = local.seconds(verb, table=table)
                say(f"read {scale.size:,} round {number}: {name} {taken:.2f} s")
                if number:
                    result["local"].setdefault(name, []).append(taken)
    return result


def point_lookup(scale: Scale, say: Say) -> dict[str, Any]:
    """One row by key and partition; each round reads another row, the same for all contestants."""
    seconds: dict[str, list[float]] = {}
    with ExitStack() as stack:
        spark = _with_table(stack.enter_context(contestants.pyhudi_spark()), scale)
        local = stack.enter_context(contestants.pyhudi_local())
        others = [_loaded(stack.enter_context(each), scale) for each in contestants.peers()] if scale.peers else []
        table = _table(spark, scale.size)
        plan = [(spark, "spark_lookup", "Spark's own Parquet scan", table), (spark, "lookup", SPARK, table)]
        plan += [(local, "lookup", local.name, table)]
        plan += [(each, "lookup", each.name, _table(each, scale.size)) for each in others]
        for number in range(scale.rounds + 1):
            key, partition = workload.lookup_key(scale.size, number)
            for who, verb, name, where in plan:
                taken = who.seconds(verb, table=where, where=f"id = '{key}' AND part = '{partition}'")
                say(f"lookup {scale.size:,} round {number}: {name} {taken:.3f} s")
                if number:
                    seconds.setdefault(name, []).append(taken)
    return {"size": scale.size, "seconds": seconds}


def memory(small: Scale, large: Scale, say: Say) -> dict[str, Any]:
    """Peak memory in bytes of a load of `large` with a heap of 512 MB, and of upserts into both sizes; each runs in a new session."""
    result: dict[str, Any] = {"small": small.size, "large": large.size, "loads": [], "upserts": []}
    for number in range(1, small.rounds + 1):
        with contestants.pyhudi_spark("512m") as spark, MemoryWatch(spark.process.pid) as watch:
            spark.ask("load", data=str(workload.load_file(large.size)), table=_table(spark, large.size))
        say(f"memory: load of {large.size:,} rows, round {number}: {watch.total / 1e6:.0f} MB {watch.parts}")
        result["loads"].append({"total": watch.total} | watch.parts)
    with contestants.pyhudi_spark() as spark:
        spark.ask("load", data=str(workload.load_file(small.size)), table=_table(spark, small.size))
    for number in range(1, small.rounds + 1):
        pair = {name: _upsert_peak(scale, number) for name, scale in (("small", small), ("large", large))}
        say(
            f"memory: worker peak of upsert {number}: "
            + ", ".join(f"{pair[name]['worker'] / 1e6:.0f} MB" for name in pair)
        )
        result["upserts"].append(pair)
    return result


def _upsert_peak(scale: Scale, version: int) -> dict[str, int]:
    with contestants.pyhudi_spark("1g") as spark, MemoryWatch(spark.process.pid) as watch:
        spark.ask("upsert", data=scale.upsert(version), table=_table(spark, scale.size))
    return {"worker": watch.worker, "worker_pss": watch.worker_pss, "total": watch.total}


def _runners(scale: Scale) -> list[Contestant]:
    ours = [contestants.pyhudi_spark(), contestants.pyhudi_local()]
    return [*ours, contestants.pyhudi_spark35(), *contestants.peers()] if scale.peers else ours


def _rounds(scale: Scale, verb: str, verbs: list[str]) -> tuple[int, int]:
    """How many rounds warm up, and how many count. A load of many rows is its own warm-up; a table must be loaded in any case."""
    if verb not in verbs:
        return 1, 0
    if verb == "load":
        return (1, min(scale.rounds, 4)) if scale.peers else (0, min(scale.rounds, 4))
    return (2, scale.rounds) if verb == "upsert" else (1, min(scale.rounds, 4))


def _round(
    scale: Scale, verb: str, number: int, runners: list[Contestant], limit: Contestant
) -> Iterator[tuple[str, float]]:
    """One round of one verb: each contestant once, and the limit right after pyhudi on PySpark, on its files."""
    version = number + 1
    for each in runners:
        table = _table(each, scale.size)
        if verb == "load":
            yield each.name, each.seconds("load", data=str(workload.load_file(scale.size)), table=table)
        else:
            yield each.name, each.seconds(verb, data=getattr(scale, verb)(version), table=table)
        if each.name == SPARK:
            yield limit.name, limit.seconds("rewrite", table=table, target=str(workload.HOME / "rewritten"))


def _table(who: Contestant, size: int) -> str:
    letters = "".join(letter if letter.isalnum() else "_" for letter in who.name.lower())
    return str(workload.HOME / "tables" / f"{letters}_{size}")


def _with_table(spark: Contestant, scale: Scale) -> Contestant:
    """The contestant with its table loaded. The local engine writes it, because it creates the same files faster."""
    with contestants.pyhudi_local() as local:
        _ready(local, _table(spark, scale.size), scale.size)
    return spark


def _loaded(who: Contestant, scale: Scale) -> Contestant:
    """The contestant with its table loaded."""
    _ready(who, _table(who, scale.size), scale.size)
    return who


def _ready(who: Contestant, table: str, size: int) -> None:
    """Load the table, unless an earlier section has loaded it and only read it."""
    stamp = Path(table + ".loaded")
    if not stamp.exists():
        who.ask("load", data=str(workload.load_file(size)), table=table)
        stamp.parent.mkdir(parents=True, exist_ok=True)
        stamp.touch()
