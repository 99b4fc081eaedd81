"""Random sequences of writes, crashes, wrong clocks, expiring locks and archival leave a table that keeps its promises (P1 to P7, P10).

The quick suite runs 200 sequences; ``PYHUDI_MACHINE=20000`` runs so many, which `make machine` does.
"""

from __future__ import annotations

import os
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test
from reliability.table_machine import SETUPS, TableMachine

from pyhudi_core.transaction.protections import Protections

EXAMPLES = int(os.environ.get("PYHUDI_MACHINE", "200"))


def run(examples: int) -> None:
    """So many sequences."""
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        TableMachine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=6,
            deadline=None,
            database=None,
            phases=(Phase.generate,),  # an example is short; making it shorter would take minutes
            derandomize=examples <= 200,
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.mark.row("K11", "K13")
@pytest.mark.timeout(300 + 2 * EXAMPLES)
def test_no_sequence_of_writes_crashes_and_accidents_breaks_a_promise() -> None:
    run(EXAMPLES)


NOTICED = {
    "key_check": "a key is there twice",
    "commit_record": "is none of|no order of",
    "roll_forward": "is none of|no order of",
    "admission_by_name": "a key is there twice|is none of",
}
"""Protections that are off, and what the machine says of them; `test_load_bearing` has a scenario for each of all protections."""


@pytest.mark.parametrize("protection", NOTICED)
def test_the_machine_notices_a_protection_that_is_off(protection: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for kind, setup in SETUPS.items():
        monkeypatch.setitem(SETUPS, kind, replace(setup, protections=Protections(**{protection: False})))
    with pytest.raises(AssertionError, match=NOTICED[protection]):
        run(200)
