"""Nothing that a table holds can become code: the packages use none of the ways in which that happens."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MODULES = sorted(path for package in ("pyhudi_core", "pyhudi_dagster") for path in (ROOT / package).rglob("*.py"))

FORBIDDEN_MODULES = {
    "pickle",
    "cPickle",
    "_pickle",
    "dill",
    "cloudpickle",
    "marshal",
    "shelve",
    "joblib",
    "code",
    "codeop",
    "runpy",
    "pty",
}
FORBIDDEN_CALLS = {"eval", "exec", "compile", "__import__", "execfile"}
FORBIDDEN_METHODS = {("yaml", "load"), ("yaml", "unsafe_load"), ("yaml", "full_load"), ("os", "system"), ("os", "popen"), ("subprocess", "getoutput"),
                     ("numpy", "load"), ("np", "load"), ("pd", "read_pickle"), ("pandas", "read_pickle")}  # fmt: skip


def _imported(tree: ast.AST) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.update(alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            found.add((node.module or "").partition(".")[0])
    return found


def _problems(source: str) -> list[str]:
    tree = ast.parse(source)
    found = sorted(f"import {name}" for name in _imported(tree) & FORBIDDEN_MODULES)
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        if isinstance(node.func, ast.Name) and node.func.id in FORBIDDEN_CALLS:
            found.append(f"line {node.lineno}: {node.func.id}")
        if (
            isinstance(node.func, ast.Attribute)
            and isinstance(node.func.value, ast.Name)
            and (node.func.value.id, node.func.attr) in FORBIDDEN_METHODS
        ):
            found.append(f"line {node.lineno}: {node.func.value.id}.{node.func.attr}")
        if any(
            word.arg in ("shell", "allow_pickle")
            and not (isinstance(word.value, ast.Constant) and word.value.value is False)
            for word in node.keywords
        ):
            found.append(f"line {node.lineno}: shell or allow_pickle")
    return found


def test_no_module_runs_what_it_reads() -> None:
    assert len(MODULES) > 100, "these are not all the modules"
    found = {str(path.relative_to(ROOT)): _problems(path.read_text(encoding="utf-8")) for path in MODULES}
    assert {name: problems for name, problems in found.items() if problems} == {}


@pytest.mark.parametrize(
    "source",
    [
        "import pickle", "from pickle import loads", "import cloudpickle.x", "eval('1')", "exec(text)", "compile(a, b, c)", "yaml.load(f)",
        "subprocess.run(x, shell=True)", "np.load(f, allow_pickle=True)", "os.system('x')", "__import__(name)", "pd.read_pickle(f)",
    ],
)  # fmt: skip
def test_the_search_finds_each_of_them(source: str) -> None:
    assert _problems(source)


def test_a_pattern_is_no_compiled_code() -> None:
    assert _problems("import re\nre.compile('x')\nsubprocess.run(x, shell=False)") == []
