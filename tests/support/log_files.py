"""Log files, HFiles and ORC files that Hudi wrote, from the golden tables."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator

from support.golden import FIXTURES


def golden_logs(release: str = "*") -> Iterator[tuple[str, bytes]]:
    """Name and bytes of every log file."""
    return _members(release, lambda name: name.startswith(".") and ".log." in name and not name.endswith(".crc"))


def golden_hfiles(release: str = "*") -> Iterator[tuple[str, bytes]]:
    """Name and bytes of every HFile base file."""
    return _members(release, lambda name: name.endswith(".hfile"))


def golden_orc_files() -> list[bytes]:
    """Name and bytes of every ORC base file."""
    return [data for _, data in _members("hudi-1.0.2", lambda name: name.endswith(".orc"))]


def _members(release: str, wanted) -> Iterator[tuple[str, bytes]]:
    for archive in sorted(FIXTURES.glob(f"{release}/*/table.zip")):
        with zipfile.ZipFile(archive) as opened:
            for name in sorted(opened.namelist()):
                if wanted(name.rpartition("/")[2]):
                    yield f"{archive.parent.parent.name}/{archive.parent.name}/{name}", opened.read(name)
