"""What every test may use: a place for a table."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def location(tmp_path: Path) -> str:
    """Where a test makes its table; nothing is there yet."""
    return str(tmp_path / "table")
