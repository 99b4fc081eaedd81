"""Write docs/coverage.md: which tests prove which row of the capability table.

``python scripts/coverage_table.py`` writes the page, ``--check`` only reports whether it is up to date. The rows are in ``coverage_rows.py``. A test
names its rows with ``@pytest.mark.row("A8")``, on a function, on a class (for its own tests and the inherited ones) or for a module (``pytestmark``).
The source files are read; nothing is imported or run. These are errors: a row that exists and has no test, a test that names a row of which no part
exists, and a row that is not in the list. A test that is always skipped does not count.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from scripts.coverage_rows import ROWS  # noqa: E402

PAGE = ROOT / "docs" / "coverage.md"
ALL = {row: text for rows in ROWS.values() for row, text in rows.items()}
NIGHTLY = ("tests/interop/",)
"""Folders that `make test` leaves to `make nightly`, in addition to the tests that are marked slow."""


@dataclass(frozen=True, slots=True)
class Proof:
    """A test, or a class of tests, that names rows.

    Attributes:
        path: its file, relative to the repository.
        name: its name in pytest.
        rows: the rows that it names.
        nightly: whether the quick suite omits it.
    """

    path: str
    name: str
    rows: tuple[str, ...]
    nightly: bool


def rows_tested(proofs: Iterable[Proof] | None = None) -> dict[str, list[Proof]]:
    """The tests of each row that a marker names."""
    found: dict[str, list[Proof]] = defaultdict(list)
    for proof in all_proofs() if proofs is None else proofs:
        for row in proof.rows:
            found[row].append(proof)
    return dict(found)


def all_proofs() -> Iterator[Proof]:
    """Every test below ``tests`` that names rows, in the order of paths."""
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        yield from proofs_in(path.read_text(encoding="utf-8"), path.relative_to(ROOT).as_posix())


def proofs_in(source: str, path: str) -> Iterator[Proof]:
    """The tests of one file that name rows."""
    tree = ast.parse(source)
    shared = list(_module_marks(tree.body))
    yield from _proofs(tree.body, shared, path, "")


def _proofs(body: list[ast.stmt], shared: list[ast.expr], path: str, prefix: str) -> Iterator[Proof]:
    for node in body:
        if isinstance(node, ast.ClassDef) and node.name.startswith("Test"):
            marks = [*shared, *node.decorator_list, *_module_marks(node.body)]
            if node.bases:  # a conformance suite: its tests are inherited
                yield from _proof(marks, path, prefix + node.name)
            yield from _proofs(node.body, marks, path, f"{prefix}{node.name}::")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            yield from _proof([*shared, *node.decorator_list], path, prefix + node.name)


def _proof(marks: list[ast.expr], path: str, name: str) -> Iterator[Proof]:
    rows = tuple(sorted({row for mark in marks for row in _rows(mark)}))
    words = {ast.unparse(mark.func if isinstance(mark, ast.Call) else mark) for mark in _single(marks)}
    if rows and "pytest.mark.skip" not in words:
        yield Proof(path, name, rows, "pytest.mark.slow" in words or path.startswith(NIGHTLY))


def _single(marks: list[ast.expr]) -> Iterator[ast.expr]:
    for mark in marks:
        yield from mark.elts if isinstance(mark, ast.List | ast.Tuple) else [mark]


def _module_marks(body: list[ast.stmt]) -> Iterator[ast.expr]:
    for node in body:
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "pytestmark" for t in node.targets):
            yield node.value


def _rows(node: ast.AST) -> list[str]:
    """The ids in every ``pytest.mark.row(...)`` below a node."""
    return [
        argument.value
        for call in ast.walk(node)
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "row"
        for argument in call.args
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
    ]


def untested(found: dict[str, list[Proof]] | None = None) -> list[str]:
    """Rows that exist and that no test names."""
    tests = rows_tested() if found is None else found
    return [row for row, text in ALL.items() if text.promise and not tests.get(row)]


def premature(found: dict[str, list[Proof]] | None = None) -> list[str]:
    """Rows that tests name, but of which no part exists according to the list."""
    tests = rows_tested() if found is None else found
    return [row for row, text in ALL.items() if not text.promise and tests.get(row)]


def unknown(found: dict[str, list[Proof]] | None = None) -> list[str]:
    """Rows that tests name and that are not in the list: they are misspelt, or missing in the list."""
    tests = rows_tested() if found is None else found
    return sorted(set(tests) - set(ALL))


def problems(found: dict[str, list[Proof]]) -> list[str]:
    """The problems that make the check fail, as text."""
    said = {
        "rows without a test": untested(found),
        "tests name rows that are not in scripts/coverage_rows.py": unknown(found),
        "tests name rows of which no part exists according to scripts/coverage_rows.py": premature(found),
    }
    return [f"{words}: {', '.join(rows)}" for words, rows in said.items() if rows]


def render(found: dict[str, list[Proof]] | None = None) -> str:
    """The page."""
    tests = rows_tested() if found is None else found
    existing = [text for text in ALL.values() if text.promise]
    partly = sum(bool(text.later) for text in existing)
    lines = [
        "# Capabilities, and the tests that prove them",
        "",
        "Generated by `python scripts/coverage_table.py` from its list of rows and from the marker `row` of the tests; do not edit. An existing",
        "capability without a test fails `make check`. The page does not show whether the tests ran: `make test` runs them, `make nightly` runs",
        "those marked so.",
        "",
        f"{len(ALL)} rows: {len(existing) - partly} exist, {partly} exist in part, {len(ALL) - len(existing)} come later.",
    ]
    for section, rows in ROWS.items():
        lines += ["", f"## {section}", "", "| row | promise | later | tests |", "|---|---|---|---|"]
        lines += [
            f"| {row} | {text.promise} | {text.later} | {_links(tests.get(row, []))} |" for row, text in rows.items()
        ]
    return "\n".join(lines) + "\n"


def _links(tests: list[Proof]) -> str:
    quick = {test.path for test in tests if not test.nightly}
    return "<br>".join(
        f"[{path.removeprefix('tests/')}](../{path})" + ("" if path in quick else " (nightly)")
        for path in dict.fromkeys(test.path for test in tests)
    )


def main() -> None:
    """Write the page, or with ``--check`` end with an error if it is out of date."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing, fail if the page is out of date")
    check = parser.parse_args().check
    found = rows_tested()
    if wrong := problems(found):
        sys.exit("\n".join(wrong))
    text = render(found)
    current = PAGE.exists() and PAGE.read_text(encoding="utf-8") == text
    if check and not current:
        sys.exit("docs/coverage.md is out of date; run python scripts/coverage_table.py")
    if not current:
        PAGE.write_text(text, encoding="utf-8")
        print("wrote", PAGE.relative_to(ROOT))


if __name__ == "__main__":
    main()
