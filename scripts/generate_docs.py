"""Write the pages that are generated from the code: ``python scripts/generate_docs.py``; ``--check`` only lists the pages that are out of date."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from pyhudi_core.options import render_docs  # noqa: E402

PAGES: dict[str, Callable[[], str]] = {"docs/options.md": render_docs}
"""Each page, and the function that renders it. ``docs/evidence.md`` is written by ``make evidence``, from runs."""


def stale() -> list[str]:
    """The pages that differ from the text that the code generates now."""
    return [path for path, render in PAGES.items() if not _is_current(ROOT / path, render())]


def main() -> None:
    """Write the pages; with ``--check``, end with an error that names the pages that are out of date."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing, fail if a page is out of date")
    check = parser.parse_args().check
    old = stale()
    if check and old:
        sys.exit(f"out of date: {', '.join(old)}; run python scripts/generate_docs.py")
    for path in old:
        (ROOT / path).parent.mkdir(parents=True, exist_ok=True)
        (ROOT / path).write_text(PAGES[path](), encoding="utf-8")
        print("wrote", path)


def _is_current(page: Path, text: str) -> bool:
    return page.exists() and page.read_text(encoding="utf-8") == text


if __name__ == "__main__":
    main()
