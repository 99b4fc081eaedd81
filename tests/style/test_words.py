"""Names and docstrings that a stranger reads once."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("pyhudi", "pyhudi_airflow", "pyhudi_core", "pyhudi_dagster")
NO_VERB = re.compile(r"(The|Which|Whether|How|What|Where|Why|Who|Whose|Those|These) ")
"""Words with which a docstring begins that has a noun where the verb should be."""
NOUNS = {"property", "cached_property", "contextmanager", "asynccontextmanager", "fixture", "overload"}
"""Decorators of functions that readers use as things, not as actions: a property is a value, a context is a block."""


def modules() -> Iterator[tuple[str, ast.Module]]:
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            yield path.relative_to(ROOT).as_posix(), ast.parse(path.read_text(encoding="utf-8"))


def test_no_two_public_classes_have_one_name() -> None:
    places = defaultdict(list)
    for name, tree in modules():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(name)
    twice = {name: found for name, found in places.items() if len(found) > 1}
    assert not twice, f"Give each class a name of its own: {twice}"


def test_the_docstring_of_a_function_that_returns_something_begins_with_a_verb() -> None:
    found = [
        f"{name}:{node.lineno}: {text.splitlines()[0]}"
        for name, tree in modules()
        for node, text in _without_verb(tree)
    ]
    assert not found, "Begin with a verb, such as Return, Say or Yield:\n" + "\n".join(found)


def _without_verb(tree: ast.Module) -> Iterator[tuple[ast.FunctionDef | ast.AsyncFunctionDef, str]]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or node.name.startswith("__"):
            continue
        calls = [each.func if isinstance(each, ast.Call) else each for each in node.decorator_list]
        if NOUNS & {getattr(each, "attr", getattr(each, "id", "")) for each in calls} or node.returns is None:
            continue
        text = ast.get_docstring(node)
        if text and NO_VERB.match(text) and ast.unparse(node.returns) != "None" and not _is_sentence(text):
            yield node, text


def _is_sentence(text: str) -> bool:
    """Say whether the first words have a verb, as in "The caller has read it"."""
    return (
        re.match(r"\S+(?: \S+){0,4}? (is|are|was|were|has|have|can|must|may|goes|go|stays|stay|does|do)\b", text)
        is not None
    )
