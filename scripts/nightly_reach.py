"""Find files of tests whose slow tests no part of `make evidence` runs: ``python scripts/nightly_reach.py``; exit status 1 if there are any.

Nothing is collected, so it takes no time: a part owns every slow test of the files below its paths, today's and tomorrow's. Parts that share a file
by keywords (`Part.keyword`) must include one that runs all other tests (`Part.but`), and parts for single releases must be there for every release.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from scripts.evidence_parts import PARTS, RELEASES, Part  # noqa: E402


def owns(parts: Iterable[Part], releases: Iterable[str] = RELEASES) -> bool:
    """Whether every test of a file that all of these parts run is run by one of them, whatever its name and its release."""
    of_all = [part for part in parts if "HUDI_VERSIONS" not in part.environment]
    keywords = {part.keyword for part in of_all if part.keyword}
    if any(not part.keyword and set(part.but) <= keywords for part in of_all):
        return True
    single = {part.environment["HUDI_VERSIONS"] for part in parts if part not in of_all and not part.keyword}
    return set(releases) <= single


def unowned(files: Iterable[str], quick_leaves_out: tuple[str, ...], parts: Mapping[str, Part] = PARTS) -> list[str]:
    """The files with slow tests that no part runs, or with quick tests that neither `make test` nor a part runs."""
    found = []
    for file in files:
        inside = [
            part for part in parts.values() if file.startswith(part.paths or ("/",)) and file not in part.left_out
        ]
        left_out = file.startswith(quick_leaves_out or ("/",))
        if not owns([part for part in inside if not part.quick]) or (
            left_out and not owns([part for part in inside if not part.slow])
        ):
            found.append(file)
    return found


def main() -> int:
    """List the files."""
    recipe = re.search(r"^test:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    left_out = tuple(re.findall(r"--ignore=(\S+)", recipe.group(1) if recipe else ""))
    files = [path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "tests").rglob("test_*.py"))]
    gone = {path for part in PARTS.values() for path in (*part.paths, *part.left_out) if not (ROOT / path).exists()}
    found = unowned(files, left_out)
    for file in found:
        print(f"no part runs the slow tests of {file}: give the file a part in scripts/evidence_parts.py")
    for path in sorted(gone):
        print(f"scripts/evidence_parts.py names {path}, which does not exist")
    return int(bool(found or gone))


if __name__ == "__main__":
    sys.exit(main())
