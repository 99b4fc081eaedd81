"""Build the wheel, install it into an empty environment, and use it there: ``python scripts/try_wheel.py``.

Standard library only. The environment gets what ``pip install pyhudi`` brings, in the versions of ``requirements.lock``. Prints how long it
took; ends with an error if a step fails, or if the wheel brings a package of an extra.
"""

import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from install import ROOT, find_python, find_uv, run
from pyspark35 import constraints

PROGRAM = """
import importlib.util, sys
import pyarrow as pa
import pyhudi as hudi
from pyhudi.errors import MissingExtraError

rows = pa.table({"id": [1, 2], "day": ["2026-01-01", "2026-01-02"], "price": [9.5, 7.0]})
table = hudi.create_table(sys.argv[1], schema=rows.schema, record_key="id", partition_by="day", options={"hoodie.metadata.enable": "true"})
first = table.upsert(rows)
table.delete(where="id = 2")
assert table.scan(columns=["id", "price"], where="price > 8").to_arrow().to_pylist() == [{"id": 1, "price": 9.5}]
assert hudi.open_table(sys.argv[1]).scan(as_of=first.completion_time).count() == 2

extras = [name for name in ("pyspark", "pandas", "boto3", "dagster", "polars", "greenlet") if importlib.util.find_spec(name)]
assert not extras, f"the core brings packages of extras: {extras}"
for extra, call in (("s3", lambda: hudi.open_table("s3://bucket/table")), ("spark", lambda: table.scan().to_spark(object()))):
    try:
        call()
    except MissingExtraError as error:
        assert f"pyhudi[{extra}]" in str(error), error
    else:
        raise AssertionError(f"{extra}: no error")
for module, extra in (("pyhudi_dagster", "dagster"), ("pyhudi.testing", "testing")):
    try:
        __import__(module)
    except ModuleNotFoundError as error:
        assert f"pyhudi[{extra}]" in str(error), error
    else:
        raise AssertionError(f"{extra}: no error")
"""


def main():
    began = time.monotonic()
    uv, folder = find_uv(), Path(tempfile.mkdtemp(prefix="pyhudi-wheel-"))
    try:
        run(*uv, "build", "--quiet", "--wheel", "--out-dir", folder, ROOT)
        (wheel,) = folder.glob("*.whl")
        run(*uv, "venv", "--quiet", "--python", find_python(), folder / "venv")
        (folder / "constraints.txt").write_text("\n".join(constraints()) + "\n")
        binaries = folder / "venv" / "bin"
        install = [*uv, "pip", "install", "--quiet", "--python", binaries / "python"]
        run(*install, "--constraints", folder / "constraints.txt", wheel)
        # From another folder and without PYTHONPATH, so that the checkout is not what is imported.
        alone = {"cwd": folder, "env": {"PATH": str(binaries)}}
        location = str(folder / "orders")
        subprocess.run([binaries / "python", "-c", PROGRAM, location], check=True, **alone)
        shown = subprocess.run(
            [binaries / "pyhudi", "timeline", location, "--json"],
            check=True,
            stdout=subprocess.PIPE,
            text=True,
            **alone,
        ).stdout
        assert [instant["state"] for instant in json.loads(shown)] == ["completed"] * 2, shown
        subprocess.run([binaries / "pyhudi", "check", location], check=True, **alone)
        subprocess.run([binaries / "pyhudi", "help", "options"], check=True, stdout=subprocess.DEVNULL, **alone)
        size = sum(path.stat().st_size for path in (folder / "venv").rglob("*") if path.is_file())
        print(
            f"{wheel.name}: installed ({size >> 20} MB with its packages), a table written and read, the extras named;"
            f" {time.monotonic() - began:.0f} s"
        )
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    sys.exit(main())
