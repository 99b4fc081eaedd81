"""Build `.interop/`: a second environment with the real Apache Hudi, hudi-rs, Delta and Iceberg.

It needs only Python and Java. The Python packages come from `requirements-interop.lock` (the installer checks their hashes). The jars of
`requirements-interop-jars.lock` come from Maven Central by coordinate, through the Ivy in PySpark and its default resolver; each jar must have the
SHA-256 of the lock file.

A second run keeps correct files, and fetches missing or damaged files again.

    python scripts/interop_env.py                     the environment and all jars
    python scripts/interop_env.py --local-peers       and the peers of the local engine, in `.peers/`
    python scripts/interop_env.py --only hudi-spark3.5-bundle_2.12:1.0.2
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HOME = ROOT / ".interop"
VENV = HOME / "venv"
JARS = HOME / "jars"
REQUIREMENTS = ROOT / "requirements-interop.lock"
PEERS = ROOT / ".peers"
PEERS_REQUIREMENTS = ROOT / "requirements-peers.lock"
JAR_LOCK = ROOT / "requirements-interop-jars.lock"
PYTHON = VENV / "bin" / "python"
ATTEMPTS = 3


@dataclass(frozen=True, slots=True)
class Jar:
    """One line of the jar lock: a Maven coordinate and the SHA-256 of its jar."""

    group: str
    artifact: str
    version: str
    sha256: str

    @property
    def path(self) -> Path:
        """The path of the installed jar."""
        return JARS / f"{self.artifact}-{self.version}.jar"

    @property
    def short(self) -> str:
        """The name that `--only` takes: artifact and version."""
        return f"{self.artifact}:{self.version}"


def main() -> int:
    """Build the requested parts; returns the exit code."""
    options = _arguments()
    started = time.monotonic()
    HOME.mkdir(exist_ok=True)
    _environment(VENV, REQUIREMENTS)
    if options.local_peers:
        _environment(PEERS, PEERS_REQUIREMENTS)
    wanted = [jar for jar in locked_jars() if not options.only or jar.short in options.only]
    unknown = set(options.only) - {jar.short for jar in wanted}
    if unknown:
        print(f"not in {JAR_LOCK.name}: {', '.join(sorted(unknown))}", file=sys.stderr)
        return 2
    for jar in wanted:
        _jar(jar)
    print(f"interop environment ready in {time.monotonic() - started:.0f} s: {HOME.relative_to(ROOT)}/")
    return 0


def locked_jars() -> list[Jar]:
    """The jars of the lock file: lines `group:artifact:version sha256=...`."""
    found = []
    for line in JAR_LOCK.read_text().splitlines():
        text = line.partition("#")[0].strip()
        if text:
            coordinate, _, digest = text.partition(" sha256=")
            group, artifact, version = coordinate.split(":")
            found.append(Jar(group, artifact, version, digest.strip()))
    return found


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Builds .interop/ (idempotent).")
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="ARTIFACT:VERSION",
        help="fetch this jar only",
    )
    parser.add_argument(
        "--local-peers", action="store_true", help="also build .peers/: deltalake and PyIceberg, for `make bench`"
    )
    return parser.parse_args()


def _environment(home: Path, requirements: Path) -> None:
    """Create the virtual environment, or rebuild it if the lock file has changed since."""
    python, stamp = home / "bin" / "python", home / ".lock-digest"
    digest = hashlib.sha256(requirements.read_bytes()).hexdigest()
    if stamp.exists() and stamp.read_text() == digest and python.exists():
        print("python packages: up to date")
        return
    print("python packages: installing from", requirements.name, flush=True)
    uv = os.environ.get("UV") or shutil.which("uv") or shutil.which("uv", path=str(Path(sys.executable).parent))
    if uv:
        if not python.exists():
            _run([uv, "venv", "--quiet", "--python", "3.11", str(home)])
        install = [uv, "pip", "install", "--quiet", "--python", str(python)]
    else:
        if not python.exists():
            _run([sys.executable, "-m", "venv", str(home)])
        install = [str(python), "-m", "pip", "install", "--quiet"]
    _run([*install, "--require-hashes", "-r", str(requirements)])
    stamp.write_text(digest)


def _jar(jar: Jar) -> None:
    """Fetch a jar if it is missing or does not have the locked digest."""
    if jar.path.exists() and _sha256(jar.path) == jar.sha256:
        print(f"{jar.path.name}: up to date")
        return
    JARS.mkdir(exist_ok=True)
    for attempt in range(1, ATTEMPTS + 1):
        print(f"{jar.path.name}: fetching (attempt {attempt} of {ATTEMPTS})", flush=True)
        fetched = _fetch(jar)
        if fetched is not None:
            break
    else:
        raise SystemExit(
            f"{jar.path.name} could not be fetched; see {HOME / 'ivy.log'}, then run the same command again"
        )
    actual = _sha256(fetched)
    if actual != jar.sha256:
        raise SystemExit(f"{jar.path.name} has SHA-256 {actual}, the lock says {jar.sha256}; it was not installed")
    fetched.replace(jar.path)
    shutil.rmtree(HOME / "ivy", ignore_errors=True)
    print(f"{jar.path.name}: {jar.path.stat().st_size / 1e6:.0f} MB", flush=True)


def _fetch(jar: Jar) -> Path | None:
    """Run PySpark's Ivy for one coordinate; returns the fetched file, or None if Ivy failed."""
    staging = HOME / "ivy" / "retrieved"
    classpath = PYTHON.parent.parent / "lib" / _python_folder() / "site-packages" / "pyspark" / "jars" / "*"
    command = [
        _java(),
        "-cp",
        str(classpath),
        "org.apache.ivy.Main",
        "-cache",
        str(HOME / "ivy" / "cache"),
    ]
    command += [
        "-dependency",
        jar.group,
        jar.artifact,
        jar.version,
        "-confs",
        "default",
        "-notransitive",
    ]
    command += ["-retrieve", str(staging / "[artifact]-[revision].[ext]")]
    with (HOME / "ivy.log").open("ab") as log:
        done = subprocess.run(command, stdout=log, stderr=subprocess.STDOUT, check=False)
    target = staging / jar.path.name
    return target if done.returncode == 0 and target.exists() else None


def _python_folder() -> str:
    return next(folder.name for folder in (VENV / "lib").iterdir() if folder.name.startswith("python3"))


def _java() -> str:
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if not java:
        raise SystemExit("no Java found: install Java 17, or set JAVA_HOME to one, then run the same command again")
    return java


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _run(command: list[str]) -> None:
    done = subprocess.run(command, check=False)
    if done.returncode:
        raise SystemExit(f"failed ({done.returncode}): {' '.join(command)}")


if __name__ == "__main__":
    sys.exit(main())
