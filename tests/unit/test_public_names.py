"""The public surface: one import name, one meaning for each name, and an answer for names that are not there."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import pickle
import subprocess
import sys
import traceback
import typing
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.tables import ORDERS, in_memory, orders

import pyhudi
import pyhudi.errors
import pyhudi.spark
import pyhudi.testing
import pyhudi_core
import pyhudi_core.errors
from pyhudi_core import orchestration

cloudpickle = pytest.importorskip("pyspark.cloudpickle")  # what Spark sends functions with

ROOT = Path(__file__).resolve().parents[2]
MODULES = ("pyhudi", "pyhudi.errors", "pyhudi.spark", "pyhudi.testing")


@pytest.fixture
def table() -> pyhudi.HudiTable:
    return pyhudi.create_table(in_memory(), ORDERS, "id", "day")


def _things(module: str) -> Iterator[tuple[str, Any]]:
    found = importlib.import_module(module)
    for name in found.__all__:
        thing = getattr(found, name)
        if isinstance(thing, type) or callable(thing):
            yield name, thing


PUBLIC = [(module, name, thing) for module in MODULES for name, thing in _things(module)]
OWN = [case for case in PUBLIC if case[1] != "Image"]  # the name of a type of Python


@pytest.mark.parametrize(("module", "name", "thing"), OWN, ids=[f"{module}.{name}" for module, name, _ in OWN])
def test_a_public_name_reports_the_module_that_users_import_it_from(module: str, name: str, thing: Any) -> None:
    reported = "pyhudi.errors" if name == "HudiError" else module
    assert (thing.__module__, thing.__qualname__) == (reported, name)
    assert pickle.loads(pickle.dumps(thing)) is thing
    assert len(cloudpickle.dumps(thing)) < 200, "by its name; the code of the class would be longer"


CLASSES = [(module, name, thing) for module, name, thing in OWN if isinstance(thing, type)]


@pytest.mark.parametrize(("name", "thing"), [(name, thing) for _, name, thing in CLASSES], ids=[c[1] for c in CLASSES])
def test_the_annotations_of_a_public_class_are_read_where_they_are_written(name: str, thing: type) -> None:
    found = dict(vars(thing).get("__annotations__", {}))
    assert not [key for key, hint in found.items() if isinstance(hint, str)], name
    try:
        hints = typing.get_type_hints(thing)
    except NameError as missing:
        assert _only_for_types(thing, missing.name), "a name that the module imports for type checkers"
    else:
        assert set(found) <= set(hints)


def _only_for_types(thing: type, name: str) -> bool:
    home = {hint.__forward_module__ for base in thing.__mro__ for hint in vars(base).get("__annotations__", {}).values()
            if isinstance(hint, typing.ForwardRef)} | {base.__module__ for base in thing.__mro__}  # fmt: skip
    sources = [
        Path(file).read_text() for module in home if (file := getattr(sys.modules.get(module), "__file__", None))
    ]
    return any(
        isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING" and name in ast.unparse(node)
        for source in sources
        for node in ast.walk(ast.parse(source))
    )


def test_what_is_public_and_what_implements_it_are_the_same_objects() -> None:
    assert pyhudi.__all__ == pyhudi_core.__all__
    packages = {"errors", "snapshot", "transaction"}  # names of packages of the implementation, too
    assert all(getattr(pyhudi, name) is getattr(pyhudi_core, name) for name in {*pyhudi.__all__} - packages)
    own = [k for k in vars(pyhudi_core.errors).values() if isinstance(k, type) and issubclass(k, pyhudi.HudiError)]
    assert sorted(kind.__name__ for kind in own) == sorted(pyhudi.errors.__all__)
    assert all(getattr(pyhudi.errors, kind.__name__) is kind for kind in own)


def test_dir_shows_what_users_need() -> None:
    public = [name for name in dir(pyhudi) if not name.startswith("_")]
    assert set(public) == {*pyhudi.__all__, "errors", "spark", "testing"}
    assert not {"Any", "TYPE_CHECKING", "pyhudi_core", *orchestration.__all__} & set(public)
    for module in (pyhudi.errors, pyhudi.spark, pyhudi.testing):
        assert dir(module) == sorted(module.__all__)
    assert all(getattr(orchestration, name) is not None for name in orchestration.__all__)


def _classes(package: str) -> Iterator[tuple[str, str]]:
    for path in sorted((ROOT / package).rglob("*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef):
                yield node.name, str(path.relative_to(ROOT))


def test_no_public_name_means_two_things() -> None:
    dagster = pytest.importorskip("pyhudi_dagster")
    meant: dict[str, dict[int, str]] = defaultdict(dict)
    for module in (pyhudi, pyhudi.errors, pyhudi.spark, pyhudi.testing, orchestration, dagster):
        for name in set(module.__all__) - {"errors", "__version__"}:
            meant[name][id(getattr(module, name))] = module.__name__
    assert {name: homes for name, homes in meant.items() if len(homes) > 1} == {}
    places: dict[str, list[str]] = defaultdict(list)
    for package in ("pyhudi", "pyhudi_core", "pyhudi_dagster"):
        for name, place in _classes(package):
            places[name].append(place)
    assert {name: places[name] for name in meant if len(places[name]) > 1} == {}


def test_a_traceback_names_the_error_as_users_import_it(tmp_path: Path) -> None:
    with pytest.raises(pyhudi.errors.TableNotFoundError) as found:
        pyhudi.open_table(str(tmp_path))
    assert traceback.format_exception_only(found.value)[0].startswith("pyhudi.errors.TableNotFoundError: ")


@pytest.mark.parametrize("first", ["pyhudi", "pyhudi_core", "pyhudi_core.errors", "pyhudi.errors", "pyhudi_core.spark"])
def test_each_package_can_be_imported_first(first: str) -> None:
    code = (
        f"import {first}, sys, pickle, pyhudi_core; pickle.dumps(pyhudi_core.HudiTable); print('pyhudi' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "True\n"


def test_the_module_of_the_package_is_the_command() -> None:
    ended = subprocess.run([sys.executable, "-m", "pyhudi", "--help"], capture_output=True, text=True, check=True)
    assert ended.stdout.startswith("Usage: pyhudi ")


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("savepoint", "table.savepoints.create("),
        ("restores", "table.restore.plan("),
        ("rollbacks", "table.rollback.plan("),
    ],
)
def test_a_name_that_is_not_there_is_answered_with_what_to_call(table: pyhudi.HudiTable, name: str, call: str) -> None:
    with pytest.raises(AttributeError, match=f"HudiTable has no '{name}'") as found:
        getattr(table, name)
    assert call in str(found.value)
    assert not hasattr(table, name)


def test_another_name_and_a_property_that_fails_raise_their_own_errors(table: pyhudi.HudiTable) -> None:
    with pytest.raises(AttributeError, match="'HudiTable' object has no attribute 'upsrt'"):
        _ = table.upsrt  # type: ignore[attr-defined]

    class Failing(pyhudi.HudiTable):
        @property
        def name(self) -> str:
            raise AttributeError("the reason")

    with pytest.raises(AttributeError, match="the reason"):
        _ = Failing(table._opened).name


def test_a_service_that_is_called_and_its_steps_do_the_same(table: pyhudi.HudiTable) -> None:
    first, second = table.upsert(orders((1, "a", 1.0))), table.upsert(orders((1, "a", 2.0)))
    assert repr(table.restore).startswith("Restores of memory://")
    assert table.rollback.plan(second)
    assert table.rollback(second, completed=True)
    third = table.upsert(orders((2, "a", 3.0)))
    assert [one.instant.requested_time for one in table.restore.plan(first).commits] == [third.instant]
    assert table.restore(first).commits == 1
    assert table.scan().count() == 1


def test_partial_rows_are_asked_for_only_where_they_can_be_written(table: pyhudi.HudiTable) -> None:
    for verb in (table.insert, table.bulk_insert):
        with pytest.raises(TypeError, match="partial"):
            verb(orders((1, "a", 1.0)), partial=True)  # type: ignore[call-arg]


def test_instances_of_public_classes_survive_pickle_and_replace(table: pyhudi.HudiTable) -> None:
    instant = table.upsert(orders((1, "a", 1.0)))
    assert pickle.loads(pickle.dumps(instant)) == instant
    assert dataclasses.replace(instant, retries=3).retries == 3
