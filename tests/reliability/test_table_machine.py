"""After random sequences of writes, crashes, wrong clocks, expiring locks and archival, a table keeps its promises (P1 to P7, P10).

The quick suite runs 200 sequences; ``PYHUDI_MACHINE=20000`` runs so many, which the part `machine` of `make evidence` does: in slices whose seeds are their numbers, so
that a slice that fails fails again (``PYHUDI_MACHINE=500 PYHUDI_MACHINE_FIRST=17`` runs slice 17 alone).
"""

from __future__ import annotations

import os
import time
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test
from reliability.table_machine import SETUPS, TableMachine

from benchmarks.recording import record
from pyhudi_core.opened_table.protections import Protections

EXAMPLES = int(os.environ.get("PYHUDI_MACHINE", "200"))
FIRST = int(os.environ.get("PYHUDI_MACHINE_FIRST", "0"))
SLICE = 500
MOST = 2000
"""Sequences until a protection that is off has to be noticed: several times what it took with any of eight seeds (2 to 829)."""


def run(examples: int, number: int = 0) -> None:
    """So many sequences; the same ones for the same numbers."""
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        seed(number)(type("TableMachine", (TableMachine,), {})),
        settings=settings(
            max_examples=examples,
            stateful_step_count=6,
            deadline=None,
            database=None,
            phases=(Phase.generate,),  # an example is short; making it shorter would take minutes
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.mark.row("K11", "K13")
@pytest.mark.timeout(300 + 2 * EXAMPLES)
def test_no_sequence_of_writes_crashes_and_accidents_breaks_a_promise() -> None:
    for number, done in enumerate(range(0, EXAMPLES, SLICE), FIRST):
        size = min(SLICE, EXAMPLES - done)
        print(f"slice {number}: {size} sequences", flush=True)
        began = time.process_time()
        run(size, number)
        if size == SLICE:
            record("sequences", {f"slice {number}": {"sequences": size, "seconds": round(time.process_time() - began)}})


NOTICED = {
    "key_check": "a key is there twice",
    "commit_record": "is not one of|no order of",
    "roll_forward": "is not one of|no order of",
    "admission_by_name": "a key is there twice|is not one of",
}
"""Protections that are off, and what the machine says of them; `test_load_bearing` has a scenario for each of all protections."""


@pytest.mark.one_in(4)
@pytest.mark.parametrize("protection", NOTICED)
def test_the_machine_notices_a_protection_that_is_off(protection: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for kind, setup in SETUPS.items():
        monkeypatch.setitem(SETUPS, kind, replace(setup, protections=Protections(**{protection: False})))
    with pytest.raises(AssertionError, match=NOTICED[protection]):
        run(MOST, 1)  # ends with the first that notices it
