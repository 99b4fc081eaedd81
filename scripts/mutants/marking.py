"""Finds the tests that reach the mutants of a sample. A copy of the code has a mark at each mutant; the mark records which test ran it.

A mark is put into the expression that a mutant changes, so a lambda or the second half of a condition counts only when it runs. No code is traced:
tests take their usual time, and marks work in threads, greenlets and other processes.

Code that runs when its module is imported (a constant, a default, a decorator) is run by no particular test. Its marks are put where functions use
the name that it defines, at the functions that it decorates, and, inside a class, at every function of the module.
"""

from __future__ import annotations

import ast
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from scripts.mutants.candidates import Candidate

PACKAGES = ("pyhudi_core", "pyhudi_dagster")
MARK = "__reached__"
_FUNCTION = ast.FunctionDef | ast.AsyncFunctionDef
_Use = tuple["_Module", ast.expr]


@dataclass(slots=True)
class Marks:
    """The marked code.

    Attributes:
        code: the marked code, by path of the module.
        of: by key of a candidate: the numbers of its marks.
        at_import: keys of the candidates that run when their module is imported.
    """

    code: dict[str, str] = field(default_factory=dict)
    of: dict[str, frozenset[int]] = field(default_factory=dict)
    at_import: set[str] = field(default_factory=set)


def marked(root: Path, chosen: Iterable[Candidate]) -> Marks:
    """Mark the places of these candidates."""
    house = _House({path: _Module(root, path) for path in _modules(root)})
    marks = Marks()
    for candidate in chosen:
        module = house.modules[candidate.module]
        node = module.innermost(candidate.place)
        if module.in_function(node):
            marks.of[candidate.key] = frozenset({house.mark(module, node)})
        else:
            marks.of[candidate.key] = frozenset(house.uses_of(module, node))
            marks.at_import.add(candidate.key)
    marks.code = {path: module.text() for path, module in house.modules.items() if module.marks}
    return marks


def _modules(root: Path) -> Iterator[str]:
    for package in PACKAGES:
        for path in sorted((root / package).rglob("*.py")):
            yield path.relative_to(root).as_posix()


class _Module:
    """The tree of one module, and the marks in it: by node, with their numbers."""

    def __init__(self, root: Path, path: str) -> None:
        self.path = path
        code = (root / path).read_text(encoding="utf-8")
        self.tree = ast.parse(code)
        self.lines = code.splitlines()
        self.parents: dict[ast.AST, ast.AST] = {}
        self.marks: dict[ast.AST, int] = {}
        for node in ast.walk(self.tree):
            for child in ast.iter_child_nodes(node):
                self.parents[child] = node

    def innermost(self, place: tuple[int, int]) -> ast.AST:
        """The smallest node around a place (line and column in characters)."""
        line, column = place
        at = (line, len(self.lines[line - 1][:column].encode()))
        found: ast.AST = self.tree
        todo = deque([found])
        while todo:  # from the outside in
            node = todo.popleft()
            if isinstance(node, ast.expr | ast.stmt | ast.excepthandler | ast.pattern):
                decorated = getattr(node, "decorator_list", None)
                start = (decorated[0].lineno, 0) if decorated else (node.lineno, node.col_offset)
                if start <= at < (node.end_lineno or node.lineno, node.end_col_offset or 0):
                    found = node
            if not isinstance(node, ast.JoinedStr):  # the interpreter does not know where its parts are
                todo.extend(ast.iter_child_nodes(node))
        return found

    def above(self, node: ast.AST) -> Iterator[tuple[ast.AST, ast.AST]]:
        """Each node around it, from the inside to the outside, with its parent."""
        while node in self.parents:
            yield node, self.parents[node]
            node = self.parents[node]

    def in_function(self, node: ast.AST) -> bool:
        """Whether it runs when a function is called, and not when the module is imported."""
        return any(
            (isinstance(outer, _FUNCTION) and inner in outer.body)
            or (isinstance(outer, ast.Lambda) and inner is outer.body)
            for inner, outer in self.above(node)
        )

    def markable(self, node: ast.AST) -> ast.AST:
        """The node itself, or the nearest around it that can carry a mark: an expression that is read, or a statement."""
        way = [node, *(outer for _, outer in self.above(node))]
        last = max(
            (number for number, one in enumerate(way) if isinstance(one, ast.JoinedStr | ast.pattern)), default=0
        )
        for one in way[last:]:
            if isinstance(one, ast.stmt) or (isinstance(one, ast.expr) and _is_read(one)):
                return one
        return self.tree.body[-1]

    def functions(self) -> Iterator[ast.AST]:
        """Every function."""
        return (node for node in ast.walk(self.tree) if isinstance(node, _FUNCTION))

    def text(self) -> str:
        """The code with its marks."""
        tree = _Writer(self.marks).visit(self.tree)
        after = next(
            (
                number
                for number, node in enumerate(tree.body)
                if not (isinstance(node, ast.ImportFrom) and node.module == "__future__")
                and not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
            ),
            len(tree.body),
        )
        tree.body.insert(after, ast.ImportFrom("pyhudi_core._reached", [ast.alias("reached", MARK)], 0))
        return ast.unparse(ast.fix_missing_locations(tree))


def _is_read(node: ast.expr) -> bool:
    parts = node.elts if isinstance(node, ast.Tuple) else []
    plain = not isinstance(node, ast.Starred | ast.Slice) and not any(isinstance(part, ast.Slice) for part in parts)
    return plain and isinstance(getattr(node, "ctx", ast.Load()), ast.Load)


class _Writer(ast.NodeTransformer):
    """Puts marks into a tree: before a statement, at the start of a function, or in front of an expression (``mark() or expression``)."""

    def __init__(self, marks: dict[ast.AST, int]) -> None:
        self.marks = marks

    def visit(self, node: ast.AST) -> ast.AST | list[ast.AST]:
        number = self.marks.get(node)
        self.generic_visit(node)
        if number is None:
            return node
        call = ast.Call(ast.Name(MARK, ast.Load()), [ast.Constant(number)], [])
        if isinstance(node, _FUNCTION):
            node.body.insert(int(ast.get_docstring(node, clean=False) is not None), ast.Expr(call))
            return node
        if isinstance(node, ast.stmt):
            return [ast.Expr(call), node]
        assert isinstance(node, ast.expr)
        return ast.BoolOp(ast.Or(), [call, node])


class _House:
    """All modules, and where each name is read."""

    def __init__(self, modules: dict[str, _Module]) -> None:
        self.modules = modules
        self.read: dict[str, list[_Use]] = defaultdict(list)
        self.count = 0
        for module in modules.values():
            for node in _evaluated(module.tree):
                if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load):
                    self.read[node.id if isinstance(node, ast.Name) else node.attr].append((module, node))

    def mark(self, module: _Module, node: ast.AST) -> int:
        """Mark the node, or the nearest one around it that can be marked; returns the number of the mark."""
        node = node if isinstance(node, _FUNCTION) else module.markable(node)
        if node not in module.marks:
            self.count += 1
            module.marks[node] = self.count
        return module.marks[node]

    def uses_of(self, module: _Module, node: ast.AST) -> set[int]:
        """Marks for a place that runs at import: where its value is used."""
        found: set[int] = set()
        seen: set[str] = set()
        todo = [(module, node)]
        while todo:
            where, what = todo.pop()
            names, functions = _bound(where, what)
            found |= {self.mark(where, function) for function in functions}
            for name in names - seen:
                seen.add(name)
                for other, use in self.read[name]:
                    if other.in_function(use):
                        found.add(self.mark(other, use))
                    else:
                        todo.append((other, use))
        return found or {self.mark(module, function) for function in module.functions()}


def _bound(module: _Module, node: ast.AST) -> tuple[set[str], list[ast.AST]]:
    """The names and functions that a place that runs at import defines."""
    names: set[str] = set()
    functions: list[ast.AST] = []
    for inner, outer in module.above(node):
        if isinstance(outer, _FUNCTION):
            return set(), [outer]
        if isinstance(outer, ast.ClassDef):
            names.add(outer.name)
            functions += module.functions()
        if isinstance(outer, ast.Module) and isinstance(inner, ast.Assign | ast.AnnAssign):
            targets = inner.targets if isinstance(inner, ast.Assign) else [inner.target]
            names |= {each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)}
    if isinstance(node, _FUNCTION):
        return set(), [node]
    if isinstance(node, ast.ClassDef):
        return {node.name}, [*module.functions()]
    return names, functions


def _evaluated(node: ast.AST) -> Iterator[ast.AST]:
    """Nodes that are not in annotations."""
    for name, value in ast.iter_fields(node):
        if name in {"annotation", "returns"}:
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield child
                yield from _evaluated(child)
