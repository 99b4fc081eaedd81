"""A plugin of pytest for `make mutants`: it runs only the collected tests that a file (PYHUDI_CHOSEN_TESTS) names, in the order of the file."""

from __future__ import annotations

import os
import resource
from pathlib import Path

import pytest

MEMORY = 12 << 30


def pytest_configure() -> None:
    """Limit the memory, because a changed program may ask for any amount of it."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests that the file does not name."""
    names = Path(os.environ["PYHUDI_CHOSEN_TESTS"]).read_text(encoding="utf-8").splitlines()
    place = {name: number for number, name in enumerate(names)}
    left_out = [item for item in items if item.nodeid not in place]
    items[:] = sorted((item for item in items if item.nodeid in place), key=lambda item: place[item.nodeid])
    config.hook.pytest_deselected(items=left_out)
