"""A plugin of pytest for `make mutants`: of what was collected only the tests that a file names are run, in its order (PYHUDI_CHOSEN_TESTS)."""

from __future__ import annotations

import os
import resource
from pathlib import Path

import pytest

MEMORY = 12 << 30


def pytest_configure() -> None:
    """A changed program may ask for any amount of memory."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is not named."""
    names = Path(os.environ["PYHUDI_CHOSEN_TESTS"]).read_text(encoding="utf-8").splitlines()
    place = {name: number for number, name in enumerate(names)}
    left_out = [item for item in items if item.nodeid not in place]
    items[:] = sorted((item for item in items if item.nodeid in place), key=lambda item: place[item.nodeid])
    config.hook.pytest_deselected(items=left_out)
