"""The process that decodes ORC takes nothing from the place where it is started."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pyarrow as pa
import pytest
from pyarrow import orc

from pyhudi_core.runtime import isolated, orc_child
from pyhudi_core.runtime.isolated import orc_stripes, python_child

SEEN = """
import json, os, sys
import pyarrow
print(json.dumps({"path": sys.path, "env": dict(os.environ), "folder": os.getcwd(), "modules": sorted(sys.modules), "files": os.listdir("/dev/fd")}))
"""
TAKEN = "import pathlib\npathlib.Path(__file__).with_name('RAN').write_text('x')\nraise SystemExit(0)\n"


@pytest.fixture
def program(tmp_path: Path) -> ModuleType:
    (tmp_path / "seen.py").write_text(SEEN)
    made = ModuleType("seen")
    made.__file__ = str(tmp_path / "seen.py")
    made.__loader__ = None
    return made


def _orc(folder: Path) -> pa.Buffer:
    orc.write_table(pa.table({"a": [1, 2]}), folder / "x.orc")
    return pa.py_buffer((folder / "x.orc").read_bytes())


@pytest.mark.parametrize("way", ["folder", "PYTHONPATH", "PYTHONSTARTUP", "PYTHONHOME"])
def test_no_code_of_the_place_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    data = _orc(tmp_path)
    for module in ("json", "resource", "pyarrow", "sitecustomize", "usercustomize", "encodings", "startup"):
        (tmp_path / f"{module}.py").write_text(TAKEN)
    if way == "folder":
        monkeypatch.chdir(tmp_path)
    else:
        monkeypatch.setenv(way, str(tmp_path / "startup.py" if way == "PYTHONSTARTUP" else tmp_path))
    assert [batch.to_pydict() for batch in orc_stripes(data, ["a"], [0])] == [{"a": [1, 2]}]
    assert not (tmp_path / "RAN").exists()


def test_the_child_sees_no_folder_no_secret_and_no_open_file(
    program: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("TZDIR", "/zones")
    inherited = os.open(tmp_path, os.O_RDONLY)
    os.set_inheritable(inherited, True)
    try:
        with python_child(program, pa) as child:
            out, error = child.communicate(timeout=60)
    finally:
        os.close(inherited)
    assert not error
    seen = json.loads(out)
    assert seen["folder"] == "/"
    assert set(seen["env"]) <= {"TZDIR", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "LC_CTYPE"}
    assert seen["env"]["TZDIR"] == "/zones"
    assert len(seen["files"]) == 4, "standard input, output, errors, and the listed folder"
    assert "" not in seen["path"]
    assert not any(folder.startswith(str(tmp_path)) for folder in seen["path"])
    assert not {"site", "sitecustomize", "pyhudi_core"} & set(seen["modules"])


def test_a_lower_limit_of_the_machine_stays(tmp_path: Path) -> None:
    """A process that may have 3 GB cannot give its child 4, and reads ORC all the same."""
    code = (
        "import resource, sys\nimport pyarrow as pa\nfrom pyhudi_core.runtime.isolated import orc_stripes\n"
        "resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))\n"
        "print([b.to_pydict() for b in orc_stripes(pa.py_buffer(open(sys.argv[1], 'rb').read()), ['a'], [0])])\n"
    )
    _orc(tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "x.orc")], capture_output=True, text=True, check=False
    )
    assert done.stdout == "[{'a': [1, 2]}]\n", done.stderr


@pytest.mark.parametrize(("name", "value"), [("_ADDRESS_SPACE", 1 << 20), ("_SECONDS", 0)])
def test_the_decoder_ends_at_its_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: int) -> None:
    """A decoder that wants more memory or time than its limit is a damaged file."""
    data = _orc(tmp_path)
    monkeypatch.setattr(isolated, "_FOR_EACH_BYTE", 0)
    monkeypatch.setattr(isolated, name, value)
    if name == "_SECONDS":
        endless = tmp_path / "endless.py"
        endless.write_text(
            Path(orc_child.__file__)
            .read_text()
            .replace("file = orc.ORCFile", "while True: pass\n    file = orc.ORCFile")
        )
        made = ModuleType("endless")
        made.__file__ = str(endless)
        monkeypatch.setattr(isolated, "orc_child", made)
        monkeypatch.setattr(isolated, name, 1)
    with pytest.raises(ValueError, match=r"status -\d+|Error"):
        list(orc_stripes(data, ["a"], [0]))


def test_an_error_after_the_first_stripe_is_told_in_the_words_of_the_decoder(tmp_path: Path) -> None:
    path = tmp_path / "rows.orc"
    orc.write_table(pa.table({"id": [1, 2]}), path)
    rows = orc_stripes(pa.py_buffer(path.read_bytes()), ["id"], [0, 7])
    with pytest.raises(ValueError, match="stripe|[Ii]ndex"):
        list(rows)


def test_the_decoder_leaves_no_core_dump_and_ends_with_1_for_what_is_no_orc() -> None:
    asked = json.dumps({"columns": [], "stripes": [0], "bytes": 4 << 30, "seconds": 60}).encode()
    given = len(asked).to_bytes(4, "big") + asked + b"no ORC"
    ended = subprocess.run([sys.executable, orc_child.__file__], input=given, capture_output=True, check=False)
    assert (ended.returncode, ended.stdout) == (1, b"")
    assert b"Not an ORC file" in ended.stderr
    code = f"""
import contextlib, io, resource
from pyhudi_core.runtime import orc_child
with contextlib.suppress(Exception):
    orc_child.decode(io.BytesIO({given!r}), io.BytesIO())
print(resource.getrlimit(resource.RLIMIT_CORE)[0])
"""
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout == "0\n"
