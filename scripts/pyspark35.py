"""Make an environment like ``.venv`` with PySpark 3.5 in place of 4.x: ``python scripts/pyspark35.py FOLDER``.

Standard library only. Every other package has the version of ``requirements.lock``. Running it again does nothing until the lock
changes.
"""

import hashlib
import re
import sys

from install import ROOT, find_python, find_uv, run

PACKAGES = (
    "pyspark>=3.5,<3.6",
    "boto3",
    "click",
    "fastavro",
    "hypothesis",
    "pandas",
    "psutil",
    "pyarrow",
    "pyroaring",
    "pytest",
    "pytest-timeout",
    "rich",
    "sqlglot",
    "xxhash",
)


def constraints():
    """The lock's versions, as lines of a constraints file."""
    lines = (ROOT / "requirements.lock").read_text().splitlines()
    pins = [line.rstrip(" \\") for line in lines if re.match(r"[a-z0-9][a-z0-9._-]*==", line)]
    return [pin for pin in pins if not pin.startswith(("pyspark==", "py4j=="))]


def main():
    folder = ROOT / sys.argv[1]
    text = "\n".join(constraints()) + "\n"
    stamp = folder / ".constraints-digest"
    digest = hashlib.sha256((text + " ".join(PACKAGES)).encode()).hexdigest()
    if stamp.exists() and stamp.read_text() == digest:
        return
    uv = find_uv()
    python = find_python()
    if sys.version_info[:2] != (3, 11):
        python = "3.11"  # the last version that PySpark 3.5 supports
    run(*uv, "venv", "--quiet", "--clear", "--python", python, folder)
    pins = folder / "constraints.txt"
    pins.write_text(text)
    install = [*uv, "pip", "install", "--quiet", "--python", folder / "bin" / "python"]
    run(*install, "--constraints", pins, *PACKAGES)
    run(*install, "--no-deps", "--editable", ".")
    stamp.write_text(digest)


if __name__ == "__main__":
    main()
