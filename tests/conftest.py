"""What every test may use: a place for a table. And how long tests may take."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.register_assert_rewrite("pyhudi_core.testing.lock_kit", "pyhudi_core.testing.storage_kit")

SLOW_TEST_S = 4 * 3600
"""The usual limit is for tests of the quick suite; those of the nightly one try all orders there are."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Slow tests have a limit of their own, unless they name one."""
    for item in items:
        if item.get_closest_marker("slow") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(SLOW_TEST_S))


@pytest.fixture
def location(tmp_path: Path) -> str:
    """Where a test makes its table; nothing is there yet."""
    return str(tmp_path / "table")
