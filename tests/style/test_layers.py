"""A late import obeys the contracts of pyproject.toml as an ordinary import does."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from grimp import ImportGraph
from support.sources import ROOT

from scripts.layers import add_late_imports


@pytest.mark.parametrize(
    "source",
    [
        "from pyhudi_core.lazy import lazy\n_auto = lazy('pyhudi_core.services.registry')",
        "from pyhudi_core.lazy import lazy as soon\ndef f(): return soon('pyhudi_core.services.registry').run",
        "import pyhudi_core.lazy as l\n_auto = l.lazy('pyhudi_core.services.registry')",
        "from pyhudi_core import lazy\n_auto = lazy.LazyModule('pyhudi_core.services.registry')",
        "from pyhudi_core.lazy import lazy_in\n_auto, other = lazy_in('pyhudi_core.services', 'registry', 'registry')",
        "from pyhudi_core.lazy import lazy_call\nrun = lazy_call('pyhudi_core.services.registry', 'run')",
        "import importlib\nimportlib.import_module('pyhudi_core.services.registry')",
        "from importlib import import_module\nload = import_module\nload('pyhudi_core.services.registry')",
        "__import__('pyhudi_core.services.registry')",
        "import builtins\nbuiltins.__import__('pyhudi_core.services.registry')",
    ],
)
def test_a_late_import_is_in_the_graph_of_imports(source: str) -> None:
    graph = ImportGraph()
    graph.add_module("pyhudi_core.services.registry")
    add_late_imports(graph, source, "pyhudi_core.transaction.status")
    assert graph.find_modules_directly_imported_by("pyhudi_core.transaction.status") >= {
        "pyhudi_core.services.registry"
    }


def test_a_late_import_of_a_library_is_one_of_the_library() -> None:
    graph = ImportGraph()
    add_late_imports(graph, "import importlib\nimportlib.import_module('pyspark.sql')", "pyhudi_core.model.instant")
    assert graph.find_modules_directly_imported_by("pyhudi_core.model.instant") == {"pyspark"}


def test_a_broken_layer_is_named_with_its_line(tmp_path: Path) -> None:
    for folder in ("pyhudi", "pyhudi_airflow", "pyhudi_core", "pyhudi_dagster"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "scripts").mkdir()
    for file in ("pyproject.toml", "scripts/layers.py"):
        shutil.copy(ROOT / file, tmp_path / file)
    broken = tmp_path / "pyhudi_core" / "model" / "operation.py"
    lines = [
        *broken.read_text().splitlines(),
        "",
        "from pyhudi_core.lazy import lazy",
        '_command = lazy("pyhudi_core.cli.main")',
    ]
    broken.write_text("\n".join(lines) + "\n")
    command = [sys.executable, "scripts/layers.py"]
    ended = subprocess.run(
        command, cwd=tmp_path, env={"PYTHONPATH": str(tmp_path)}, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 1
    assert f"pyhudi_core.model.operation -> pyhudi_core.cli.main (l.{len(lines)})" in ended.stdout
