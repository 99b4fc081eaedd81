"""This package as one file that other processes can import."""

from __future__ import annotations

import tempfile
import zipfile
from pathlib import Path

PACKAGES = ("pyhudi", "pyhudi_core")


def zipped_package(version: str) -> str:
    """Write the modules of this package into a new archive, and return its path. The caller removes the archive's folder."""
    root = Path(__file__).parents[2]
    place = Path(tempfile.mkdtemp(prefix="pyhudi-")) / f"pyhudi-{version}.zip"
    with zipfile.ZipFile(place, "w", zipfile.ZIP_DEFLATED) as archive:
        for package in PACKAGES:
            for path in sorted((root / package).rglob("*")):
                if path.is_file() and path.suffix != ".pyc":
                    archive.write(path, path.relative_to(root))
    return str(place)
