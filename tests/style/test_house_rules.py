"""The rules of the house that no linter knows: sizes, docstrings, where files are deleted, what sources and tests must not say."""

from __future__ import annotations

import ast
import pickle
import re
import subprocess
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest
from support.sources import INSIDE, MODULES, ROOT, TESTS, keep, name, names, text

from pyhudi_core import errors

MODULE_LINES = 600  # from 400 on, a reviewer asks whether the module is one subject
FUNCTION_LINES = 80


def _too_long(path: Path) -> Iterator[str]:
    lines = len(text(path).splitlines())
    if lines > MODULE_LINES:
        yield f"the module has {lines} lines, at most {MODULE_LINES} are allowed"
    for node in names(path).nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            size = (node.end_lineno or node.lineno) - node.lineno + 1
            if size > FUNCTION_LINES:
                yield f"line {node.lineno}: {node.name} has {size} lines, at most {FUNCTION_LINES} are allowed"


def test_modules_and_functions_stay_small() -> None:
    keep(_too_long, MODULES, "Split it.")


def _without_docstring(path: Path) -> Iterator[str]:
    tree = names(path).nodes[0]
    assert isinstance(tree, ast.Module)
    if not ast.get_docstring(tree):
        yield "the module has no docstring"
    for node in tree.body:
        if (
            isinstance(node, ast.ClassDef | ast.FunctionDef)
            and not node.name.startswith("_")
            and not ast.get_docstring(node)
        ):
            yield f"line {node.lineno}: {node.name} has no docstring"


def test_every_module_and_every_public_name_has_a_docstring() -> None:
    keep(_without_docstring, MODULES, "Say what it does.")


def _calls(path: Path, *verbs: str) -> list[tuple[int, str]]:
    """The line of each call of a method of one of these names, and the call without its arguments."""
    return [
        (node.lineno, ast.unparse(node.func)) for node in names(path).nodes
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in verbs
    ]  # fmt: skip


# Files under .hoodie are deleted by the module that writes them, data files by one module only.
MAY_DELETE = {
    "iceberg/retention.py", "iceberg/sync.py", "iceberg/table_metadata.py", "index/hashing_metadata.py", "spark/writer.py", "services/archival/archived_files.py", "timeline/history_writing.py",
    "timeline/properties_file.py", "transaction/begin.py", "transaction/commit.py", "transaction/heartbeat.py",
    "services/clustering/streamed.py", "transaction/instant_removal.py", "transaction/left_by_executors.py",
    "transaction/group.py", "transaction/markers.py", "transaction/metadata_removal.py", "orchestration/remote_gate.py", "conflicts/precedence.py", "transaction/record.py",
    "transaction/removal.py", "transaction/rollback.py", "transaction/waiting_rows.py", "opened_table/old_timeline.py",
}  # fmt: skip


def _deleting(path: Path) -> list[str]:
    calls = _calls(path, "delete", "delete_many", "delete_if_match")
    return [f"line {line}: {call}" for line, call in calls if "storage" in call]


def test_storage_is_deleted_from_in_known_places_only() -> None:
    others = [path for path in INSIDE if name(path).removeprefix("pyhudi_core/") not in MAY_DELETE]
    keep(
        _deleting,
        others,
        "Data files are deleted by `transaction/removal.py`, other files by the module that writes them.",
    )


SKIPS = ("pytest.skip", "pytest.mark.skip", "pytest.mark.skipif", "pytest.mark.xfail")


def _skipping_silently(path: Path) -> Iterator[str]:
    if not re.search("skip|xfail", text(path)):
        return  # to parse all tests takes seconds
    with_reason: set[int] = set()
    for node in ast.walk(ast.parse(text(path))):  # a call comes before its function
        if isinstance(node, ast.Call):
            said = node.args and isinstance(node.args[0], ast.Constant | ast.JoinedStr)
            with_reason |= {id(node.func)} if said or any(word.arg == "reason" for word in node.keywords) else set()
        elif isinstance(node, ast.Attribute) and ast.unparse(node) in SKIPS and id(node) not in with_reason:
            yield f"line {node.lineno}: {ast.unparse(node)} without a reason"


_SECRET_FIELD = re.compile(
    "(^|_)(options|credentials?|passwords?|secrets?|(secret|access|account|api|private)_key|(session|sas|auth)_token)$"
)
_HOLDS = re.compile(r"\b(Mapping|dict|str|object|Any|tuple)\b")


def _showing_secrets(path: Path) -> Iterator[str]:
    """Fields of dataclasses and of pydantic models that hold options or credentials, and that ``repr`` would show."""
    for node in names(path).nodes:
        if not isinstance(node, ast.ClassDef):
            continue
        made = {ast.unparse(part).partition("(")[0] for part in node.decorator_list}
        if "dataclass" not in made and not node.bases:
            continue
        for part in node.body:
            if not (isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name)):
                continue
            given = ast.unparse(part.value) if part.value else ""
            if (
                _SECRET_FIELD.search(part.target.id)
                and _HOLDS.match(ast.unparse(part.annotation))
                and "repr=False" not in given
                and not (given.startswith("lock_option(") and "secret=True" in given)
                and (node.name, part.target.id) not in SHOWS
            ):
                yield f"line {part.lineno}: {node.name}.{part.target.id}"


SHOWS = {
    ("IndexDefinition", "options"): "options of an expression, such as a format",
    ("CreateIndex", "options"): "options of an index, which a statement names",
    ("ScheduleChoice", "options"): "the choices of a simulated step",
    ("GoogleOptions", "application_credentials"): "the path of a file",
}
"""Fields with such a name that hold no secret."""


def test_a_field_that_holds_options_is_not_shown() -> None:
    keep(
        _showing_secrets,
        MODULES,
        "Write `field(repr=False)`, or `lock_option(..., secret=True)`; what holds no secret is in SHOWS.",
    )


OPENS_PARQUET = {"formats/base_file/footer.py", "formats/base_file/parquet.py"}


def _opening_parquet(path: Path) -> list[str]:
    """Calls that open a Parquet file with pyarrow: elsewhere its errors and old times would be treated in another way."""
    calls = _calls(path, "ParquetFile", "ParquetDataset", "read_table", "read_schema", "read_metadata")
    return [f"line {line}: {call}" for line, call in calls if call.startswith(("pq.", "pyarrow.parquet."))]


def test_parquet_files_are_opened_in_one_place() -> None:
    core = ROOT / "pyhudi_core"
    own = {core / place for place in OPENS_PARQUET}
    others = [path for path in MODULES if path not in own and core / "testing" not in path.parents]
    keep(_opening_parquet, others, "Open it with `formats/base_file/parquet.py`.")


@pytest.mark.parametrize(
    ("rule", "source", "said"),
    [
        (_too_long, '"""What it is."""\n' * (MODULE_LINES + 1), "the module has 601 lines, at most 600 are allowed"),
        (_too_long, "def f():\n" + "    f()\n" * FUNCTION_LINES, "line 1: f has 81 lines, at most 80 are allowed"),
        (_without_docstring, "def _f(): ...", "the module has no docstring"),
        (_without_docstring, '"""What it is."""\ndef f(): ...', "line 2: f has no docstring"),
        (_without_docstring, '"""What it is."""\nclass C: ...', "line 2: C has no docstring"),
        (_deleting, "self._storage.delete(path)", "line 1: self._storage.delete"),
        (_deleting, "context.storage.delete_many(paths)", "line 1: context.storage.delete_many"),
        (_deleting, "storage.delete_if_match(path, tag)", "line 1: storage.delete_if_match"),
        (_skipping_silently, "@pytest.mark.skip\ndef test_x(): ...", "line 1: pytest.mark.skip without a reason"),
        (
            _skipping_silently,
            "@pytest.mark.xfail(strict=True)\ndef test_x(): ...",
            "line 1: pytest.mark.xfail without a reason",
        ),
        (_skipping_silently, "pytest.skip()", "line 1: pytest.skip without a reason"),
        (_showing_secrets, "@dataclass\nclass C:\n    storage_options: dict[str, str]", "line 3: C.storage_options"),
        (_showing_secrets, "class C(Base):\n    password: str = Field(default='')", "line 2: C.password"),
        (_opening_parquet, "pq.ParquetFile(source)", "line 1: pq.ParquetFile"),
    ],
)
def test_the_rules_find_what_breaks_them(
    rule: Callable[[Path], Iterable[str]], source: str, said: str, tmp_path: Path
) -> None:
    (tmp_path / "module.py").write_text(source)
    assert list(rule(tmp_path / "module.py")) == [said]


def test_data_files_are_deleted_in_one_place() -> None:
    users = {name(path) for path in INSIDE if _calls(path, "delete_data_files", "delete_given_up")}
    assert users == {
        "pyhudi_core/repairs/drop.py", "pyhudi_core/services/archival/archival.py", "pyhudi_core/services/cleaning/clean_execution.py", "pyhudi_core/services/restore/restore_execution.py",
        "pyhudi_core/services/sweep/sweep.py", "pyhudi_core/services/versions/lowering_eight.py", "pyhudi_core/transaction/late_tasks.py", "pyhudi_core/transaction/left_by_executors.py",
        "pyhudi_core/transaction/markers.py", "pyhudi_core/transaction/rollback.py",
    }  # fmt: skip
    deleting = {here for here in MAY_DELETE if "parse_data_file" in (ROOT / "pyhudi_core" / here).read_text()}
    assert deleting == {"transaction/removal.py", "transaction/markers.py", "iceberg/sync.py"}, (
        "one deletes, one says which files are of a write, one which files a clean must leave"
    )


def _drawn(kind: type[BaseException], indent: str = "") -> Iterator[str]:
    children = [child for child in kind.__subclasses__() if child.__module__ == kind.__module__]
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


# --- what is committed speaks of the project alone


def _naming_a_machine(path: Path) -> Iterator[str]:
    for number, line in enumerate(text(path).splitlines(), 1):
        if found := re.search(r"/(?:home|Users|root|work)/[a-z]", line):
            yield f"line {number}: names the path of a machine, {found[0]}..."


def test_sources_name_no_machine() -> None:
    keep(_naming_a_machine, [path for path in [*MODULES, *TESTS] if path != Path(__file__)], "Name no machine.")


def test_no_test_is_skipped_without_a_reason() -> None:
    keep(_skipping_silently, TESTS, "Say why.")


def test_files_of_tests_have_names_of_their_own() -> None:
    outside = [path for path in TESTS if path.name.startswith("test_") and not (path.parent / "__init__.py").exists()]
    seen = Counter(path.name for path in outside)
    same = [name(path) for path in outside if seen[path.name] > 1]
    assert same == [], "pytest cannot collect two of one name together"


def test_no_symbolic_link_is_committed() -> None:
    listed = subprocess.run(["git", "ls-files", "--stage"], cwd=ROOT, capture_output=True, text=True, check=False)
    links = [line for line in listed.stdout.splitlines() if line.startswith("120000")]
    assert links == [], "git rm --cached them"
