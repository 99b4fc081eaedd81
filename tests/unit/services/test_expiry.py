"""Partitions expire by their last write or by their creation, go by one commit, and stay if a writer was faster."""

from __future__ import annotations

import json
from dataclasses import replace

import pyarrow as pa
import pytest
from click.testing import CliRunner
from reliability.real_table import FULL, TableSetup, TableWorld, orders, rows_of, table_world
from reliability.service_runs import budget, in_many_orders
from support.tables import make
from support.tables import orders as rows_on_disk

import pyhudi_core as hudi
from pyhudi_core.cli.main import main
from pyhudi_core.errors import CommitAbortedError, InvalidOptionError
from pyhudi_core.table import HudiTable
from pyhudi_core.testing import Bounds, History, SimOptions

DAY_S = 86_400
NEVER = {"hoodie__partition__ttl__strategy__days__retain": 0}
RETAIN = {"hoodie.partition.ttl.strategy.days.retain": 10}
CREATION = {"hoodie.partition.ttl.management.strategy.type": "KEEP_BY_CREATION_TIME"}


def world_of(kind: str = "COPY_ON_WRITE") -> TableWorld:
    """Two partitions of day 0; one of them is updated on day 8, and it is day 12."""
    world = table_world(TableSetup(options={**FULL, "hoodie.table.type": kind}))
    world.create()
    world.table().upsert(orders((1, "a", 1.0), (2, "b", 2.0)))
    world.wait(8 * DAY_S)
    world.table().upsert(orders((2, "b", 2.5)))
    world.wait(4 * DAY_S)
    return world


def opened(world: TableWorld, **options: object) -> HudiTable:
    more = {name.replace("__", "."): value for name, value in options.items()}
    world.setup = replace(world.setup, options={**world.setup.options, **RETAIN, **more})
    return world.table()


@pytest.mark.row("N12")
@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_a_partition_that_was_not_written_to_for_so_long_is_deleted(kind: str) -> None:
    world = world_of(kind)
    table = opened(world)
    before = world.storage.image()
    plan = table.expiry.plan()
    assert world.storage.image() == before
    assert plan.paths == ("day=a",)
    assert (plan.figures["partitions"], plan.figures["rows"]) == (1, 1)
    assert plan.figures["bytes"] > 0
    done = table.expiry.run(extra_metadata={"who": "me"})
    assert (done.partitions, done.rows) == (("day=a",), 1)
    assert rows_of(world.table()) == ((2, "b", 2.5),)
    commit = world.table().commit_metadata(done.instants[0])
    assert (commit.operation, commit.extra["who"]) == ("DELETE_PARTITION", "me")
    assert str(table.commit_status(done.token)) == "committed"
    assert not table.expiry.run()
    assert "none is older than 10 days" in table.expiry.plan().why_not


@pytest.mark.row("N12")
def test_by_creation_time_writes_do_not_extend_the_life_of_a_partition() -> None:
    world = world_of()
    table = opened(world, **CREATION)
    assert table.expiry.plan().paths == ("day=a", "day=b")
    assert table.expiry.run().rows == 2
    # The metafile of a deleted partition is still there, with its old time.
    table.upsert(orders((3, "a", 3.0)))
    assert not table.expiry.plan()
    world.wait(11 * DAY_S)
    assert table.expiry.plan().paths == ("day=a",)


@pytest.mark.row("N12")
def test_a_deletion_that_is_archived_protects_a_partition_that_came_back() -> None:
    world = world_of()
    limits = {"hoodie__keep__min__commits": 1, "hoodie__keep__max__commits": 2, "hoodie__clean__commits__retained": 1}
    table = opened(world, **CREATION, **limits)
    assert table.expiry.run()
    for number in range(4):
        table.upsert(orders((3, "a", float(number))))
    table.cleaning.run()  # archival keeps the commit until a clean has deleted what it replaced
    table.archival.run()
    assert not [i for i in world.table().timeline.commits if world.table().commit_metadata(i).replaced]
    assert not opened(world).expiry.plan()


@pytest.mark.row("N12")
def test_only_selected_partitions_and_at_most_so_many_expire() -> None:
    world = world_of()
    world.wait(30 * DAY_S)
    selected = opened(world, hoodie__partition__ttl__strategy__partition__selected="day=b,day=x")
    assert selected.expiry.plan().paths == ("day=b",)
    bounded = opened(
        world,
        hoodie__partition__ttl__strategy__partition__selected="",
        hoodie__partition__ttl__strategy__max__delete__partitions=1,
    )
    assert bounded.expiry.plan().paths == ("day=a",), "the longest expired first"
    assert "1 more have expired" in bounded.expiry.plan().why_not


@pytest.mark.row("N12")
def test_commits_delete_what_has_expired_if_the_option_says_so() -> None:
    world = world_of()
    opened(world, hoodie__partition__ttl__inline="true").upsert(orders((5, "c", 5.0)))
    assert rows_of(world.table()) == ((2, "b", 2.5), (5, "c", 5.0))


@pytest.mark.row("N12")
def test_a_table_keeps_when_its_partitions_expire_for_processes_without_the_option() -> None:
    world = world_of()
    world.table().alter(partitions_expire=20)
    assert "none is older than 20 days" in world.table().expiry.plan().why_not
    world.table().alter(partitions_expire=10)
    assert world.table().rules.partitions_expire == 10
    assert world.table().expiry.plan().paths == ("day=a",)
    assert not opened(world, **NEVER).expiry.plan(), "an option goes before the rule"
    world.setup = replace(world.setup, options=dict(FULL))
    world.table().alter(comment="orders")
    assert world.table().expiry.run().rows == 1
    world.table().alter(partitions_expire=0)
    assert world.table().rules == hudi.TableRules(comment="orders")


def test_when_partitions_expire_is_a_number_of_days_of_a_table_with_partitions(location: str) -> None:
    schema = pa.schema([("id", pa.int64()), ("day", pa.string())])
    rules = hudi.TableRules(partitions_expire=7)
    table = hudi.create_table(f"{location}/days", schema, "id", "day", rules=rules)
    assert hudi.open_table(table.location).rules == rules
    assert hudi.create_table(table.location, schema, "id", "day", rules=rules, exist_ok=True).rules == rules
    plain = hudi.create_table(f"{location}/plain", schema, "id")
    for refused in (
        lambda: plain.alter(partitions_expire=7),
        lambda: hudi.create_table(f"{location}/new", schema, "id", rules=rules),
    ):
        with pytest.raises(InvalidOptionError, match="the table has no partitions"):
            refused()
    for wrong in (-1, "week", True):
        with pytest.raises(InvalidOptionError, match="a number of days"):
            table.alter(partitions_expire=wrong)  # type: ignore[arg-type]
    shown = CliRunner().invoke(main, ["show", table.location])
    assert "after 7 days" in shown.output


def test_tables_in_which_nothing_can_expire_say_why() -> None:
    world = table_world(TableSetup(options=dict(FULL)))
    world.create(partitioned=False)
    assert opened(world).expiry.plan().why_not == "the table has no partitions"
    other = world_of()
    assert "days.retain is -1, and so none ever does" in other.table().expiry.plan().why_not
    assert "days.retain is 0, and so none ever does" in opened(other, **NEVER).expiry.plan().why_not


def test_a_gate_that_says_no_keeps_the_partitions() -> None:
    world = world_of()
    with pytest.raises(CommitAbortedError):
        opened(world).expiry.run(gate=lambda: False)
    assert rows_of(world.table()) == ((1, "a", 1.0), (2, "b", 2.5))


@pytest.mark.row("N12", "K6")
def test_a_partition_that_a_writer_touches_meanwhile_stays() -> None:
    made = world_of()
    image, now = made.storage.image(), made.scheduler.time_ms
    setup = TableSetup(SimOptions(lease_s=60, image=image, start_ms=now + 1_000), {**FULL, **RETAIN})

    def write(world: TableWorld) -> object:
        return world.table().upsert(orders((1, "a", 9.0)))

    def check(world: TableWorld, history: History) -> None:
        assert not list(history.of("fail")), history
        assert rows_of(world.table()) == ((1, "a", 9.0), (2, "b", 2.5)), "the update is never lost"
        assert not world.table().expiry.plan()
        assert world.table().check().ok

    expire = lambda world: world.table().expiry.run()  # noqa: E731
    in_many_orders(
        "expiry beside an update", setup, (expire, write), check, Bounds(preemptions=1, schedules=budget(25)), budget(5)
    )


def test_the_command_shows_partitions_and_deletes_them(location: str) -> None:
    table = make(location)
    table.upsert(rows_on_disk((1, "a", 1.0)))
    run = CliRunner().invoke
    shown = run(main, ["expire", location, "--plan", "--days", "1", "--json"])
    assert json.loads(shown.output)["partitions"] == []
    assert "none is older than 1 days" in run(main, ["expire", location, "--days", "1"]).output
    assert run(main, ["expire", f"{location}/none"]).exit_code == 2
