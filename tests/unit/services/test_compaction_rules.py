"""When a compaction is due, and which slices a strategy takes: by Hudi's options."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.disk import contents
from support.tables import make, orders

from pyhudi_core.errors import InvalidOptionError
from pyhudi_core.file_groups.slice import BaseFile, FileSlice, LogFile
from pyhudi_core.model.file_names import BaseFileName, LogFileName
from pyhudi_core.model.instant import Action, Instant, State
from pyhudi_core.options import WriteOptions, find_option
from pyhudi_core.options.compaction import STRATEGIES as DECLARED
from pyhudi_core.options.compaction import CompactionOptions
from pyhudi_core.services.compaction.compaction_plan import MEBIBYTE, CompactionOperation, CompactionPlan, decode
from pyhudi_core.services.compaction.compaction_rules import MANY_LOGS, RULES, chosen, trigger_of
from pyhudi_core.timeline.active import Timeline

NOW = "20260110000000000"


def options(**changes: object) -> CompactionOptions:
    return replace(WriteOptions.parse({}).compaction, **changes)  # type: ignore[arg-type]


def done(action: Action, begin: str, end: str) -> Instant:
    return Instant(begin, action, State.COMPLETED, end)


def days(*numbers: int) -> list[Instant]:
    return [done(Action.DELTACOMMIT, f"202601{n:02}000000000", f"202601{n:02}000001000") for n in numbers]


@pytest.mark.row("N2")
@pytest.mark.parametrize(
    ("trigger", "due", "text"),
    [
        ("NUM_COMMITS", True, "3 of 3 delta commits"),
        ("NUM_COMMITS_AFTER_LAST_REQUEST", False, "1 of 3 delta commits"),
        ("TIME_ELAPSED", True, "604800 of 3600 seconds"),
        ("NUM_AND_TIME", True, "3 of 3 delta commits and 604800 of 3600 seconds"),
        ("NUM_OR_TIME", True, "3 of 3 delta commits or 604800 of 3600 seconds"),
    ],
)
def test_each_trigger_counts_since_the_last_compaction(trigger: str, due: bool, text: str) -> None:
    compacted = done(Action.COMMIT, "20260103000000000", "20260103000009000")
    requested = Instant("20260106000000000", Action.COMPACTION, State.REQUESTED)
    timeline = Timeline(tuple(sorted([*days(1, 2, 4, 5, 7), compacted, requested])))
    found = trigger_of(timeline, options(trigger=trigger, max_delta_commits=3), NOW)
    assert (found.due, found.text) == (due, text)


def test_a_delta_commit_that_completed_after_the_plan_counts_although_it_began_before() -> None:
    compacted = done(Action.COMMIT, "20260103000000000", "20260103000009000")
    late = done(Action.DELTACOMMIT, "20260102000000000", "20260103000005000")
    assert trigger_of(Timeline((late, compacted)), options(), NOW).text == "1 of 5 delta commits"


def test_a_table_that_was_never_compacted_waits_from_its_first_delta_commit_on() -> None:
    assert not trigger_of(Timeline(), options(trigger="TIME_ELAPSED"), NOW).due
    found = trigger_of(Timeline(tuple(days(9))), options(trigger="TIME_ELAPSED", max_delta_seconds=86_401), NOW)
    assert (found.due, found.text) == (False, "86400 of 86401 seconds")


def operation(partition: str, file_id: str, base_mb: int, *logs_mb: float, since: int = 2) -> CompactionOperation:
    """A file group with logs of these sizes; ``since``: the time of its first log."""
    base = BaseFile(partition, BaseFileName(file_id, "0-0-0", "1"), base_mb * MEBIBYTE) if base_mb else None
    logs = [
        LogFile(partition, LogFileName(file_id, str(since + n), 1, "0-0-0"), int(mb * MEBIBYTE))
        for n, mb in enumerate(logs_mb)
    ]
    return CompactionOperation(FileSlice(base, None, tuple(logs)), 120 * MEBIBYTE)


OPERATIONS = [
    operation("day=2026-01-08", "a", 10, 1, 1, since=8),
    operation("day=2025-12-31", "b", 100, 5, since=2),
    operation("day=2026-01-09", "c", 0, 3, 3, 3, since=6),
    operation("day=2026-01-01", "d", 1, 0.2, 0.1, 0.1, 0.1, since=4),
]
"""Each property orders them in another way, so that a rule that sorts by a wrong one, or not at all, is found."""
STRATEGIES: list[tuple[dict[str, object], str]] = [
    ({}, "cbad"),
    ({"log_size_threshold": 2 * MEBIBYTE}, "cba"),
    ({"target_io_mb": 130}, "cb"),
    ({"target_io_mb": 129}, "c"),
    ({"strategy": "log_file_num"}, "dcab"),
    ({"strategy": "log_file_num", "log_count_threshold": 2}, "dca"),
    ({"strategy": "bounded_io", "target_io_mb": 25}, "ab"),
    ({"strategy": "day_based", "day_partitions": 2}, "ca"),
    ({"strategy": "bounded_partition_aware", "day_partitions": 9}, "cad"),
    ({"strategy": "unbounded_partition_aware", "day_partitions": 8}, "db"),
    ({"strategy": "unbounded", "target_io_mb": 1}, "abcd"),
]
"""Options, and the file groups that are chosen by them, in their order."""


@pytest.mark.row("N3")
@pytest.mark.parametrize(("changes", "expected"), STRATEGIES)
def test_each_strategy_takes_its_slices_in_its_order(changes: dict[str, object], expected: str) -> None:
    found = chosen(OPERATIONS, options(**changes), NOW)
    assert "".join(operation.piece.file_id for operation in found) == expected


def test_commits_compact_an_eighth_of_the_slices_with_many_logs_and_no_base_file_that_is_much_larger() -> None:
    many, few = [0.01] * MANY_LOGS, [0.01] * (MANY_LOGS - 1)
    small = [operation("p", f"small{n}", 1, *many) for n in range(9)]
    others = [
        operation("p", "large", 100, *many),
        operation("p", "few", 1, *few),
        operation("p", "more", 1, *many, 0.01),
    ]
    found = chosen([*small, *others], options(strategy="many_logs"), NOW)
    assert [item.piece.file_id for item in found] == ["more", "small0"]
    worth = operation("p", "worth", 100, *[1.0] * MANY_LOGS)
    assert chosen([worth, *others], options(strategy="many_logs"), NOW)[0] == others[2]
    assert chosen([worth], options(strategy="many_logs"), NOW) == [worth]


def test_the_cases_tell_every_strategy_from_all_others() -> None:
    orders: dict[object, set[str]] = {}
    for changes, expected in STRATEGIES:
        orders.setdefault(changes.get("strategy", options().strategy), set()).add(expected)
    assert orders.keys() | {"many_logs"} == {each.word for each in DECLARED}, "many_logs has a test of its own"
    assert len(set().union(*orders.values())) == sum(map(len, orders.values())), "two strategies expect the same"
    unsorted = {word for word, found in orders.items() if all(list(each) == sorted(each) for each in found)}
    assert unsorted == {"bounded_io", "unbounded"}, "another strategy passes without sorting"


def test_a_strategy_that_is_declared_has_a_rule_and_says_what_it_selects() -> None:
    option = find_option("hoodie.compaction.strategy")
    assert RULES.keys() == {each.word for each in DECLARED}
    assert all(each.what and f"`{each.word}`, {each.what}" in option.doc for each in DECLARED)


def test_a_strategy_without_a_rule_compacts_nothing_in_silence() -> None:
    with pytest.raises(InvalidOptionError, match="no rule for the compaction strategy 'newest_first'") as caught:
        chosen(OPERATIONS, options(strategy="newest_first"), NOW)
    assert "log_file_size" in str(caught.value.hint)


@pytest.mark.row("N3")
@pytest.mark.parametrize("name", ["UnBoundedCompactionStrategy", "LogFileNumBasedCompactionStrategy"])
def test_hudis_class_names_are_accepted(name: str) -> None:
    given = {"hoodie.compaction.strategy": f"org.apache.hudi.table.action.compact.strategy.{name}"}
    assert WriteOptions.parse(given).compaction.strategy in ("unbounded", "log_file_num")


@pytest.mark.row("C5", "C6")
def test_the_metrics_are_hudis_whole_mebibytes_and_a_plan_is_read_back() -> None:
    with_base, without = operation("p", "a", 10, 1.9), operation("", "b", 0, 0.5, 0.6)
    assert with_base.to_avro()["metrics"] == {
        "TOTAL_LOG_FILES": 1.0, "TOTAL_IO_READ_MB": 11.0, "TOTAL_LOG_FILES_SIZE": float(int(1.9 * MEBIBYTE)), "TOTAL_IO_WRITE_MB": 10.0,
        "TOTAL_IO_MB": 21.0,
    }  # fmt: skip
    assert without.to_avro()["metrics"]["TOTAL_IO_WRITE_MB"] == 120.0
    assert without.to_avro()["baseInstantTime"] == "2"
    plan = CompactionPlan((with_base, without))
    found = decode(plan.encode(bytes(16)), "plan")
    assert [piece.group for piece in found] == [("p", "a"), ("", "b")]
    assert [[str(log.name) for log in piece.logs] for piece in found] == [
        [str(log.name) for log in operation.piece.logs] for operation in plan.operations
    ]
    assert [sum(log.size for log in piece.logs) for piece in found] == [with_base.log_bytes, without.log_bytes]


def test_a_plan_of_the_strategy_says_what_it_leaves_out(location: str) -> None:
    limited = {"hoodie.compaction.strategy": "log_file_num", "hoodie.compaction.logfile.num.threshold": "2"}
    table = make(location, table_type="mor", ordering="ts", options=limited)
    table.upsert(orders((1, "a", 1.0, 1), (2, "b", 1.0, 1)))
    table.upsert(orders((1, "a", 1.0, 2), (2, "b", 1.0, 2)))
    before = contents(location)
    plan = table.compaction.plan()
    assert not plan
    assert plan.why_not == "the strategy log_file_num leaves 2 file groups with log files out"
    assert table.compaction.schedule() is None
    assert not table.compaction.run()
    assert contents(location) == before
    table.upsert(orders((1, "a", 1.0, 3)))
    assert "leaves 1 file groups" in str(table.compaction.plan())
    assert table.compaction.run().file_groups == 1
