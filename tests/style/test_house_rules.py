"""The rules of the house that no linter knows: sizes, where the outside may be touched, what the documentation repeats."""

from __future__ import annotations

import ast
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

from pyhudi_core import errors

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = [ROOT / "pyhudi", ROOT / "pyhudi_core", ROOT / "pyhudi_dagster"]
MODULES = sorted(path for package in PACKAGES for path in package.rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))

MODULE_LINES = 400
FUNCTION_LINES = 80

OUTSIDE_PACKAGES = {"storage", "lock", "runtime", "testing"}
OUTSIDE_MODULES = {"time", "uuid", "random", "secrets", "threading", "multiprocessing", "concurrent", "asyncio", "subprocess", "socket",
                   "boto3", "botocore", "tempfile", "shutil", "glob", "fcntl", "requests", "urllib"}  # fmt: skip
OUTSIDE_CALLS = {"open", "input", "print", "exec", "eval"}
ALLOWED = {
    ("engine/spark.py", "os"): "workers run this interpreter: an environment variable of Spark",
}


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def broken(rule: Callable[[Path], object], paths: Iterable[Path]) -> dict[str, object]:
    """What a rule says of each file that does not keep it."""
    found = {_name(path): rule(path) for path in paths}
    assert len(found) > 100, "these are not all the files"
    return {name: what for name, what in found.items() if what}


def _too_long(path: Path) -> dict[str, int]:
    lines = len(path.read_text(encoding="utf-8").splitlines())
    long = {
        node.name: size
        for node in ast.walk(_tree(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (size := (node.end_lineno or node.lineno) - node.lineno + 1) > FUNCTION_LINES
    }
    return long | ({"the module": lines} if lines > MODULE_LINES else {})


def test_modules_and_functions_stay_small() -> None:
    assert broken(_too_long, MODULES) == {}, "lines; split it"


def _without_docstring(path: Path) -> list[str]:
    tree = _tree(path)
    bare = [
        node.name
        for node in tree.body
        if isinstance(node, ast.ClassDef | ast.FunctionDef)
        and not node.name.startswith("_")
        and not ast.get_docstring(node)
    ]
    return bare if ast.get_docstring(tree) else ["the module", *bare]


def test_every_module_and_every_public_name_has_a_docstring() -> None:
    assert broken(_without_docstring, MODULES) == {}


def _imports(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield (node.module or "").partition(".")[0]


def _inside() -> list[Path]:
    core = ROOT / "pyhudi_core"
    return [
        path for path in MODULES if core in path.parents and path.relative_to(core).parts[0] not in OUTSIDE_PACKAGES
    ]


def _reaching_outside(path: Path) -> list[str]:
    tree = _tree(path)
    here = Path(os.path.relpath(path, ROOT / "pyhudi_core")).as_posix()
    forbidden = OUTSIDE_MODULES | {"os"}
    taken = {f"import {name}" for name in _imports(tree) if name in forbidden and (here, name) not in ALLOWED}
    called = {
        f"{node.func.id}()"
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in OUTSIDE_CALLS
    }
    now = {
        ast.unparse(node)
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr in ("now", "utcnow", "today")
        and isinstance(node.value, ast.Name) and node.value.id in ("datetime", "date")
    }  # fmt: skip
    return sorted(taken | called | now)


def test_the_outside_is_handed_in() -> None:
    assert broken(_reaching_outside, _inside()) == {}, "storage, clock, ids, executor and process come as arguments"


def test_what_is_allowed_is_needed() -> None:
    unused = [key for key in ALLOWED if key[1] not in set(_imports(_tree(ROOT / "pyhudi_core" / key[0])))]
    assert unused == []


def _calls(tree: ast.Module, name: str) -> list[ast.Call]:
    return [
        node for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == name
    ]  # fmt: skip


# Files under .hoodie are deleted by the module that writes them, data files by one module only.
MAY_DELETE = {
    "index/hashing_metadata.py", "spark/writer.py", "timeline/archived_files.py", "timeline/history_writing.py",
    "timeline/properties_file.py", "transaction/begin.py", "transaction/commit.py", "transaction/heartbeat.py",
    "services/clustering/spilled_sort.py", "transaction/instant_removal.py", "transaction/left_by_executors.py",
    "transaction/markers.py", "transaction/metadata_removal.py", "transaction/permit.py", "conflicts/precedence.py", "transaction/record.py",
    "transaction/removal.py", "transaction/rollback.py", "transaction/temporaries.py", "transaction/waiting_rows.py",
}  # fmt: skip


def _deleting(path: Path) -> list[str]:
    return [
        ast.unparse(call)
        for verb in ("delete", "delete_many", "delete_if_match")
        for call in _calls(_tree(path), verb)
        if isinstance(call.func, ast.Attribute) and "storage" in ast.unparse(call.func.value)
    ]


def test_storage_is_deleted_from_in_known_places_only() -> None:
    core = ROOT / "pyhudi_core"
    others = [path for path in _inside() if str(path.relative_to(core)) not in MAY_DELETE]
    assert broken(_deleting, others) == {}


@pytest.mark.parametrize(
    ("rule", "source", "said"),
    [
        (_too_long, '"""What it is."""\n' * (MODULE_LINES + 1), {"the module": MODULE_LINES + 1}),
        (_too_long, "def f():\n" + "    f()\n" * FUNCTION_LINES, {"f": FUNCTION_LINES + 1}),
        (_without_docstring, "def f(): ...\ndef _g(): ...\nclass C: ...", ["the module", "f", "C"]),
        (_reaching_outside, "import os\nfrom threading import Lock", ["import os", "import threading"]),
        (_reaching_outside, "open('x')", ["open()"]),
        (_reaching_outside, "from datetime import datetime\ndatetime.now()", ["datetime.now"]),
        (_deleting, "self._storage.delete(path)", ["self._storage.delete(path)"]),
        (_deleting, "context.storage.delete_many(paths)", ["context.storage.delete_many(paths)"]),
        (_deleting, "storage.delete_if_match(path, tag)", ["storage.delete_if_match(path, tag)"]),
    ],
)
def test_the_rules_find_what_breaks_them(
    rule: Callable[[Path], object], source: str, said: object, tmp_path: Path
) -> None:
    (tmp_path / "module.py").write_text(source)
    assert rule(tmp_path / "module.py") == said


def test_data_files_are_deleted_in_one_place() -> None:
    users = {
        _name(path) for path in _inside()
        if any("delete_data_files" in ast.unparse(call.func) for call in _calls(_tree(path), "delete_data_files"))
    }  # fmt: skip
    assert users == {
        "pyhudi_core/services/archival/archival.py", "pyhudi_core/services/cleaning/execution.py", "pyhudi_core/services/restore/execution.py",
        "pyhudi_core/services/sweep/sweep.py", "pyhudi_core/transaction/left_by_executors.py", "pyhudi_core/transaction/markers.py",
        "pyhudi_core/transaction/rollback.py",
    }  # fmt: skip
    deleting = {here for here in MAY_DELETE if "parse_data_file" in (ROOT / "pyhudi_core" / here).read_text()}
    assert deleting == {"transaction/removal.py", "transaction/markers.py"}, (
        "one deletes, one says which files are of a write"
    )


def _drawn(kind: type[BaseException], indent: str = "") -> Iterator[str]:
    children = [child for child in kind.__subclasses__() if child.__module__ == errors.__name__]
    for child in children:
        last = child is children[-1]
        yield f"{indent}{'└─' if last else '├─'} {child.__name__}"
        yield from _drawn(child, indent + ("    " if last else "│   "))


def test_the_tree_of_errors_in_the_docstring_is_the_real_one() -> None:
    assert errors.__doc__ is not None
    drawn = [
        line for line in errors.__doc__.splitlines() if line.startswith(("├", "└", "│", " ")) or line == "HudiError"
    ]
    assert [line for line in drawn if line.strip()] == ["HudiError", *_drawn(errors.HudiError)]


def test_every_error_survives_a_trip_to_another_process() -> None:
    import pickle

    wants = {
        "found": "9",
        "token": "t",
        "limit": 1,
        "seen": 2,
        "failed": {"p": "refused"},
        "failures": {"rule": "nulls"},
    }
    for kind in _kinds(errors.HudiError):
        accepted = {name: value for name, value in wants.items() if name in kind.__init__.__code__.co_varnames}
        error = kind("what happened", table="/t", path="p", hint="do this", **accepted)
        again = pickle.loads(pickle.dumps(error))
        assert type(again) is kind
        assert (str(again), again.__dict__) == (str(error), error.__dict__)
        assert str(error) == "what happened (table /t, file p). do this."


def _kinds(kind: type[errors.HudiError]) -> Iterator[type[errors.HudiError]]:
    yield kind
    for child in kind.__subclasses__():
        yield from _kinds(child)


# --- the pages that are made from the tests


# --- what is committed speaks of the project alone


def test_sources_name_no_machine() -> None:
    place = re.compile(r"/(?:home|Users|root|work)/[a-z]")
    named = [
        _name(path)
        for path in [*MODULES, *TESTS]
        if path != Path(__file__) and place.search(path.read_text(encoding="utf-8"))
    ]
    assert named == []


def test_no_test_is_skipped_without_a_reason() -> None:
    marks = ("pytest.skip", "pytest.mark.skip", "pytest.mark.skipif", "pytest.mark.xfail")
    # To parse all tests takes seconds, and few of them have one of these words.
    maybe = [path for path in TESTS if any(word in path.read_text(encoding="utf-8") for word in ("skip", "xfail"))]
    calls = [
        (path, node) for path in maybe for node in ast.walk(_tree(path))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in marks
    ]  # fmt: skip
    silent = [
        f"{_name(path)}:{node.lineno}" for path, node in calls
        if "reason" not in ast.unparse(node) and not (node.args and isinstance(node.args[0], ast.Constant | ast.JoinedStr))
    ]  # fmt: skip
    assert silent == []


def test_files_of_tests_have_names_of_their_own() -> None:
    outside = [path for path in (ROOT / "tests").rglob("test_*.py") if not (path.parent / "__init__.py").exists()]
    seen = Counter(path.name for path in outside)
    assert [name for name, times in seen.items() if times > 1] == [], "pytest cannot collect two of one name together"
