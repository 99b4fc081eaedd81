"""Looking never starts a JVM, and loading is light."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def python(code: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_importing_the_package_imports_neither_pyspark_nor_pyarrow():
    code = "import sys, pyhudi_dagster; print([m for m in ('pyspark', 'pyarrow') if m in sys.modules])"
    assert python(code).strip() == "[]"


def test_every_public_name_can_be_loaded():
    assert python("import pyhudi_dagster as p; print(all(getattr(p, n) for n in p.__all__))").strip() == "True"


def test_looking_at_a_table_starts_no_jvm(run, lake, orders, asset_of):
    run(asset_of(orders(1, 2)))
    code = f"""
import psutil, definitions
from pyhudi_dagster import HudiLakeResource
table = HudiLakeResource(warehouse={lake.warehouse!r}).table("orders")
print(len(table.timeline), table.scan().to_arrow().num_rows, [c.name() for c in psutil.Process().children(recursive=True)])
"""
    assert python(code).strip().endswith("1 2 []")


def test_arrow_assets_start_no_jvm(run, orders, asset_of):
    from pyspark import SparkContext

    had = SparkContext._active_spark_context
    run(asset_of(orders(1)))
    assert SparkContext._active_spark_context is had


@pytest.mark.parametrize("path", (ROOT / "pyhudi_dagster").rglob("*.py"), ids=lambda path: path.stem)
def test_only_dagsters_public_api_is_used(path):
    found = "dagster._" in path.read_text().replace("pyhudi_dagster", "")
    assert not found or path.stem == "dagster_internals", "test_dagster_contract.py watches that module"


def test_a_warehouse_in_a_home_folder_is_refused_by_name_and_not_made_below_the_working_directory():
    from pyhudi_core.errors import ConfigError
    from pyhudi_dagster import HudiLakeResource

    with pytest.raises(ConfigError, match="begins with '~'"):
        HudiLakeResource(warehouse="~/lake")
