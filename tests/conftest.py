"""What every test may use: a place for a table. How long tests may take, and which of them run in one process."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.register_assert_rewrite("pyhudi_core.testing.lock_kit", "pyhudi_core.testing.storage_kit")

HERE = Path(__file__).parent
SLOW_TEST_S = 4 * 3600
"""The usual limit is for tests of the quick suite; those of the nightly one try all orders there are."""


ORDER = ("dagster", "e2e", "spark", "reliability", "unit", "golden", "hostile", "style")
"""Folders of the quick suite; those with the longest files come first, so that no process is left with one of them at the end."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Slow tests have a limit of their own, unless they name one. For `make test` tests are put together that share something."""
    for item in items:
        if item.get_closest_marker("slow") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(SLOW_TEST_S))
    if config.getoption("loadgroup", default=False):
        _share_out(items)


def _share_out(items: list[pytest.Item]) -> None:
    """A file's tests stay in one process, for they share fixtures; all that need Spark do, for there is one session at a time."""
    for item in items:
        item.add_marker(pytest.mark.xdist_group("spark" if item.get_closest_marker("spark") else item.path.stem))
    items.sort(key=lambda item: (item.get_closest_marker("spark") is None, _place_in_order(item)))


def _place_in_order(item: pytest.Item) -> int:
    folder = item.path.relative_to(HERE).parts[0]
    return ORDER.index(folder) if folder in ORDER else len(ORDER)


@pytest.fixture
def location(tmp_path: Path) -> str:
    """Where a test makes its table; nothing is there yet."""
    return str(tmp_path / "table")
