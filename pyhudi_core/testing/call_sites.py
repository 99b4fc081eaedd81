"""The package's calls of the storage: found in the source text, and found while running.

The two sets are compared to prove that an exploration omitted no call. A call counts as a storage call if a storage verb is called on
something named ``storage`` (or ``_storage``) or ``root``, the storage of the commit protocol; `unclear_receivers` lists calls that this rule could miss.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

VERBS = frozenset(
    {
        "get",
        "get_tagged",
        "head",
        "list",
        "list_folder",
        "put",
        "put_if_absent",
        "put_if_match",
        "delete",
        "delete_if_match",
        "open_input",
        "open_output",
    }
)
"""The calls of the storage protocol."""
_ORDINARY = frozenset({"get", "list", "put", "delete"})
_NAMES = frozenset({"storage", "_storage", "root"})
_PACKAGE = Path(__file__).resolve().parents[1]
_OUTSIDE = frozenset({"testing", "storage", "runtime"})


@dataclass(frozen=True, slots=True, order=True)
class CallSite:
    """A line of the package: file below the package, line, and the function around it."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.function}"


@dataclass(frozen=True, slots=True, order=True)
class StaticSite:
    """A call of a storage verb in the source text, possibly over several lines."""

    file: str
    line: int
    last_line: int
    function: str
    verb: str

    def covers(self, site: CallSite) -> bool:
        """Say whether the running call is this call."""
        return self.file == site.file and self.line <= site.line <= self.last_line

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.function} {self.verb}"


def calling_site() -> CallSite | None:
    """Return the innermost running line of the package outside storage, runtime and this simulator."""
    frame = sys._getframe(1)
    while frame is not None:
        found = _below_package(frame.f_code.co_filename)
        if found:
            return CallSite(found, frame.f_lineno, frame.f_code.co_name)
        frame = frame.f_back  # type: ignore[assignment]
    return None


@cache
def _below_package(filename: str) -> str:
    """Return the file's path below the package; empty for files outside the package, and for the modules that stand for the outside world."""
    path = Path(filename)
    if not path.is_relative_to(_PACKAGE):
        return ""
    below = path.relative_to(_PACKAGE)
    return "" if below.parts[0] in _OUTSIDE else below.as_posix()


def storage_call_sites(folders: tuple[str, ...]) -> list[StaticSite]:
    """Return every call of a storage verb in these folders of the package."""
    return sorted(
        StaticSite(file, node.lineno, node.end_lineno or node.lineno, function, node.func.attr)
        for file, function, node in _calls(folders)
        if isinstance(node.func, ast.Attribute) and node.func.attr in VERBS and _last_name(node.func.value) in _NAMES
    )


def unclear_receivers(folders: tuple[str, ...]) -> list[str]:
    """Return calls that `storage_call_sites` could miss: storage verbs on receivers of other names, and storages kept under other names.

    Empty if the naming rule is kept.
    """
    found = [
        f"{file}:{node.lineno} {node.func.attr} on {ast.unparse(node.func.value)}"
        for file, _, node in _calls(folders)
        if isinstance(node.func, ast.Attribute)
        and node.func.attr in VERBS - _ORDINARY
        and _last_name(node.func.value) not in _NAMES
    ]
    for file, tree in _trees(folders):
        for node in ast.walk(tree):
            found.extend(f"{file}:{line} {text}" for line, text in _hidden_storages(node))
    return sorted(found)


def _hidden_storages(node: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield storages under other names: a name annotated or assigned as a storage, and a verb that is passed on without a call."""
    if isinstance(node, ast.arg | ast.AnnAssign) and node.annotation is not None:
        name = node.arg if isinstance(node, ast.arg) else _last_name(node.target)
        if ast.unparse(node.annotation).strip("\"'").split(" | ")[0].endswith("Storage") and name not in _NAMES:
            yield node.lineno, f"{name} is a storage"
    if isinstance(node, ast.Assign) and _last_name(node.value) in _NAMES:
        names = [_last_name(target) for target in node.targets]
        if not set(names) <= _NAMES:
            yield node.lineno, f"{', '.join(names)} is a storage"
    if isinstance(node, ast.Call):
        for argument in node.args:
            if isinstance(argument, ast.Attribute) and argument.attr in VERBS and _last_name(argument.value) in _NAMES:
                yield node.lineno, f"{ast.unparse(argument)} is handed on"


def _last_name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _trees(folders: tuple[str, ...]) -> Iterator[tuple[str, ast.Module]]:
    for folder in folders:
        for path in sorted((_PACKAGE / folder).rglob("*.py")):
            yield path.relative_to(_PACKAGE).as_posix(), ast.parse(path.read_text(encoding="utf-8"))


def _calls(folders: tuple[str, ...]) -> Iterator[tuple[str, str, ast.Call]]:
    for file, tree in _trees(folders):
        yield from ((file, function, node) for function, node in _calls_in(tree, "<module>"))


def _calls_in(node: ast.AST, function: str) -> Iterator[tuple[str, ast.Call]]:
    for child in ast.iter_child_nodes(node):
        inside = child.name if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) else function
        if isinstance(child, ast.Call):
            yield function, child
        yield from _calls_in(child, inside)
