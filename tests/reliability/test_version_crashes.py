"""A change of the table version, crashed at storage calls: the table is the old one or the new one, readable, and the next call ends the change."""

from __future__ import annotations

import zipfile
from collections.abc import Hashable
from hashlib import sha256

import pytest
from reliability.crash_scenarios import EXPIRES_S, setup_for
from reliability.crash_states import Operation
from reliability.real_table import TableWorld, table_world
from support.golden import OTHER_VERSIONS

from pyhudi_core.doctor.kinds import Area, Severity
from pyhudi_core.testing import Profile
from pyhudi_core.testing.crash_cases import Audit, CrashPlan, CrashScenario, Remains
from pyhudi_core.testing.crashes import crash_everywhere
from pyhudi_core.testing.scheduler import CRASH

AFTER_THE_FIXTURES_MS = 1_795_900_000_000
SIX = ("hudi-0.15.0/mor_event_payload", "hudi-0.15.0/cow_archived")
LEFT = (".hoodie/.heartbeat/", ".hoodie/.temp/", ".hoodie/.aux/.pyhudi/staged/")


def unpacked(world: TableWorld, name: str) -> None:
    with zipfile.ZipFile(OTHER_VERSIONS / name / "table.zip") as archive:
        for path in archive.namelist():
            if not path.endswith("/"):
                world.storage.put(path, archive.read(path))


def read(world: TableWorld) -> Hashable:
    table = world.table()
    rows = table.scan().to_arrow().drop_columns(["_hoodie_file_name"]).sort_by("_hoodie_record_key")
    return (table.config.version, rows.num_rows, sha256(str(rows.to_pydict()).encode()).hexdigest())


def audit(world: TableWorld, _rows: Hashable) -> Audit:
    findings = world.table().check().findings
    wrong = [
        f for f in findings if f.severity is Severity.ERROR or f.area is Area.FILES and f.severity is not Severity.INFO
    ]
    problems = [f"the doctor finds {f.kind}: {f.what}, {f.place()}" for f in wrong]
    paths = [info.path for info in world.storage.list(".hoodie/")]
    # What the build of a metadata table staged may stay, as everywhere: the sweep service removes it.
    problems += [f"left: {path}" for path in paths if path.startswith(LEFT) and ".build." not in path]
    problems += [f"{instant} is pending" for instant in world.table().timeline.pending]
    return Audit(tuple(problems))


def scenario_of(name: str, kind: Profile, operate: Operation) -> CrashScenario[TableWorld]:
    setup = setup_for(kind)

    def world(remains: Remains | None) -> TableWorld:
        if remains is None:
            made = table_world(setup, start_ms=AFTER_THE_FIXTURES_MS)
            unpacked(made, name)
            return made
        made = table_world(setup, image=remains.image, start_ms=remains.time_ms, seed=1)
        made.storage.unfinished.update(remains.unfinished)
        return made

    return CrashScenario(name, world, operate, read, operate, audit, expires_s=EXPIRES_S)


def upgrade(world: TableWorld) -> object:
    return world.table().upgrade(8)


@pytest.mark.row("K11")
def test_a_table_of_version_6_is_raised_or_as_it_was_wherever_the_process_dies() -> None:
    plan = CrashPlan(share=0.0, states=0.07, every_site=False, kinds=(CRASH,))
    report = crash_everywhere(scenario_of("hudi-0.15.0/mor_event_payload", Profile.LOCAL_POSIX, upgrade), plan)
    assert report.assert_clean().recoveries > 2


@pytest.mark.slow
@pytest.mark.row("K11")
@pytest.mark.parametrize("kind", [Profile.S3, Profile.LOCAL_POSIX])
@pytest.mark.parametrize("name", SIX)
def test_a_table_of_version_6_is_raised_or_as_it_was_after_a_crash_at_every_call(name: str, kind: Profile) -> None:
    crash_everywhere(scenario_of(name, kind, upgrade), CrashPlan(twice=0.1)).assert_clean()
