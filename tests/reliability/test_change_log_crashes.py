"""Writes that leave change logs, crashed at storage calls: a change log is there if and only if its commit is (promises P1 to P4)."""

from __future__ import annotations

import pytest
from reliability.crash_scenarios import KEPT, leaks_of, scenarios, setup_for

from pyhudi_core.testing import Profile
from pyhudi_core.testing.crash_cases import CrashPlan
from pyhudi_core.testing.crashes import crash_everywhere

CDC = {"hoodie.table.cdc.enabled": "true"}


def crash(kind: Profile, names: tuple[str, ...], plan: CrashPlan) -> None:
    found = [crash_everywhere(scenario, plan).assert_clean() for scenario in scenarios(setup_for(kind, **CDC), names)]
    assert leaks_of(found) <= KEPT


@pytest.mark.row("D6", "K11")
def test_a_write_of_change_logs_that_dies_at_any_call_leaves_none_or_all() -> None:
    crash(Profile.S3, ("upsert_existing",), CrashPlan(share=0.02, twice=0.0))


@pytest.mark.slow
@pytest.mark.row("D6", "K11")
@pytest.mark.parametrize("kind", [Profile.S3, Profile.LOCAL_POSIX])
@pytest.mark.parametrize(
    "name", ["upsert_existing", "upsert_partial", "delete_keys", "insert_overwrite", "repair", "rollback"]
)
def test_every_operation_with_change_logs_dies_at_every_call(kind: Profile, name: str) -> None:
    crash(kind, (name,), CrashPlan(twice=0.1, thorough=True))
