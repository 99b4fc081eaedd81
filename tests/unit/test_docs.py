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
from urllib.parse import unquote

import pytest

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


def test_every_relative_link_leads_to_a_file() -> None:
    missing: dict[str, list[str]] = {}
    for page in PAGES:
        targets = {link.partition("#")[0] for link in LINK.findall(page.read_text()) if "://" not in link}
        paths = [(page.parent / unquote(target)).resolve() for target in targets if target]
        for path in paths:
            if not path.exists():
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
    "page", ["consumers.md", "index.md", "merging.md", "migration.md", "reading.md", "upkeep.md", "writing.md"]
)
def test_the_python_of_a_page_runs(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    module = types.ModuleType(page.removesuffix(".md"))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    for code in re.findall(r"^```python\n(.*?)^```", (ROOT / "docs" / page).read_text(), re.MULTILINE | re.DOTALL):
        exec(compile(code, page, "exec"), module.__dict__)
    for name in registered_mergers():
        unregister_merger(name)  # the registration of an example is valid in its process


def test_the_parts_of_ci_and_their_minutes_are_those_that_contributors_read() -> None:
    script = (ROOT / ".ci" / "run").read_text()
    said = re.findall(r"^#   (\w+) +(\d+) +(\d+) ", script, re.MULTILINE)
    table = (ROOT / "CONTRIBUTING.md").read_text().partition("## What CI does")[2].partition("\n## ")[0]
    assert re.findall(r"^\| (\w+) \| .*? \| (\d+) \| (\d+) \|$", table, re.MULTILINE) == said
    parts = re.findall(r"^part (\w+)", script, re.MULTILINE)
    assert [name for name, _, _ in said] == [name for name in parts if name not in ("room", "clone")]
    assert sum(int(minutes) + int(more) for _, minutes, more in said) <= 30


def test_generated_pages_are_current() -> None:
    assert runpy.run_path(str(ROOT / "scripts" / "generate_docs.py"))["stale"]() == []


def test_no_number_of_a_decision_is_used_twice() -> None:
    """A number may be missing: numbers are given out before the pages are written."""
    numbers = [int(page.name[:4]) for page in DECISIONS]
    assert numbers[0] == 1
    assert len(set(numbers)) == len(numbers)


def test_a_decision_says_why_what_it_costs_and_how_it_is_tested() -> None:
    found = {
        _name(page): [line for line in page.read_text().splitlines() if line.startswith("## ")] for page in DECISIONS
    }
    assert {name: headings for name, headings in found.items() if headings != HEADINGS} == {}


def test_a_decision_is_in_the_list() -> None:
    listed = (ROOT / "docs" / "decisions" / "README.md").read_text()
    assert [page.name for page in DECISIONS if f"({page.name})" not in listed] == []


def test_the_first_lines_of_the_readme_run(tmp_path: Path) -> None:
    code = re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)[0]
    found: dict[str, object] = {}
    exec(compile(code.replace("/tmp/lake", str(tmp_path)), "README.md", "exec"), found)
    assert found["table"].scan(columns=["id"]).to_arrow().to_pylist() == [{"id": 1}, {"id": 2}]


@pytest.mark.slow
def test_the_site_has_no_broken_link(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert "create_table" in (tmp_path / "site" / "api" / "index.html").read_text()
