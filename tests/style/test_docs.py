"""The documentation says what the code says: generated pages are current, links and module names lead somewhere."""

from __future__ import annotations

import re
import runpy
import sys
import tempfile
import tomllib
import types
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from support.sources import keep

from pyhudi_core.merge import registered_mergers, unregister_merger

ROOT = Path(__file__).resolve().parents[2]
EVIDENCE = ROOT / "docs" / "evidence.md"  # made from records of other days, so it may name what has gone
PAGES = sorted({*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("docs/decisions/*.md")} - {EVIDENCE})
DECISIONS = sorted(ROOT.glob("docs/decisions/[0-9]*.md"))
LINK = re.compile(r"\]\(([^)\s]+)\)")
MODULE = re.compile(r"`([a-z_]+(?:/[a-z_]+)*\.py)`")
HEADINGS = ["## Context", "## Decision", "## What it costs", "## How it is tested"]


def _name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def _anchor(heading: str) -> str:
    """The anchor of a heading, in which runs of hyphens are one: GitHub and mkdocs differ in nothing else here."""
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower())


@cache
def _anchors(page: Path) -> set[str]:
    return {_anchor(line.lstrip("#")) for line in page.read_text().splitlines() if line.startswith("#")}


def _broken_links(page: Path) -> Iterator[str]:
    for number, line in enumerate(page.read_text().splitlines(), 1):
        for link in LINK.findall(line):
            target, _, anchor = link.partition("#")
            path = (page.parent / unquote(target)).resolve() if target else page
            if "://" in link:
                continue
            if not path.exists():
                yield f"line {number}: {link} leads to no file"
            elif anchor and path.suffix == ".md" and _anchor(anchor) not in _anchors(path):
                yield f"line {number}: {link} leads to no heading"


def test_every_relative_link_leads_to_a_file_and_a_heading() -> None:
    keep(_broken_links, PAGES, "Correct the link.")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("[x](no_such.md)", "no_such.md leads to no file"),
        ("[x](#no-such)", "#no-such leads to no heading"),
        ("[x](page.md#no-such)", "page.md#no-such leads to no heading"),
        ("[x](page.md#how-it-is-read) [y](https://example.org/no.md) [z](#how-it-is-read)", None),
    ],
)
def test_a_broken_link_is_found(line: str, said: str | None, tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text(f"# How it is: `read`\n\n{line}\n")
    assert list(_broken_links(tmp_path / "page.md")) == ([f"line 3: {said}"] if said else [])


def _modules_that_are_not_there(page: Path) -> Iterator[str]:
    homes = [ROOT, ROOT / "pyhudi_core", ROOT / "pyhudi_dagster", ROOT / "pyhudi_airflow"]
    for number, line in enumerate(page.read_text().splitlines(), 1):
        for module in MODULE.findall(line):
            if not any((home / module).exists() for home in homes):
                yield f"line {number}: there is no {module}"


def test_every_module_that_is_named_is_there() -> None:
    keep(_modules_that_are_not_there, PAGES, "Name the module where the code is now.")


def test_the_table_of_packages_has_the_layers_that_the_linter_checks() -> None:
    rows = re.findall(r"^\| \d+ \| (.*?) \| [^|]*\|$", (ROOT / "CONTRIBUTING.md").read_text(), re.MULTILINE)
    shown = [name.removesuffix(".py") for row in rows for name in re.findall(r"`([a-z_]+(?:\.py)?)/?`", row)]
    contract = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"][0]
    layers = [name for layer in reversed(contract["layers"]) for name in layer.split(" | ")]
    assert shown == [
        name.removeprefix("pyhudi_core.") for name in layers if name not in ("pyhudi_airflow", "pyhudi_dagster")
    ]


@pytest.mark.sample
@pytest.mark.parametrize(
    "page",
    [
        "consumers.md",
        "engines.md",
        "index.md",
        "merging.md",
        "migration.md",
        "reading.md",
        "services.md",
        "sql.md",
        "upkeep.md",
        "writing.md",
    ],
)
def test_the_python_of_a_page_runs(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    module = types.ModuleType(page.removesuffix(".md"))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    for code in re.findall(r"^```python\n(.*?)^```", (ROOT / "docs" / page).read_text(), re.MULTILINE | re.DOTALL):
        exec(compile(code, page, "exec"), module.__dict__)
    for name in registered_mergers():
        unregister_merger(name)  # the registration of an example is valid in its process


def test_every_part_of_ci_has_its_minutes_and_all_are_at_most_thirty() -> None:
    script = (ROOT / ".ci" / "run").read_text()
    said = re.findall(r"^#   (\w+) +(\d+) +(\d+) ", script, re.MULTILINE)
    parts = re.findall(r"^part (\w+)", script, re.MULTILINE)
    assert [name for name, _, _ in said] == [name for name in parts if name not in ("room", "clone")]
    assert sum(int(minutes) + int(more) for _, minutes, more in said) <= 30


def test_generated_pages_are_current() -> None:
    old = runpy.run_path(str(ROOT / "scripts" / "generate_docs.py"))["stale"]()
    if old:
        pytest.fail(f"{', '.join(old)}: not what the code says; run python scripts/generate_docs.py", pytrace=False)


def test_no_number_of_a_decision_is_used_twice() -> None:
    """A number may be missing: the page of a merged decision goes, and its number is not used again."""
    numbers = [page.name[:4] for page in DECISIONS]
    assert numbers
    assert len(set(numbers)) == len(numbers)


def test_a_decision_that_is_named_has_a_page() -> None:
    numbers = {page.name[:4] for page in DECISIONS}
    sources = [
        path
        for top in ("pyhudi_airflow", "pyhudi_core", "pyhudi_dagster", "tests", "scripts")
        for path in ROOT.glob(f"{top}/**/*.py")
    ]
    named = {
        f"{_name(path)}: {number}"
        for path in [*PAGES, *sources]
        for number in re.findall(r"\b[Dd]ecisions?[ /]\[?(0\d{3})\b", path.read_text())
        if number not in numbers
    }
    assert named == set()


def test_a_decision_says_why_what_it_costs_and_how_it_is_tested() -> None:
    found = {
        _name(page): [line for line in page.read_text().splitlines() if line.startswith("## ")] for page in DECISIONS
    }
    assert {name: headings for name, headings in found.items() if headings != HEADINGS} == {}


def test_the_list_of_decisions_has_the_title_and_the_status_of_each_page() -> None:
    rows = []
    for page in DECISIONS:
        title, status = re.findall(
            r"\A# \d{4}\. (.+)\n\nStatus: ((?:accepted|superseded by \d{4}), \d{4}-\d\d-\d\d)", page.read_text()
        )[0]
        rows.append(f"|[{page.name[:4]}]({page.name})|{title}|{status}|")
    listed = (ROOT / "docs" / "decisions" / "README.md").read_text().splitlines()
    assert [line for line in listed if line.startswith("|[")] == rows


@pytest.mark.sample
def test_the_first_sample_of_the_readme_runs_as_it_is_typed_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    code = re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)[0]
    for _ in range(2):
        found: dict[str, Any] = {}
        exec(compile(code, "README.md", "exec"), found)
        assert found["table"].scan(columns=["id"]).to_arrow().to_pylist() == [{"id": 1}, {"id": 2}]


def test_the_api_page_has_what_makes_and_opens_tables() -> None:
    """``mkdocs build --strict``, a part of ``make check``, refuses names that do not exist."""
    named = re.findall(r"^::: \S+\.(\w+)$", (ROOT / "docs" / "api.md").read_text(), re.MULTILINE)
    assert {"create_table", "open_table", "HudiTable", "errors"} <= set(named)
