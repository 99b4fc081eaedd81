"""What an import costs: libraries that only some calls need are loaded by these calls."""

import subprocess
import sys

import pytest

LATE = ("pandas", "sqlglot", "pyspark", "boto3", "polars", "dagster")


@pytest.mark.parametrize(
    "begin",
    ["import pyhudi_core", "from pyhudi_core.cli import main; main(['--help'], standalone_mode=False)"],
    ids=["package", "command"],
)
def test_libraries_that_only_some_calls_need_are_not_imported(begin: str) -> None:
    code = f"{begin}\nimport sys; print('loaded:', *[name for name in {LATE!r} if name in sys.modules])"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout.splitlines()[-1].split() == ["loaded:"]
