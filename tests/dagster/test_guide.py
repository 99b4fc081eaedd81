"""docs/dagster.md, and the pages beside it, are guides that run: every snippet, in its order, in one process."""

import importlib
import re
import sys
import tempfile
import types
from pathlib import Path

import pytest

import pyhudi_dagster

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "dagster.md"
PARTS = [
    "The first asset",
    "A lake that exists already",
    "Partitions and backfills",
    "Rules before a commit",
    "Several tables from one function",
    "Incremental assets",
    "The IO manager",
    "Failure and recovery",
    "Testing an asset",
    "What the UI shows",
]
ELSEWHERE = {
    "dagster.md",
    "dagster-incremental.md",
    "dagster-pipes.md",  # of two processes: tests/dagster/test_pipes.py
    "dagster-component.md",  # a command: tests/e2e/test_component_commands.py
}


def snippets(text, language="python"):
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


OTHERS = [page.name for page in sorted(PAGE.parent.glob("dagster*.md")) if snippets(page.read_text(), r"\w*")]


def test_the_snippets_of_the_guide_run_and_what_they_assert_holds(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    module = types.ModuleType("guide")
    monkeypatch.setitem(sys.modules, "guide", module)
    for number, code in enumerate(snippets(PAGE.read_text())):
        exec(compile(code, f"{PAGE.name}, snippet {number + 1}", "exec"), module.__dict__)


def test_the_snippets_on_incremental_assets_run(monkeypatch):
    page = PAGE.with_name("dagster-incremental.md")
    module = types.ModuleType("incremental_guide")
    monkeypatch.setitem(sys.modules, "incremental_guide", module)
    for code in snippets(page.read_text()):
        exec(compile(code, page.name, "exec"), module.__dict__)
    assert {"totals", "cleaned"} <= set(module.__dict__)


@pytest.mark.parametrize("name", [name for name in OTHERS if name not in ELSEWHERE])
def test_the_snippets_of_the_other_pages_run_and_what_they_assert_holds(name, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    module = types.ModuleType(name.partition(".")[0].replace("-", "_"))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    for number, code in enumerate(snippets(PAGE.with_name(name).read_text())):
        exec(compile(code, f"{name}, snippet {number + 1}", "exec"), module.__dict__)


def test_every_fence_of_a_page_is_a_snippet_that_a_test_runs():
    assert set(OTHERS) >= ELSEWHERE | {
        "dagster-lake.md",
        "dagster-services.md",
        "dagster-timeline.md",
        "dagster-reference.md",
    }
    for name in OTHERS:
        fences = re.findall(r"^```(\w*)$", PAGE.with_name(name).read_text(), re.MULTILINE)[::2]
        assert set(fences) == ({""} if name == "dagster-component.md" else {"python"})


def test_every_part_of_the_guide_has_a_snippet():
    parts = dict(re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", PAGE.read_text(), re.MULTILINE | re.DOTALL))
    assert list(parts) == PARTS
    assert all(snippets(text) for text in parts.values())


def test_the_api_page_has_every_public_name_where_it_is_and_each_has_a_docstring():
    named = dict(
        reversed(each.rsplit(".", 1))
        for each in re.findall(r"^::: (\S+)$", PAGE.with_name("dagster-api.md").read_text(), re.MULTILINE)
    )
    assert set(named) == set(pyhudi_dagster.__all__) - {"__version__"}
    for name, module in named.items():
        assert getattr(importlib.import_module(module), name) is getattr(pyhudi_dagster, name)
        assert getattr(pyhudi_dagster, name).__doc__, name
