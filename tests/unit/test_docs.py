"""The documentation says what the code says: generated pages are current, links and module names lead somewhere."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
import tempfile
import tomllib
import types
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from pyhudi_core.merge import registered_mergers, unregister_merger

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("docs/decisions/*.md")])
DECISIONS = sorted(ROOT.glob("docs/decisions/[0-9]*.md"))
# Written by slow targets, from a run; a checkout may be older than its first one.
MADE_BY_RUNS = {"docs/benchmarks.md", "docs/coverage.md"}
LINK = re.compile(r"\]\(([^)\s]+)\)")
MODULE = re.compile(r"`([a-z_]+(?:/[a-z_]+)*\.py)`")
HEADINGS = ["## Context", "## Decision", "## What it costs", "## How it is tested"]


def _name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def test_every_relative_link_leads_to_a_file() -> None:
    missing: dict[str, list[str]] = {}
    for page in PAGES:
        targets = {link.partition("#")[0] for link in LINK.findall(page.read_text()) if "://" not in link}
        paths = [(page.parent / unquote(target)).resolve() for target in targets if target]
        for path in paths:
            if not path.exists() and _name(path) not in MADE_BY_RUNS:
                missing.setdefault(_name(page), []).append(_name(path))
    assert missing == {}


def test_every_module_that_is_named_is_there() -> None:
    homes = [ROOT, ROOT / "pyhudi_core", ROOT / "pyhudi_dagster"]
    missing = {
        f"{_name(page)}: {module}"
        for page in PAGES
        for module in MODULE.findall(page.read_text())
        if not any((home / module).exists() for home in homes)
    }
    assert missing == set()


def test_the_table_of_packages_has_the_layers_that_the_linter_checks() -> None:
    rows = re.findall(r"^\| \d+ \| (.*?) \| [^|]*\|$", (ROOT / "CONTRIBUTING.md").read_text(), re.MULTILINE)
    shown = [name.removesuffix(".py") for row in rows for name in re.findall(r"`([a-z_]+(?:\.py)?)/?`", row)]
    contract = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"][0]
    layers = [name for layer in reversed(contract["layers"]) for name in layer.split(" | ")]
    assert shown == [name.removeprefix("pyhudi_core.") for name in layers if name != "pyhudi_dagster"]


@pytest.mark.parametrize(
    "page",
    ["consumers.md", "index.md", "merging.md", "migration.md", "reading.md", "services.md", "upkeep.md", "writing.md"],
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
    assert runpy.run_path(str(ROOT / "scripts" / "generate_docs.py"))["stale"]() == []


def test_no_number_of_a_decision_is_used_twice() -> None:
    """A number may be missing: the page of a merged decision goes, and its number is not used again."""
    numbers = [page.name[:4] for page in DECISIONS]
    assert numbers
    assert len(set(numbers)) == len(numbers)


def test_a_decision_that_is_named_has_a_page() -> None:
    numbers = {page.name[:4] for page in DECISIONS}
    sources = [
        path for top in ("pyhudi_core", "pyhudi_dagster", "tests", "scripts") for path in ROOT.glob(f"{top}/**/*.py")
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


def test_the_first_sample_of_the_readme_runs_as_it_is_typed_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    code = re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)[0]
    for _ in range(2):
        found: dict[str, Any] = {}
        exec(compile(code, "README.md", "exec"), found)
        assert found["table"].scan(columns=["id"]).to_arrow().to_pylist() == [{"id": 1}, {"id": 2}]


@pytest.mark.slow
def test_the_site_has_no_broken_link(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert "create_table" in (tmp_path / "site" / "api" / "index.html").read_text()
