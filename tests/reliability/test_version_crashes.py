"""A change of the table version, crashed at storage calls: the table is the old one or the new one, readable, and the next call ends the change."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Hashable
from hashlib import sha256

import pytest
from reliability import crash_scenarios
from reliability import crash_states as states
from reliability.crash_scenarios import EXPIRES_S, setup_for
from reliability.crash_states import Operation
from reliability.real_table import TableWorld, rows_of, table_world
from support.golden import FIXTURES, OTHER_VERSIONS

from pyhudi_core.doctor.kinds import Area, Severity
from pyhudi_core.errors import TableVersionError
from pyhudi_core.metadata_table.index_definitions import read_definitions
from pyhudi_core.model.properties import RAISED_AT, V2
from pyhudi_core.opened_table.table_context import METADATA_TABLE
from pyhudi_core.storage.below import StorageBelow
from pyhudi_core.testing import Profile
from pyhudi_core.testing.crash_cases import Audit, CrashPlan, CrashScenario, Remains
from pyhudi_core.testing.crashes import crash_everywhere
from pyhudi_core.testing.scheduler import CRASH
from pyhudi_core.timeline import properties_file

AFTER_THE_FIXTURES_MS = 1_795_900_000_000
SIX = ("hudi-0.15.0/mor_event_payload", "hudi-0.15.0/cow_archived")
LEFT = (".hoodie/.heartbeat/", ".hoodie/.temp/", ".hoodie/.aux/.pyhudi/staged/")


def unpacked(world: TableWorld, name: str) -> None:
    root = OTHER_VERSIONS if (OTHER_VERSIONS / name).exists() else FIXTURES
    with zipfile.ZipFile(root / name / "table.zip") as archive:
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


def scenario_of(
    name: str, kind: Profile, operate: Operation, prepare: Callable[[TableWorld], None] = lambda world: None
) -> CrashScenario[TableWorld]:
    setup = setup_for(kind)

    def world(remains: Remains | None) -> TableWorld:
        if remains is None:
            made = table_world(setup, start_ms=AFTER_THE_FIXTURES_MS)
            unpacked(made, name)
            prepare(made)
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


# --- commits that an upgrade of Hudi left on the old timeline


def with_a_commit_left_behind(world: TableWorld) -> None:
    """The table as if Hudi had raised it, and had not been able to read the newest commit."""
    table = world.table()
    table.upgrade(8)
    newest = table.timeline.commits[-1].requested_time
    storage = world.storage
    properties = storage.get(properties_file.PATH).decode().splitlines(keepends=True)
    storage.put(properties_file.PATH, "".join(x for x in properties if not x.startswith(RAISED_AT)).encode())
    for info in [*storage.list(".hoodie/timeline/"), *storage.list(".hoodie/.aux/.pyhudi/")]:
        if "/.pyhudi/" in info.path or newest in info.path:
            storage.delete(info.path)


@pytest.mark.row("K11")
def test_a_commit_that_was_left_behind_is_there_or_not_wherever_the_process_dies() -> None:
    plan = CrashPlan(share=0.0, states=0.1, every_site=False, kinds=(CRASH,))
    scenario = scenario_of("hudi-0.15.0/cow_plain", Profile.LOCAL_POSIX, upgrade, with_a_commit_left_behind)
    assert crash_everywhere(scenario, plan).assert_clean().recoveries > 2


@pytest.mark.slow
@pytest.mark.row("K11")
@pytest.mark.parametrize("kind", [Profile.S3, Profile.LOCAL_POSIX])
def test_a_commit_that_was_left_behind_is_there_or_not_after_a_crash_at_every_call(kind: Profile) -> None:
    scenario = scenario_of("hudi-0.15.0/cow_plain", kind, upgrade, with_a_commit_left_behind)
    crash_everywhere(scenario, CrashPlan(twice=0.1)).assert_clean()


# --- to version 6

EIGHT = ("hudi-1.0.2/mor_avro", "hudi-1.0.2/cow_indexed")


def lower(world: TableWorld) -> object:
    return world.table().downgrade(6)


@pytest.mark.row("K11")
def test_a_table_of_version_8_is_lowered_to_6_or_as_it_was_wherever_the_process_dies() -> None:
    plan = CrashPlan(share=0.0, states=0.015, every_site=False, kinds=(CRASH,))
    report = crash_everywhere(scenario_of("hudi-1.0.2/mor_avro", Profile.LOCAL_POSIX, lower), plan)
    assert report.assert_clean().recoveries > 2


@pytest.mark.slow
@pytest.mark.row("K11")
@pytest.mark.parametrize("kind", [Profile.S3, Profile.LOCAL_POSIX])
@pytest.mark.parametrize("name", EIGHT)
def test_a_table_of_version_8_is_lowered_to_6_or_as_it_was_after_a_crash_at_every_call(
    name: str, kind: Profile
) -> None:
    crash_everywhere(scenario_of(name, kind, lower), CrashPlan(twice=0.1)).assert_clean()


# --- versions 8 and 9


def with_indexes_of_version_8(world: TableWorld) -> None:
    """A table of version 8 whose metadata table has a secondary index."""
    states.with_secondary_index(world)


def with_an_index_of_version_9(world: TableWorld) -> None:
    """A table of version 9; its secondary index is one that version 8 cannot have."""
    states.with_kept_metadata_table(world)
    world.table().upgrade(9)
    world.table().indexes.create("by_day", ["day"])


def to_9(world: TableWorld) -> object:
    return world.table().upgrade(9)


def to_8(world: TableWorld) -> object:
    return world.table().downgrade(8)


def read_by_all_ways(world: TableWorld) -> Hashable:
    """The version, all rows, and the rows that an index finds."""
    table = world.table()
    found = table.scan(where="day = 'b'", columns=["id"]).to_arrow().column("id").to_pylist()
    return (table.config.version, rows_of(table), tuple(sorted(found)))


def audit_of_versions(world: TableWorld, seen: Hashable) -> Audit:
    """The usual audit; and the metadata table and its indexes have the version of the table."""
    assert isinstance(seen, tuple)
    version, rows, _ = seen
    usual = crash_scenarios.audit(world, rows)
    problems = list(usual.problems)
    of_metadata = properties_file.read(StorageBelow(world.storage, METADATA_TABLE))["hoodie.table.version"]
    if of_metadata != str(version):
        problems.append(f"the metadata table has version {of_metadata}, the table {version}")
    table = world.table()
    for one in read_definitions(world.storage, table.config.index_defs_path):
        if version == 8 and one.version == V2:
            problems.append(f"the index {one.name} is of the second version")
    return Audit(tuple(problems), usual.leaks, usual.left_overs)


def write_on(world: TableWorld) -> object:
    """Write; once more, if this write has published the change of a dead process, which is told then."""
    write = states.upsert(*crash_scenarios.NEXT)
    try:
        return write(world)
    except TableVersionError:
        return write(world)


CHANGES = {"8 to 9": (with_indexes_of_version_8, to_9), "9 to 8": (with_an_index_of_version_9, to_8)}
NEXT_WRITERS = {"a write": write_on, "the same again": None}


def scenario_of_change(name: str, kind: Profile, writer: str) -> CrashScenario[TableWorld]:
    prepare, change = CHANGES[name]
    setup = setup_for(kind)

    def world(remains: Remains | None) -> TableWorld:
        if remains is None:
            made = table_world(setup)
            prepare(made)
            return made
        made = table_world(setup, image=remains.image, start_ms=remains.time_ms, seed=1)
        made.storage.unfinished.update(remains.unfinished)
        return made

    proceed = NEXT_WRITERS[writer] or change
    return CrashScenario(name, world, change, read_by_all_ways, proceed, audit_of_versions, expires_s=EXPIRES_S)


@pytest.mark.row("K11")
@pytest.mark.parametrize("name", CHANGES)
def test_a_table_has_version_8_or_9_and_all_its_rows_wherever_the_process_dies(name: str) -> None:
    plan = CrashPlan(share=0.2, states=0.3, every_site=False, kinds=(CRASH,))
    report = crash_everywhere(scenario_of_change(name, Profile.LOCAL_POSIX, "a write"), plan)
    assert report.assert_clean().recoveries > 1


@pytest.mark.slow
@pytest.mark.row("K11")
@pytest.mark.parametrize("kind", [Profile.S3, Profile.LOCAL_POSIX])
@pytest.mark.parametrize("writer", NEXT_WRITERS)
@pytest.mark.parametrize("name", CHANGES)
def test_a_table_has_version_8_or_9_and_all_its_rows_after_a_crash_at_every_call(
    name: str, writer: str, kind: Profile
) -> None:
    crash_everywhere(scenario_of_change(name, kind, writer), CrashPlan(twice=0.1)).assert_clean()
