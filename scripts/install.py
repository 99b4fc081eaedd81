"""Make ``.venv`` from ``requirements.lock`` on a machine that has only Python.

It runs before anything is installed, so it uses only the standard library and supports old versions of Python. Steps: find or fetch uv, find a
Python that the project supports, create the environment, install the locked packages (hashes required) and the project itself. A second run
changes only what is missing or wrong.

``--lock-file`` writes ``requirements.lock`` instead: the packages of all extras with their hashes, for every supported Python and system. uv keeps
the versions that the file has, as long as ``pyproject.toml`` allows them.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PRIVATE_UV = ROOT / ".cache" / "uv-venv"
UV_LOCK = ROOT / "requirements-uv.lock"  # the version of uv, with the hash of each of its files
SUPPORTED = ("3.11", "3.12", "3.13")
CLEARLY, ROUNDS = 0.93, 5  # another Python must take less than this part of the time, in the best of so many rounds
KIND = "import sys, sysconfig; print(sys.version_info[:2], sys.implementation.cache_tag, sysconfig.get_platform())"
WHOLE = """
import bz2, ctypes, ensurepip, lzma, os, sqlite3, ssl, venv
if sys.prefix == sys.base_prefix and not os.path.exists(os.path.join(sys.prefix, "conda-meta")):
    print(os.path.realpath(sys.executable))
"""
WORK = """
import time
class Thing:
    def __init__(self, value): self.value = value
    def more(self, by): return self.value + by
began = time.process_time()
found = {str(number): Thing(number).more(1) for number in range(200000)}
sum(value for key, value in sorted(found.items()) if key.startswith("1"))
print(time.process_time() - began)
"""


def stop(message):
    sys.exit("make install: " + message)


def works(command):
    """Whether the command can be run (a shim may exist without its program)."""
    try:
        return (
            subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False).returncode == 0
        )
    except OSError:
        return False


def run(*command):
    print("+ " + " ".join(str(part) for part in command), flush=True)
    if subprocess.run([str(part) for part in command], cwd=str(ROOT), check=False).returncode != 0:
        stop("the command above failed; correct the problem that it reports and run `make install` again")


def private_python():
    return PRIVATE_UV / ("Scripts" if os.name == "nt" else "bin") / "python"


def find_uv():
    """The machine's uv; if there is none, install one below ``.cache``."""
    if works(["uv", "--version"]):
        return ["uv"]
    own = [str(private_python()), "-m", "uv"]
    if works([*own, "--version"]):
        return own
    print("uv is not installed; putting one into " + str(PRIVATE_UV.relative_to(ROOT)), flush=True)
    if works([sys.executable, "-I", "-c", "import venv, ensurepip"]):
        run(sys.executable, "-m", "venv", "--clear", PRIVATE_UV)
        run(private_python(), "-m", "pip", "install", "--quiet", "--require-hashes", "--requirement", UV_LOCK)
        return own
    target = ROOT / ".cache" / "uv"
    if works([sys.executable, "-m", "pip", "--version"]):
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--upgrade", "--target", target]
        run(*pip, "--require-hashes", "--requirement", UV_LOCK)
        return [str(target / "bin" / "uv")]
    stop(
        "this Python can neither make environments nor run pip. Install one of them (Debian and Ubuntu: "
        "`apt-get install python3-venv`) or uv (https://docs.astral.sh/uv), then run `make install` again"
    )
    return []


def asked(python, code):
    """What a Python prints; nothing if it is broken, or does not answer in time."""
    try:
        said = subprocess.run(
            [python, "-I", "-c", code],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=20,
            check=True,
        )
        return said.stdout.decode().strip()
    except (OSError, ValueError, subprocess.SubprocessError):
        return ""


def others(version):
    """Further Pythons of the machine of this version and kind, with all of the standard library that is needed; no environments."""
    found, kind = {}, asked(sys.executable, KIND)
    for place in [*os.environ.get("PATH", "").split(os.pathsep), "/usr/local/bin", "/usr/bin"]:
        name = os.path.join(os.path.abspath(place), "python" + version)
        if place and os.access(name, os.X_OK):
            its_kind, _, python = asked(name, KIND + WHOLE).partition("\n")
            if its_kind == kind and python:
                found.setdefault(python, name)
    found.pop(os.path.realpath(sys.executable), None)
    return list(found.values())


def seconds(python):
    """The processor time that this Python takes for a small piece of work; infinite if it does not work."""
    try:
        return float(asked(python, WORK))
    except ValueError:
        return float("inf")


def quickest(pythons, measure):
    """The first, unless another takes clearly less time. A Python compiled without optimization by profile takes a fifth more for all tests."""
    first = pythons[0]
    if len(pythons) == 1:
        return first
    best = {}
    for python in pythons * ROUNDS:  # one after the other, so that a busy moment does not hit one alone
        best[python] = min(measure(python), best.get(python, float("inf")))
    found = min(best, key=best.get)
    return found if best[first] < float("inf") and best[found] < CLEARLY * best[first] else first


def find_python():
    """A supported Python: the quickest that has the version of the one that runs this program, else the first on the PATH.

    With --this-python, which make passes if the user chose PYTHON3: the one that runs, if it is supported.
    """
    version = "{}.{}".format(*sys.version_info[:2])
    if version in SUPPORTED:
        return quickest([sys.executable, *([] if "--this-python" in sys.argv else others(version))], seconds)
    for version in SUPPORTED:
        name = shutil.which("python" + version)
        if name and works(
            [name, "-I", "-c", "import sys; sys.exit(sys.version_info[1] != {})".format(version.split(".")[1])]
        ):
            return name
    return SUPPORTED[0]  # uv fetches one where it may


def write_lock(uv):
    run(
        *(*uv, "pip", "compile", "--quiet", "--universal", "--python-version", SUPPORTED[0], "--extra", "dev"),
        *("--generate-hashes", "--no-header", "--no-annotate", "--output-file", "requirements.lock", "pyproject.toml"),
    )


def main():
    uv = find_uv()
    if "--lock-file" in sys.argv:
        write_lock(uv)
        return
    python = VENV / ("Scripts" if os.name == "nt" else "bin") / "python"
    if not works([str(python), "-I", "-c", "import sys; sys.exit(sys.version_info < (3, 11))"]):
        run(*uv, "venv", "--quiet", "--clear", "--python", find_python(), VENV)
    install = [*uv, "pip", "install", "--quiet", "--python", python]
    run(*install, "--require-hashes", "--requirement", "requirements.lock")
    run(*install, "--no-deps", "--editable", ".")


if __name__ == "__main__":
    main()
