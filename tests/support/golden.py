"""Tables that Apache Hudi wrote, unpacked for a test."""

from __future__ import annotations

import zipfile
from pathlib import Path

FIXTURES = Path(__file__).resolve().parents[1] / "golden" / "fixtures"


def unpack(name: str, target: str | Path) -> str:
    """Unpack a table such as ``hudi-1.0.2/cow_plain``; returns its location."""
    with zipfile.ZipFile(FIXTURES / name / "table.zip") as archive:
        archive.extractall(target)
    return str(target)
