"""Write the pages that are generated from the code: ``python scripts/generate_docs.py``; ``--check`` only lists the pages that are out of date."""

from __future__ import annotations

import argparse
import importlib
import inspect
import re
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from pyhudi_core.lock.kind import LockKind  # noqa: E402
from pyhudi_core.lock.kinds import every_kind  # noqa: E402
from pyhudi_core.options.registry import render_docs, render_own_options  # noqa: E402
from pyhudi_core.statements.procedures import render_procedures  # noqa: E402
from scripts.conflict_table import render as render_conflicts  # noqa: E402
from scripts.refusal_table import render as render_refusals  # noqa: E402

NAMES = ("<!-- names: written by scripts/generate_docs.py -->", "<!-- end of names -->")
"""What is between these lines of ``docs/api.md`` is written from the docstrings."""

OWN_OPTIONS = ("<!-- options of {}: written by scripts/generate_docs.py -->", "<!-- end of options -->")
"""What is between these lines of ``docs/locks.md`` is written from the lock's module."""

PROCEDURES_OF_CALL = ("<!-- procedures: written by scripts/generate_docs.py -->", "<!-- end of procedures -->")
"""What is between these lines of ``docs/sql.md`` is written from `PROCEDURES`."""


def locks_page() -> str:
    """``docs/locks.md`` with the options of each kind of lock."""
    page = (ROOT / "docs/locks.md").read_text(encoding="utf-8")
    for kind in filter(LockKind.options, every_kind()):
        begin, end = OWN_OPTIONS[0].format(kind.name), OWN_OPTIONS[1]
        if begin not in page:
            sys.exit(
                f"docs/locks.md has no place for the options of {kind.name}: write {begin} and {end} into its section"
            )
        page = _with(page, (begin, end), render_own_options(kind))
    return page


def api_page() -> str:
    """``docs/api.md`` with the public names of each module, and the first sentence of what each one is."""
    tables = "\n\n".join(map(_names_of, ("pyhudi", "pyhudi.spark", "pyhudi.testing")))
    return _with((ROOT / "docs/api.md").read_text(encoding="utf-8"), NAMES, tables)


def _names_of(module: str) -> str:
    found = importlib.import_module(module)
    rows = [f"| `{name}` | {_first_sentence(getattr(found, name))} |" for name in found.__all__ if name != "errors"]
    return "\n".join([f"| `{module}` | |", "|---|---|", *rows])


def _first_sentence(thing: object) -> str:
    is_documented = inspect.isclass(thing) or inspect.isfunction(thing)
    text = (inspect.getdoc(thing) or "") if is_documented else f"The type `{thing}`"
    sentence = " ".join(text.partition("\n\n")[0].split())
    return re.split(r"(?<=[.;]) ", sentence)[0].rstrip(".;:").replace("|", "\\|") + "."


def sql_page() -> str:
    """``docs/sql.md`` with all procedures of Hudi, and why some are refused."""
    return _with((ROOT / "docs/sql.md").read_text(encoding="utf-8"), PROCEDURES_OF_CALL, render_procedures())


def _with(page: str, marks: tuple[str, str], text: str) -> str:
    """Return a page with another text between two lines of it."""
    begin, end = marks
    before, _, rest = page.partition(begin)
    return f"{before}{begin}\n\n{text}\n\n{end}{rest.partition(end)[2]}"


PAGES: dict[str, Callable[[], str]] = {
    "docs/options.md": render_docs,
    "docs/conflicts.md": render_conflicts,
    "docs/refusals.md": render_refusals,
    "docs/api.md": api_page,
    "docs/locks.md": locks_page,
    "docs/sql.md": sql_page,
}
"""Each page, and the function that renders it."""


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
