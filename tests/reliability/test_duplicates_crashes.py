"""The removal of duplicate keys, crashed at storage calls: all surplus rows are gone, or none is, and nothing else is left (promises P1 to P4)."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace

import pytest
from reliability.crash_scenarios import KEPT, Case, audit, leaks_of, setup_for
from reliability.real_table import TableWorld, orders

from pyhudi_core.opened_table.protections import Protections
from pyhudi_core.table import HudiTable
from pyhudi_core.testing import Profile
from pyhudi_core.testing.crash_cases import Audit, CrashPlan
from pyhudi_core.testing.crashes import crash_everywhere


def with_duplicates(world: TableWorld) -> None:
    """Two inserts of one key that began at the same time, by writers that compare no keys at their commits."""
    world.create()
    home = replace(world.home(), protections=Protections(key_check=False))
    writes = [HudiTable(home).begin("insert").write(orders((1, "a", price), (2, "b", 2.0))) for price in (1.0, 3.0)]
    for write in writes:
        write.commit()


def audit_without_duplicates(world: TableWorld, rows: Hashable) -> Audit:
    """As of other operations; but a repair that died leaves the duplicates, which it was to remove."""
    found = audit(world, rows)
    kept = tuple(one for one in found.problems if "is there 2 times" not in one and "duplicate_key" not in one)
    return replace(found, problems=kept)


def crash(kind: Profile, plan: CrashPlan) -> None:
    case = Case(lambda world: world.table().duplicates.run(), with_duplicates, ill=True)
    scenario = replace(case.named("repair_duplicates", setup_for(kind)), audit=audit_without_duplicates)
    report = crash_everywhere(scenario, plan).assert_clean()
    assert leaks_of([report]) <= KEPT


@pytest.mark.row("K11")
def test_a_removal_of_duplicates_that_dies_at_any_call_has_removed_all_or_none() -> None:
    crash(Profile.S3, CrashPlan(share=0.02, twice=0.0))


@pytest.mark.slow
@pytest.mark.row("K11")
@pytest.mark.parametrize("kind", [Profile.S3, Profile.LOCAL_POSIX])
def test_a_removal_of_duplicates_dies_at_every_call(kind: Profile) -> None:
    crash(kind, CrashPlan(twice=0.1, thorough=True))
