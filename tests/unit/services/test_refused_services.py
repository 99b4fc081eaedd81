"""A service that cannot work in a table as it is opened says so: it is refused, which is not the same as nothing to do."""

from __future__ import annotations

import json
import logging
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner
from support.disk import contents
from support.tables import FAST, make, orders, reopen, rows

import pyhudi_core as hudi
from pyhudi_core.cli import main
from pyhudi_core.errors import UnsupportedTableError
from pyhudi_core.services.service import refused_by
from pyhudi_core.upkeep_run import Outcome

TIMES = pa.schema([("id", pa.int64()), ("at", pa.timestamp("us", "UTC"))])
ZONE = "pyhudi.expression.index.timezone"
KNOWN = {"hoodie.metadata.enable": "true", ZONE: "UTC"}
OPTION = ("--option", f"{ZONE}=UTC")
RETAINED = {"hoodie__clean__commits__retained": 1}
KNOWN_OPTIONS = {name.replace(".", "__"): value for name, value in KNOWN.items()} | RETAINED


def indexed(location: str, kind: str = "merge_on_read") -> hudi.HudiTable:
    """A table with an expression index on a time and four commits, opened without the option that the index needs."""
    table = make(location, TIMES, table_type=kind, partition_by=(), options=KNOWN)
    for number in range(4):
        table.upsert(pa.table({"id": [1], "at": [number]}, schema=TIMES))
    table.indexes.create("hours", ["at"], "column_stats", {"expr": "hour"})
    return reopen(table, **RETAINED)


def run(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(main, arguments)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.output


@pytest.mark.row("N16")
@pytest.mark.parametrize("service", ["compaction", "log_compaction", "clustering", "cleaning"])
def test_a_service_that_cannot_keep_an_index_is_refused_and_does_not_look_like_one_with_nothing_to_do(
    location: str, service: str
) -> None:
    table = indexed(location, "copy_on_write" if service == "cleaning" else "merge_on_read")
    before = contents(location)
    found: Any = table.services[service]
    plan = found.plan()
    refused = refused_by(plan)
    assert (bool(plan), refused is not None and refused.mendable) == (False, True)
    assert str(plan).startswith("It would be refused: ")
    for call in (found.run, found.schedule):
        with pytest.raises(UnsupportedTableError, match=f"set {ZONE}=UTC"):
            call()
    assert contents(location) == before
    assert refused_by(reopen(table, **KNOWN_OPTIONS).services[service].plan()) is None


@pytest.mark.row("N16")
def test_commands_of_refused_services_end_with_1_for_a_plan_and_with_2_for_a_run(location: str) -> None:
    indexed(location)
    for command in ("compact", "cluster", "log-compact"):
        code, text = run(command, location, "--plan")
        assert (code, "would be refused" in text) == (1, True), text
        code, text = run(command, location, "--plan", "--json")
        assert (code, json.loads(text)["refused"]) == (1, True), text
        for how in ((), ("--schedule",)):
            code, text = run(command, location, *how)
            assert (code, ZONE in text) == (2, True), text
        assert run(command, location, "--plan", *OPTION)[0] == 0
    assert run("compact", location, *OPTION)[0] == 0


@pytest.mark.row("N16")
def test_upkeep_of_a_table_whose_services_are_refused_fails_and_says_why_without_being_asked(location: str) -> None:
    table = indexed(location)
    before = contents(location)
    for plan in (True, False):
        report = hudi.upkeep(location, hudi.UpkeepRules(("compaction",)), plan=plan, storage_options=FAST)
        assert not report
        (line,) = report.lines
        assert (line.outcome, f"set {ZONE}=UTC" in line.reason) == (Outcome.FAILED, True)
    code, text = run("upkeep", location, "--service", "clustering", "--small-groups", "1")
    assert (code, "expr_index_hours" in text, "1 failed" in text) == (1, True, True), text
    assert contents(location) == before
    assert hudi.upkeep(reopen(table, **KNOWN_OPTIONS), hudi.UpkeepRules(("compaction",), log_ratio=0.01))
    assert not any(piece.logs for piece in table.snapshot().view.all_slices())


@pytest.mark.row("N16")
def test_upkeep_skips_a_service_for_a_kind_of_table_that_it_does_not_rewrite_and_says_so(location: str) -> None:
    table = make(location, options={"hoodie.populate.meta.fields": "false"})
    table.insert(orders((1, "a", 1.0, 1)))
    rules = hudi.UpkeepRules(("clustering",))
    report = hudi.upkeep(table, rules)
    assert report, "nothing can be mended, so it is no failure"
    (line,) = report.lines
    assert (line.outcome, "no meta columns" in line.reason) == (Outcome.SKIPPED, True)
    code, text = run("upkeep", location, "--service", "clustering")
    assert (code, "hoodie.populate.meta.fields=false" in text) == (0, True), text
    with pytest.raises(UnsupportedTableError, match="no meta columns"):
        table.clustering.run()


@pytest.mark.row("N16")
def test_an_inline_service_that_is_refused_is_a_warning_and_the_commit_stands(
    location: str, caplog: pytest.LogCaptureFixture
) -> None:
    options = {"hoodie.populate.meta.fields": "false", "hoodie.clustering.inline": "true"}
    table = make(location, options=options | {"hoodie.clustering.inline.max.commits": 1})
    with caplog.at_level(logging.WARNING):
        assert table.insert(orders((1, "a", 1.0, 1)))
    assert rows(table, "id") == [(1,)]
    (told,) = [record for record in caplog.records if "clustering" in record.getMessage()]
    assert "no meta columns" in told.getMessage()


@pytest.mark.row("N16")
def test_upkeep_counts_the_bytes_of_a_plan_that_it_executes(location: str) -> None:
    table = make(location, table_type="merge_on_read")
    table.upsert(orders((1, "a", 1.0, 1)))
    table.upsert(orders((1, "a", 2.0, 2)))
    rules = hudi.UpkeepRules(("compaction",))
    wanted = table.compaction.plan().figures["bytes"]
    assert table.compaction.schedule()
    (left,) = hudi.upkeep(table, hudi.UpkeepRules(("compaction",), bytes=10)).lines
    assert (left.outcome, left.bytes) == (Outcome.LEFT, wanted)
    (line,) = hudi.upkeep(table, rules).lines
    assert (line.outcome, line.bytes) == (Outcome.RAN, wanted)
