"""What lies on a disk: names and bytes, to compare before and after."""

from __future__ import annotations

from pathlib import Path


def contents(root: str | Path) -> dict[str, bytes | None]:
    """Every file (with its bytes) and every folder (None) below a path; also what readers pass over."""
    base = Path(root)
    return {
        str(path.relative_to(base)): path.read_bytes() if path.is_file() else None for path in sorted(base.rglob("*"))
    }


def files(root: str | Path, pattern: str = "*") -> list[str]:
    """The files below a path whose name fits, as paths relative to it; sorted."""
    base = Path(root)
    return sorted(str(path.relative_to(base)) for path in base.rglob(pattern) if path.is_file())


def data_files(root: str | Path) -> list[str]:
    """The base files of a table."""
    return [path for path in files(root, "*.parquet") if not path.startswith(".hoodie/")]
