"""The content of a folder on disk: names and bytes, to compare before and after an operation."""

from __future__ import annotations

import os
from pathlib import Path


def contents(root: str | Path) -> dict[str, bytes | None]:
    """Every file (with its bytes), folder (None) and link (with its target) below a path, including files that readers ignore."""
    base = Path(root)
    return {str(path.relative_to(base)): _content(path) for path in sorted(base.rglob("*"))}


def _content(path: Path) -> bytes | None:
    if path.is_symlink():
        return os.fsencode(os.readlink(path))
    return path.read_bytes() if path.is_file() else None


def files(root: str | Path, pattern: str = "*") -> list[str]:
    """The files below a path whose names match, as sorted paths relative to it."""
    base = Path(root)
    return sorted(str(path.relative_to(base)) for path in base.rglob(pattern) if path.is_file())


def data_files(root: str | Path) -> list[str]:
    """The base files of a table."""
    return [path for path in files(root, "*.parquet") if not path.startswith(".hoodie/")]
