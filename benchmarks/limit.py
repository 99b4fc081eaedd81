"""The limit: pyarrow reads and rewrites a table's own current base files, with the same codec, in one process.

No copy-on-write table can change rows of every file in less time. `python -m benchmarks.limit` starts the process.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from benchmarks.peers.serve import cleared, measured, serve


def current_base_files(table: str) -> list[Path]:
    """The newest base file of each file group, by the begin time in its name.

    This is correct only if all writes completed and no file group was replaced, as in the tables of the benchmarks.
    """
    newest: dict[tuple[Path, str], Path] = {}
    for path in Path(table).rglob("*.parquet"):
        if ".hoodie" in path.relative_to(table).parts or path.name.startswith("."):
            continue
        group = (path.parent, path.name.split("_")[0])
        if group not in newest or _begin(path) > _begin(newest[group]):
            newest[group] = path
    return sorted(newest.values())


def rewrite(table: str, target: str) -> dict[str, Any]:
    """Read each current base file completely and write it again; returns the seconds, and the number and bytes of the files."""
    files = current_base_files(table)
    codecs = {path: _codec(path) for path in files}
    Path(cleared(target)).mkdir(parents=True)

    def work() -> None:
        for number, path in enumerate(files):
            pq.write_table(
                pq.ParquetFile(path).read(),
                Path(target) / f"{number}.parquet",
                **codecs[path],
            )

    answer = measured(work)
    cleared(target)
    return answer | {
        "files": len(files),
        "bytes": sum(path.stat().st_size for path in files),
    }


def _begin(path: Path) -> str:
    return path.stem.split("_")[2]


def _codec(path: Path) -> dict[str, Any]:
    codec = pq.ParquetFile(path).metadata.row_group(0).column(0).compression.lower()
    return {"compression": codec, "compression_level": 1} if codec == "zstd" else {"compression": codec}


if __name__ == "__main__":
    serve(lambda: {"rewrite": lambda command: rewrite(command["table"], command["target"])})
