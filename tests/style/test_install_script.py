"""`make install` takes the quickest Python of the machine, and stays with its own one if the others are about as quick."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts import install


@pytest.mark.parametrize(
    ("times", "found"),
    [
        ({"own": 1.0}, "own"),
        ({"own": 1.0, "built with a profile": 0.8}, "built with a profile"),
        ({"own": 1.0, "other": 0.95}, "own"),
        ({"own": 1.0, "slow": 1.2, "quick": 0.7, "quicker": 0.6}, "quicker"),
    ],
)
def test_another_python_is_taken_only_if_it_is_clearly_quicker(times: dict[str, float], found: str) -> None:
    assert install.quickest(list(times), times.__getitem__) == found


def test_of_several_measurements_the_shortest_counts() -> None:
    measured: Iterator[float] = iter([1.0, 5.0, 1.0, 0.5] + [1.0, 5.0] * (install.ROUNDS - 2))
    assert install.quickest(["own", "interrupted often"], lambda _: next(measured)) == "interrupted often"


def test_the_python_that_runs_can_be_measured() -> None:
    assert 0 < install.seconds(sys.executable) < 60


def test_a_python_that_is_broken_or_of_another_kind_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    version = "{}.{}".format(*sys.version_info[:2])
    for name, text in {
        "broken": "#!/nonexistent\n",
        "other": "#!/bin/sh\necho pypy\necho /x\n",
        "none": "#!/bin/sh\nexit 1\n",
    }.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / f"python{version}").write_text(text)
        (tmp_path / name / f"python{version}").chmod(0o755)
    (tmp_path / "folder" / f"python{version}").mkdir(parents=True)
    places = [str(tmp_path / name) for name in ("broken", "other", "none", "folder")]
    monkeypatch.setenv("PATH", os.pathsep.join(places))
    assert not [name for name in install.others(version) if name.startswith(str(tmp_path))]
    assert install.seconds(str(tmp_path / "broken" / f"python{version}")) == float("inf")


def test_an_environment_is_no_python_to_make_one_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    version = "{}.{}".format(*sys.version_info[:2])
    venv.create(tmp_path / "environment", with_pip=False, symlinks=False)
    monkeypatch.setenv("PATH", str(tmp_path / "environment" / "bin"))
    assert (tmp_path / "environment" / "bin" / f"python{version}").exists()
    assert not [name for name in install.others(version) if name.startswith(str(tmp_path))]


@pytest.mark.parametrize("has_venv", [True, False], ids=["with venv", "with pip only"])
def test_uv_is_installed_in_one_version_and_its_hash_is_checked(
    has_venv: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever takes over the name on a package index, or the connection to it, must not run code here."""
    said: list[list[str]] = []
    monkeypatch.setattr(install, "run", lambda *command: said.append([str(part) for part in command]))
    monkeypatch.setattr(install, "works", lambda command: (has_venv or "pip" in command) and "uv" not in command)
    install.find_uv()
    [pip] = [command for command in said if "pip" in command]
    assert pip[-3:] == ["--require-hashes", "--requirement", str(install.UV_LOCK)]
    first, *hashes = install.UV_LOCK.read_text().replace("\\\n", " ").split()
    assert re.fullmatch(r"uv==\d+\.\d+\.\d+", first)
    assert len(hashes) > 10
    assert all(re.fullmatch("--hash=sha256:[0-9a-f]{64}", each) for each in hashes)


@pytest.mark.parametrize(
    ("other_lock", "said"),
    [("", ""), ("kazoo==2.11\n", ".venv is a symlink, so nothing is installed; the other checkout has another ")],
    ids=["the same lock", "another lock"],
)
def test_nothing_is_installed_into_the_environment_of_another_checkout(
    other_lock: str, said: str, tmp_path: Path
) -> None:
    """A second worktree may use the environment of the first; an installation would lead the first one's imports to the second."""
    own, other = tmp_path / "own", tmp_path / "other"
    for folder in (own, other):
        folder.mkdir()
        for name in ("Makefile", "pyproject.toml"):
            shutil.copy(install.ROOT / name, folder / name)
        (folder / "scripts").mkdir()
        (folder / "scripts" / "install.py").touch()
        (folder / "requirements.lock").touch()
    assert "install.py" in wanted(own).stdout
    (other / "requirements.lock").write_text(other_lock)
    (other / ".venv").mkdir()
    (own / ".venv").symlink_to(other / ".venv")
    linked = wanted(own)
    assert linked.stdout == ".venv/bin/python scripts/check.py\n"
    assert linked.stderr == (f"{said}requirements.lock\n" if said else "")


def wanted(checkout: Path) -> subprocess.CompletedProcess[str]:
    """What `make check` would run."""
    make = ["make", "--dry-run", "--no-print-directory", "check"]
    clean = {name: text for name, text in os.environ.items() if not name.startswith("MAKE")}
    return subprocess.run(make, cwd=checkout, env=clean, capture_output=True, text=True, check=True)
