"""Check the import contracts of pyproject.toml, late imports included: ``python scripts/layers.py``; silent if all are kept.

import-linter sees the statements ``import`` and ``from``. What a function imports (those of ``pyhudi_core/lazy.py``, ``importlib.import_module``,
``__import__``) is added to its graph here, so that every contract holds for it, too.
"""

from __future__ import annotations

import ast
import re
import sys
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

from grimp import ImportGraph
from importlinter import cli
from importlinter.adapters.building import GraphBuilder
from importlinter.application.app_config import settings
from importlinter.application.output import console

ROOT = Path(__file__).resolve().parent.parent
LOADERS = {"lazy", "lazy_in", "lazy_call", "lazy_names", "LazyModule", "import_module", "__import__", "resolve_name"}
"""Functions that import the module of a text. ``lazy_names`` imports only from the package that calls it, which needs no rule."""


class Names:
    """What the names of a module stand for, whatever way they came: imports under any name, late imports, and other names for one of these.

    Attributes:
        used: by dotted name, such as ``datetime.datetime.now``: the first line that imports or uses it.
        late: by dotted name: the first line that imports it by a function of `LOADERS`.
        hidden: the lines of uses of such a function that do not say as texts what they import.
        nodes: every node of the parsed module.
    """

    def __init__(self, source: str, module: str = "") -> None:
        self.used: dict[str, int] = {}
        self.late: dict[str, int] = {}
        self.hidden: set[int] = set()
        self._origins = {"__import__": "builtins.__import__"}
        self.nodes = nodes = list(ast.walk(ast.parse(source)))
        for node in nodes:
            self._imports(node, module)
        for _ in range(2):  # the second time for names of names
            for node in nodes:
                self._assignment(node)
        followed = {id(node.func) for node in nodes if isinstance(node, ast.Call) and self._loads(node) is not None}
        for node in nodes:
            name = self.dotted(node)
            if name is not None:
                self.used.setdefault(name, node.lineno)
                if _last(name) in LOADERS and name != "pyhudi_core.lazy" and id(node) not in followed:
                    self.hidden.add(node.lineno)
            for loaded in self._loads(node) or ():
                self.used.setdefault(loaded, node.lineno)
                self.late.setdefault(loaded, node.lineno)

    def _imports(self, node: ast.AST, module: str) -> None:
        if isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.partition(".")[0]
                self._origins[alias.asname or top] = alias.name if alias.asname else top
                self.used.setdefault(alias.name, node.lineno)
        elif isinstance(node, ast.ImportFrom):
            above = module.split(".")[: -node.level] if node.level else []
            for alias in node.names:
                name = ".".join([*above, *filter(None, [node.module]), alias.name])
                self._origins[alias.asname or alias.name] = name
                self.used.setdefault(name, node.lineno)

    def _assignment(self, node: ast.AST) -> None:
        """Note the names that an assignment gives to what is known."""
        if not isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr) or node.value is None:
            return
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            targets = target.elts if isinstance(target, ast.Tuple) else [target]
            values = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
            stands_for = [name for value in values for name in self._loads(value) or [self.dotted(value)]]
            for one, name in zip(targets, stands_for, strict=False):
                if isinstance(one, ast.Name) and name is not None:
                    self._origins.setdefault(one.id, name)

    def dotted(self, node: ast.AST) -> str | None:
        """The dotted name that an expression stands for; None if it is not known, or not from another module."""
        match node:
            case ast.Name():
                return self._origins.get(node.id)
            case ast.Attribute():
                home, name = self.dotted(node.value), node.attr
            case ast.Call(func=ast.Name("getattr"), args=[of, ast.Constant(str(name)), *_]):
                home = self.dotted(of)
            case ast.Call():
                loaded = self._loads(node) or []
                return loaded[0] if len(loaded) == 1 else None
            case _:
                return None
        return f"{home}.{name}" if home else None

    def _loads(self, node: ast.AST) -> list[str] | None:
        """The dotted names that a call of a function of `LOADERS` imports; None for anything else, and if it does not say them as texts."""
        function = self.dotted(node.func) if isinstance(node, ast.Call) else None
        if not isinstance(node, ast.Call) or function is None or _last(function) not in LOADERS:
            return None
        if _last(function) == "lazy_names":
            return [] if isinstance(node.args[0], ast.Name) and node.args[0].id == "__name__" else None
        given = node.args[:1] if _last(function) == "__import__" else node.args
        texts = [word.value for word in given if isinstance(word, ast.Constant) and isinstance(word.value, str)]
        if not texts or len(texts) < len(given) or texts[0].startswith("."):
            return None
        return [f"{texts[0]}.{name}" for name in texts[1:]] or texts


def _last(name: str) -> str:
    return name.rpartition(".")[2]


def add_late_imports(graph: ImportGraph, source: str, module: str) -> None:
    """Add what a module of this source imports late to a graph of imports."""
    importer, lines = module.removesuffix(".__init__"), source.splitlines()
    for name, line in Names(source, module).late.items():
        parts = name.split(".")
        homes = (".".join(parts[:size]) for size in range(len(parts), 0, -1))
        home = next((home for home in homes if home in graph.modules), parts[0])
        if home not in graph.modules:
            graph.add_module(home, is_squashed=True)
        if home != importer:
            graph.add_import(importer=importer, imported=home, line_number=line, line_contents=lines[line - 1].strip())


class _WithLateImports(GraphBuilder):
    """Import-linter's graph, and the imports that it does not see."""

    def build(self, root_package_names: list[str], *given: object, **named: object) -> ImportGraph:
        graph: ImportGraph = super().build(root_package_names, *given, **named)
        for path in sorted(path for package in root_package_names for path in (ROOT / package).rglob("*.py")):
            source = path.read_text(encoding="utf-8")
            if any(word in source for word in LOADERS):
                add_late_imports(graph, source, ".".join(path.relative_to(ROOT).with_suffix("").parts))
        return graph


def main() -> int:
    """Print what import-linter says of broken contracts; the exit status is 1 if there is one."""
    settings.configure(GRAPH_BUILDER=_WithLateImports())
    console.file = said = StringIO()
    with redirect_stdout(said):
        code = cli.lint_imports(no_logo=True, cache_dir=".cache/import_linter")
    if code:
        print(re.sub(r"(?s)^.*\n-+\nBroken contracts\n-+\n", "", said.getvalue()).strip())
        print(
            "\nMove the code to the layer that may use it, or hand in what it needs (CONTRIBUTING.md has the layers)."
        )
    return code


if __name__ == "__main__":
    sys.exit(main())
