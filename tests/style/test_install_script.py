"""`make install` takes the quickest Python of the machine, and stays with its own one if the others are about as quick."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from scripts import install


@pytest.mark.parametrize(
    ("times", "found"),
    [
        ({"own": 1.0}, "own"),
        ({"own": 1.0, "built with a profile": 0.8}, "built with a profile"),
        ({"own": 1.0, "other": 0.95}, "own"),
        ({"own": 1.0, "slow": 1.2, "quick": 0.7, "quicker": 0.6}, "quicker"),
    ],
)
def test_another_python_is_taken_only_if_it_is_clearly_quicker(times: dict[str, float], found: str) -> None:
    assert install.quickest(list(times), times.__getitem__) == found


def test_of_several_measurements_the_shortest_counts() -> None:
    measured: Iterator[float] = iter([1.0, 5.0, 1.0, 0.5] + [1.0, 5.0] * (install.ROUNDS - 2))
    assert install.quickest(["own", "interrupted twice"], lambda _: next(measured)) == "interrupted twice"


def test_the_python_that_runs_can_be_measured() -> None:
    assert 0 < install.seconds(sys.executable) < 60


def test_an_environment_is_no_python_to_make_one_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", sys.prefix + "/bin")
    version = "{}.{}".format(*sys.version_info[:2])
    assert sys.prefix not in "".join(install.others(version))
