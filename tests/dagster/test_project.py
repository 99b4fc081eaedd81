"""The project that ``pyhudi-dagster`` is about: where its definitions are found, and what a table that cannot be opened is told to be."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.dagster_services import orders_asset

from pyhudi_core.errors import InvalidOptionError, UnsupportedTableError
from pyhudi_dagster.command import diagnosis
from pyhudi_dagster.command.project import Project
from pyhudi_dagster.lake.info import info_of

NAMED = "import dagster as dg\ndefs = dg.Definitions(metadata={'is': 'PLACE'})\n"
MADE = "import dagster as dg\ndef defs():\n    return dg.Definitions(metadata={'is': 'PLACE'})\n"
ALONE = "import dagster as dg\nmine = dg.Definitions(metadata={'is': 'PLACE'})\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with definitions in a file, in another one, and in a module."""
    before = set(sys.modules)
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name in ("definitions", "other_file", "their_module"):
        (tmp_path / f"{name}.py").write_text(NAMED.replace("PLACE", name))
    yield tmp_path
    for name in {"definitions", "other_file", "their_module"} - before:
        sys.modules.pop(name, None)


def found(project: Project) -> object:
    return project.definitions.metadata["is"].value  # type: ignore[index]


def test_definitions_are_found_in_the_file_or_module_that_is_named_else_where_the_project_says(folder: Path) -> None:
    assert found(Project(None, None, folder)) == "definitions"
    assert found(Project(None, "their_module", folder)) == "their_module"
    (folder / "pyproject.toml").write_text("[tool.dagster]\nmodule_name = 'their_module'\n")
    assert found(Project(None, None, folder)) == "their_module"
    assert found(Project(folder / "other_file.py", None, folder)) == "other_file"


@pytest.mark.parametrize("code", [NAMED, MADE, ALONE], ids=["defs", "a function defs", "the only definitions"])
def test_definitions_are_a_variable_or_made_by_a_function(folder: Path, code: str) -> None:
    (folder / "definitions.py").write_text(code)
    assert found(Project(None, None, folder)) == "PLACE"


@pytest.mark.parametrize("code", ["", "defs = 1\n", f"{ALONE}more = dg.Definitions()\n"])
def test_a_file_without_definitions_or_with_many_is_refused(folder: Path, code: str) -> None:
    (folder / "definitions.py").write_text(code)
    with pytest.raises(InvalidOptionError, match="has no Definitions under the name defs"):
        _ = Project(None, None, folder).definitions


def test_a_table_that_cannot_be_opened_is_bad_and_the_diagnosis_says_what_to_do() -> None:
    (spec,) = orders_asset(None).specs
    info = info_of(spec.key, spec.metadata)

    def table(_: object) -> None:
        raise UnsupportedTableError("It is broken", hint="Mend it.")

    project: Any = SimpleNamespace(tables=[info], lakes=lambda: nullcontext(SimpleNamespace(table=table)))
    _, told = diagnosis.of_lake(project)
    assert told == diagnosis.Diagnosis("table orders", "It is broken", False, "Mend it.")
