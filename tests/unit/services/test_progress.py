"""Plans estimate how long they would take, and executions report how far they are to a callable that is given from outside."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner
from rich.console import Console
from support.archival import filled as with_instants
from support.cleanings import filled as with_slices
from support.cleanings import keeping
from support.compactions import planned, with_logs
from support.indexing import made as without_indexes
from support.restores import table_of_four
from support.tables import make, orders, reopen, rows

import pyhudi_core as hudi
from pyhudi_core.cli.main import main
from pyhudi_core.cli.progress import progress_bar
from pyhudi_core.errors import UnsafePathError
from pyhudi_core.services.progress import ServiceProgress
from pyhudi_core.services.service import ServicePlan
from pyhudi_core.storage.opening import open_storage
from pyhudi_core.transaction import removal

pytestmark = pytest.mark.row("N1", "N16")
Reported = list[tuple[str, int, int]]


def compacted(location: str) -> hudi.HudiTable:
    return with_logs(location)


def clustered(location: str) -> hudi.HudiTable:
    table = reopen(make(location), hoodie__parquet__small__file__limit=0)
    for key in (1, 2):
        table.insert(orders((key, "a", 1.0)))
    return table


def cleaned(location: str) -> hudi.HudiTable:
    return keeping(with_slices(location))


def indexed(location: str) -> hudi.HudiTable:
    return without_indexes("cow", location)


def archived(location: str) -> hudi.HudiTable:
    return with_instants(location, 8)[0]


def swept(location: str) -> hudi.HudiTable:
    table = reopen(make(location), pyhudi__sweep__min__age__minutes=0)
    table.upsert(orders((1, "a", 1.0)))
    (path,) = Path(location, "day=a").glob("*.parquet")
    Path(location, "day=a", f"{'0' * 36}-0_0-0-0_20200101000000000.parquet").write_bytes(path.read_bytes())
    return table


def restored(location: str) -> hudi.HudiTable:
    return table_of_four(location)[0]


def logs_compacted(location: str) -> hudi.HudiTable:
    return reopen(with_logs(location), hoodie__log__compaction__blocks__threshold=2)


Run = Callable[[hudi.HudiTable, ServiceProgress | None], tuple[ServicePlan, object]]


def of(name: str) -> Run:
    def run(table: hudi.HudiTable, progress: ServiceProgress | None) -> tuple[ServicePlan, object]:
        service = table.services[name]
        return service.plan(), service.run(progress=progress)

    return run


def build(table: hudi.HudiTable, progress: ServiceProgress | None) -> tuple[ServicePlan, object]:
    names = ["record_index", "column_stats"]
    return table.indexing.plan(names), table.indexing.run(partitions=names, progress=progress)


def restore(table: hudi.HudiTable, progress: ServiceProgress | None) -> tuple[ServicePlan, object]:
    to = table.timeline.commits.instants[1]
    return table.restore.plan(to), table.restore.run(to, progress=progress)


SERVICES: dict[str, tuple[Callable[[str], hudi.HudiTable], Run, str, int]] = {
    "compaction": (compacted, of("compaction"), "rewrite file groups", 2),
    "log compaction": (logs_compacted, of("log_compaction"), "rewrite file groups", 1),
    "clustering": (clustered, of("clustering"), "write file groups", 1),
    "cleaning": (cleaned, of("cleaning"), "delete files", 2),
    "indexing": (indexed, build, "build indexes", 2),
    "archival": (archived, of("archival"), "archive instants", 0),
    "sweep": (swept, of("sweep"), "delete files", 1),
    "restore": (restored, restore, "undo instants", 2),
}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", SERVICES)
def test_a_plan_says_files_bytes_and_seconds_and_its_execution_says_how_far_it_is(location: str, name: str) -> None:
    made, run, what, total = SERVICES[name]
    told: Reported = []
    plan, done = run(made(location), lambda *step: told.append(step))
    assert plan, plan.why_not
    assert done
    assert min(plan.figures["files"], plan.figures["bytes"]) > 0
    assert 0.1 < plan.figures["estimated_seconds"] < 10
    mine = [step for step in told if step[0] == what]
    assert mine[0][1] == 0
    if total:
        assert mine[0] == (what, 0, total)
        assert mine[-1] == (what, total, total)


def test_a_progress_that_raises_ends_the_execution_and_the_plan_stays(location: str) -> None:
    table = with_logs(location)
    before, plan = rows(table, "id", "price"), planned(table)

    def failing(what: str, done: int, total: int) -> None:
        if done:
            raise RuntimeError("the watcher has gone")

    with pytest.raises(RuntimeError, match="the watcher has gone"):
        table.compaction.execute(plan, progress=failing)
    assert rows(table, "id", "price") == before
    assert [i.requested_time for i in table.compaction.waiting()] == [plan.requested_time]
    assert table.compaction.execute(plan)
    assert rows(table, "id", "price") == before
    assert table.check().ok


def test_files_are_deleted_in_portions_and_none_if_one_path_is_unsafe(
    location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(removal, "_PORTION", 2)
    storage = open_storage(location)
    names = [f"a/{number}{'0' * 35}-0_0-0-0_20200101000000000.parquet" for number in range(5)]
    for path in names:
        storage.put(path, b"x")
    gone: list[int] = []
    with pytest.raises(UnsafePathError):
        removal.delete_data_files(storage, [*names, ".hoodie/hoodie.properties"], gone=gone.append)
    assert (len(storage.list("a/")), gone) == (5, [])
    removal.delete_data_files(storage, names, gone=gone.append)
    assert (len(storage.list("a/")), gone) == (0, [2, 2, 1])


def test_the_bar_shows_the_farthest_number_and_no_secrets_or_control_characters() -> None:
    shown = io.StringIO()
    with progress_bar("compaction", Console(file=shown, force_terminal=True, width=100)) as progress:
        for done in (0, 2, 1):
            progress("rewrite \x1b[31mfiles", done, 4)
    text = shown.getvalue()
    assert "2/4" in text
    assert "1/4" not in text
    assert "\x1b[31mfiles" not in text


def test_commands_show_the_estimate_and_no_bar_without_a_terminal(location: str) -> None:
    with_logs(location)
    planned_text = CliRunner().invoke(main, ["compact", location, "--plan"]).output
    assert "(about 0.1 s)" in planned_text
    assert '"estimated_seconds": 0.1' in CliRunner().invoke(main, ["compact", location, "--plan", "--json"]).output
    done = CliRunner().invoke(main, ["compact", location])
    assert (done.exit_code, done.stderr) == (0, "")
