"""What an import costs: libraries that only some calls need are loaded by these calls."""

import re
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import pyhudi_core
from pyhudi_core import create_table

LATE = ("pandas", "sqlglot", "pyspark", "boto3", "polars", "dagster")


@pytest.mark.parametrize(
    "begin",
    ["import pyhudi", "from pyhudi_core.cli import main; main(['--help'], standalone_mode=False)"],
    ids=["package", "command"],
)
def test_libraries_that_only_some_calls_need_are_not_imported(begin: str) -> None:
    code = f"{begin}\nimport sys; print('loaded:', *[name for name in {LATE!r} if name in sys.modules])"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout.splitlines()[-1].split() == ["loaded:"]


def test_the_package_loads_its_modules_when_their_names_are_used() -> None:
    code = "import pyhudi_core, sys; before = 'pyhudi_core.table' in sys.modules; pyhudi_core.open_table; print(before, 'pyhudi_core.table' in sys.modules)"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout.split() == ["False", "True"]
    names = "import pyhudi_core; print(sorted(set(pyhudi_core.__all__) - set(dir(pyhudi_core))), [getattr(pyhudi_core, name) for name in pyhudi_core.__all__] and 'all')"
    assert subprocess.run([sys.executable, "-c", names], capture_output=True, text=True, check=True).stdout.split() == [
        "[]",
        "all",
    ]


def test_both_packages_have_the_same_names() -> None:
    import pyhudi
    import pyhudi.errors
    import pyhudi_core

    other = {name for name in pyhudi_core.__all__ if getattr(pyhudi, name) is not getattr(pyhudi_core, name)}
    assert (
        other <= {"errors", "snapshot", "transaction"}
    )  # packages of the implementation; and errors is a module of the same classes, so that `from pyhudi.errors import ...` works
    assert set(pyhudi_core.__all__) <= set(dir(pyhudi))
    assert pyhudi.errors.TableNotFoundError is pyhudi_core.errors.TableNotFoundError
    with pytest.raises(AttributeError, match="module 'pyhudi' has no attribute 'no_such_name'"):
        _ = pyhudi.no_such_name


def test_what_needs_an_extra_names_the_extra() -> None:
    code = (
        "import sys; sys.modules['boto3'] = sys.modules['botocore.exceptions'] = None; import pyhudi\n"
        "try: pyhudi.open_table('s3://bucket/table')\n"
        "except pyhudi.errors.MissingExtraError as error: print(error)"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert re.search("needs the package boto(3|core), ", ended.stdout), "the package, not one of its modules"
    assert "pip install 'pyhudi[s3]'" in ended.stdout


def _modules_after(code: str) -> set[str]:
    shown = f"{code}\nimport sys; print('modules:', *sys.modules)"
    ended = subprocess.run([sys.executable, "-c", shown], capture_output=True, text=True, check=True)
    return set(ended.stdout.splitlines()[-1].split())


def test_opening_a_table_imports_a_tenth_of_the_package(tmp_path: Path) -> None:
    """The rest, and the libraries of other calls, would take longer than pyarrow and numpy together."""
    location = str(tmp_path / "table")
    create_table(location, pa.schema([("id", pa.string())]), "id")
    found = _modules_after(f"import pyhudi, pyarrow; pyhudi.open_table({location!r})")
    every = sum(1 for _ in Path(pyhudi_core.__file__).parent.rglob("*.py"))
    assert len([name for name in found if name.startswith("pyhudi_core.")]) <= every / 10
    late = {"pyarrow.compute", "fastavro", "concurrent.futures", "html", "difflib", "secrets", "hashlib", "xxhash"}
    assert found.isdisjoint(late)


def test_the_help_of_the_command_imports_neither_pyarrow_nor_rich() -> None:
    found = _modules_after("from pyhudi_core.cli import main; main(['--help'], standalone_mode=False)")
    assert found.isdisjoint({"pyarrow", "numpy", "rich", "pyhudi_core.table"})


def test_a_reader_in_a_process_of_spark_does_not_wait_for_the_code_that_writes() -> None:
    """Spark starts a process for each stream, and it imports the data source."""
    pytest.importorskip("pyspark.sql.streaming.datasource", reason="PySpark 3.5 has no data sources in Python")
    found = _modules_after("import pyhudi_core.spark.source")
    assert not [name for name in found if name.startswith(("pyhudi_core.write", "pyhudi_core.transaction.commit"))]
