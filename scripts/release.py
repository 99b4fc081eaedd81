"""Build the sdist and the wheel of a release in ``dist/``, check them, and use the wheel in empty environments: ``python scripts/release.py``.

The environments get what ``pip install pyhudi`` and ``pip install 'pyhudi[dagster]'`` bring, in the versions of ``requirements.lock``. The Python
samples of ``README.md`` run there. Nothing is published, and no tag is made: the last lines say which tag fits.
"""

import json
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
import zipfile
from email import message_from_string
from pathlib import Path

from environments import lock
from install import ROOT, find_python, find_uv, run

DIST = ROOT / "dist"
TWINE = "twine==7.0.0"
PACKAGES = ("pyhudi", "pyhudi_airflow", "pyhudi_core", "pyhudi_dagster")
CORE = """
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

extras = [name for name in ("pyspark", "pandas", "boto3", "obstore", "dagster", "airflow", "polars", "greenlet") if importlib.util.find_spec(name)]
assert not extras, f"the core brings packages of extras: {extras}"
for extra, call in (
    ("s3", lambda: hudi.open_table("s3://bucket/table")),
    ("gcs", lambda: hudi.open_table("gs://bucket/table")),
    ("azure", lambda: hudi.open_table("az://container/table", storage_options={"account_name": "a"})),
    ("spark", lambda: table.scan().to_spark(object())),
):
    try:
        call()
    except MissingExtraError as error:
        assert f"pyhudi[{extra}]" in str(error), error
    else:
        raise AssertionError(f"{extra}: no error")
for line, extra in (
    ("import pyhudi_dagster", "dagster"),
    ("from pyhudi_airflow import HudiHook", "airflow"),
    ("import pyhudi_core.testing", "testing"),
):
    try:
        exec(line)
    except (ModuleNotFoundError, MissingExtraError) as error:
        assert f"pyhudi[{extra}]" in str(error), error
    else:
        raise AssertionError(f"{extra}: no error")
"""
DAGSTER = """
import importlib.util
import dagster as dg
import pyhudi_dagster
from pyhudi_dagster import HudiLakeResource, hudi_asset

for name in pyhudi_dagster.__all__:
    getattr(pyhudi_dagster, name)
brought = [name for name in ("pyspark", "pandas", "dagster_pyspark", "boto3", "polars") if importlib.util.find_spec(name)]
assert not brought, f"the extra dagster brings packages of other extras: {brought}"

@hudi_asset(record_key="id")
def numbers(lake: HudiLakeResource):
    return lake.spark.range(3)

ended = dg.materialize([numbers], resources={"lake": HudiLakeResource(warehouse="lake")}, raise_on_error=False)
said = str([event.event_specific_data for event in ended.all_events if event.is_step_failure])
assert not ended.success and "pip install 'pyhudi[spark]'" in said, said
"""


def refuse_unless(condition, what):
    if not condition:
        sys.exit(f"make release: {what}")


def checked_sdist(sdist, top):
    """It has the files that git tracks, and no other: nothing of ``.data`` or ``.cache``, nothing that was forgotten."""
    with tarfile.open(sdist) as archive:
        inside = {name.removeprefix(top + "/") for name in archive.getnames()}
    git = ["git", "ls-files", "--cached", "-z"]
    tracked = set(subprocess.run(git, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout.split("\0")) - {
        ""
    }
    refuse_unless(
        not (more := inside - tracked - {"PKG-INFO"}),
        f"the sdist has files that git does not track: {sorted(more)[:5]}",
    )
    refuse_unless(not (less := tracked - inside), f"the sdist lacks tracked files: {sorted(less)[:5]}")


def checked_wheel(wheel, project, top):
    """What an index and an installer read of it. Prints the bytes of its parts."""
    with zipfile.ZipFile(wheel) as archive:
        sizes = {item.filename: item.compress_size for item in archive.infolist()}
        metadata = message_from_string(archive.read(f"{top}.dist-info/METADATA").decode())
    inside = {name.partition("/")[0] for name in sizes}
    refuse_unless(inside == {*PACKAGES, f"{top}.dist-info"}, f"the wheel has {sorted(inside)}")
    for name in (*(f"{package}/py.typed" for package in PACKAGES), f"{top}.dist-info/licenses/LICENSE"):
        refuse_unless(name in sizes, f"the wheel has no {name}")
    for field, wanted in (
        ("Version", project["version"]),
        ("License-Expression", project["license"]),
        ("Requires-Python", project["requires-python"]),
        ("Description-Content-Type", "text/markdown"),
    ):
        refuse_unless(metadata[field] == wanted, f"the wheel's {field} is {metadata[field]}, not {wanted}")
    refuse_unless(
        set(metadata.get_all("Provides-Extra")) == set(project["optional-dependencies"]), "the wheel lacks extras"
    )
    dead = re.findall(r"\]\((?![a-z]+://|#)[^)]*\)", metadata.get_payload())
    refuse_unless(not dead, f"links of the long description that lead nowhere: {dead[:5]}")
    parts = {
        part: sum(size for name, size in sizes.items() if name.startswith(part))
        for part in ("pyhudi_airflow/", "pyhudi_dagster/", "pyhudi_core/testing/")
    }
    print(
        f"{wheel.name}: {wheel.stat().st_size >> 10} KB, of these "
        + ", ".join(f"{part} {size >> 10} KB" for part, size in parts.items())
    )


def checked_tag(version):
    """What to say of the tag. A commit with a tag of another version is refused."""
    command = ["git", "tag", "--points-at", "HEAD", "--list", "v*"]
    tags = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout.split()
    refuse_unless(
        not tags or f"v{version}" in tags, f"the commit has the tag {', '.join(tags)}, and the version is {version}"
    )
    return f"the tag v{version} fits" if tags else f"no tag yet; the one that fits: git tag v{version}"


def environment(uv, folder, requirement):
    """An empty environment with the requirement, and how to run something in it: from another folder, without the checkout."""
    run(*uv, "venv", "--quiet", "--python", find_python(), folder / "venv")
    (folder / "constraints.txt").write_text("\n".join(lock()) + "\n")
    binaries = folder / "venv" / "bin"
    install = [*uv, "pip", "install", "--quiet", "--python", binaries / "python"]
    run(*install, "--constraints", folder / "constraints.txt", requirement)
    size = sum(path.stat().st_size for path in (folder / "venv").rglob("*") if path.is_file())
    print(f"{requirement.rpartition('/')[2]}: {size >> 20} MB with its packages")
    return binaries, {"cwd": folder, "env": {"PATH": str(binaries), "HOME": str(folder)}}


def samples():
    """The Python samples of ``README.md``: those for the core, the first of them twice, and those for Dagster."""
    found = re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    dagster = [sample for sample in found if "dagster" in sample]
    core = [sample for sample in found if sample not in dagster]
    refuse_unless(core and dagster, "README.md has no samples, or none for Dagster")
    return [core[0], *core], dagster


def main():
    began = time.monotonic()
    uv, folder = find_uv(), Path(tempfile.mkdtemp(prefix="pyhudi-release-"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    version, top = project["version"], f"pyhudi-{project['version']}"
    shutil.rmtree(DIST, ignore_errors=True)
    run(*uv, "build", "--quiet", "--out-dir", DIST, ROOT)  # the wheel from the sdist
    sdist, wheel = DIST / f"{top}.tar.gz", DIST / f"{top}-py3-none-any.whl"
    checked_sdist(sdist, top)
    checked_wheel(wheel, project, top)
    run(*uv, "tool", "run", "--quiet", "--from", TWINE, "twine", "check", "--strict", sdist, wheel)
    core, dagster = samples()
    try:
        (folder / "core").mkdir()
        binaries, alone = environment(uv, folder / "core", str(wheel))
        location = str(folder / "core" / "orders")
        subprocess.run([binaries / "python", "-I", "-c", CORE, location], check=True, **alone)
        shown = [binaries / "pyhudi", "timeline", location, "--json"]
        timeline = json.loads(subprocess.run(shown, check=True, stdout=subprocess.PIPE, text=True, **alone).stdout)
        refuse_unless(
            [instant["state"] for instant in timeline] == ["completed"] * 2, f"pyhudi timeline shows {timeline}"
        )
        subprocess.run([binaries / "pyhudi", "check", location], check=True, **alone)
        subprocess.run([binaries / "pyhudi", "help", "options"], check=True, stdout=subprocess.DEVNULL, **alone)
        for sample in core:
            subprocess.run([binaries / "python", "-I", "-c", sample], check=True, stdout=subprocess.DEVNULL, **alone)
        (folder / "dagster").mkdir()
        binaries, alone = environment(uv, folder / "dagster", f"{wheel}[dagster]")
        for number, sample in enumerate([DAGSTER, *dagster]):  # in a file, because Dagster reads the source of an asset
            (folder / "dagster" / f"sample{number}.py").write_text(sample)
            quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
            ended = subprocess.run([binaries / "python", f"sample{number}.py"], check=False, **alone, **quiet)
            refuse_unless(ended.returncode == 0, f"sample {number} for Dagster failed:\n{ended.stderr[-3000:]}")
        print(
            f"{sdist.name}: {sdist.stat().st_size >> 20} MB; {len(core) + len(dagster)} samples of README.md ran; {time.monotonic() - began:.0f} s"
        )
        print(checked_tag(version))
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    sys.exit(main())
