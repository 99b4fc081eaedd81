"""Make ``.venv`` from ``requirements.lock`` on a machine that has only Python.

It runs before anything is installed, so it uses only the standard library and supports old versions of Python. Steps: find or fetch uv, find a
Python that the project supports, create the environment, install the locked packages (hashes required) and the project itself. A second run
changes only what is missing or wrong.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PRIVATE_UV = ROOT / ".cache" / "uv-venv"
SUPPORTED = ("3.11", "3.12", "3.13")


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
    if works([sys.executable, "-c", "import venv, ensurepip"]):
        run(sys.executable, "-m", "venv", "--clear", PRIVATE_UV)
        run(private_python(), "-m", "pip", "install", "--quiet", "uv")
        return own
    target = ROOT / ".cache" / "uv"
    if works([sys.executable, "-m", "pip", "--version"]):
        run(sys.executable, "-m", "pip", "install", "--quiet", "--upgrade", "--target", target, "uv")
        return [str(target / "bin" / "uv")]
    stop(
        "this Python can neither make environments nor run pip. Install one of them (Debian and Ubuntu: "
        "`apt-get install python3-venv`) or uv (https://docs.astral.sh/uv), then run `make install` again"
    )
    return []


def find_python():
    """A supported Python: the one that runs this program, else the first on the PATH."""
    if "{}.{}".format(*sys.version_info[:2]) in SUPPORTED:
        return sys.executable
    for version in SUPPORTED:
        name = shutil.which("python" + version)
        if name and works(
            [name, "-c", "import sys; sys.exit(sys.version_info[1] != {})".format(version.split(".")[1])]
        ):
            return name
    return SUPPORTED[0]  # uv fetches one where it may


def main():
    uv = find_uv()
    python = VENV / ("Scripts" if os.name == "nt" else "bin") / "python"
    if not works([str(python), "-c", "import sys; sys.exit(sys.version_info < (3, 11))"]):
        run(*uv, "venv", "--quiet", "--clear", "--python", find_python(), VENV)
    install = [*uv, "pip", "install", "--quiet", "--python", python]
    run(*install, "--require-hashes", "--requirement", "requirements.lock")
    run(*install, "--no-deps", "--editable", ".")


if __name__ == "__main__":
    main()
