"""The commands of docs/dagster-component.md, typed in a project of ``dg``."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import pyhudi_core as hudi

ROOT = Path(__file__).resolve().parents[2]
(COMMAND,) = re.findall(r"^```\n(dg .*?)\n```", (ROOT / "docs" / "dagster-component.md").read_text(), re.MULTILINE)
PROJECT = """[project]
name = "shop"
version = "0"

[tool.dg]
directory_type = "project"

[tool.dg.project]
root_module = "shop"
"""
DEFINITIONS = """from pathlib import Path

from dagster import definitions, load_from_defs_folder


@definitions
def defs():
    return load_from_defs_folder(path_within_project=Path(__file__).parent)
"""


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_command_of_the_page_makes_a_lake_that_loads_and_is_materialized(tmp_path: Path) -> None:
    package = tmp_path / "src" / "shop"
    (package / "defs").mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    (package / "definitions.py").write_text(DEFINITIONS)
    for folder in (package, package / "defs"):
        (folder / "__init__.py").touch()

    def run(command: str) -> str:
        program, *words = shlex.split(command)
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join((str(ROOT), str(package.parent))),
            "DAGSTER_HOME": str(tmp_path),
            "COLUMNS": "200",
        }
        path = str(Path(sys.executable).with_name(program))
        done = subprocess.run(
            [path, *words], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=180, check=False
        )
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
        return done.stdout

    run(COMMAND.replace("s3://lake", str(tmp_path / "lake")))
    run("dg check yaml")
    run("dg launch --assets sales/orders")
    assert hudi.open_table(str(tmp_path / "lake" / "sales" / "orders")).scan().count() == 1
