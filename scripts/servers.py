"""Install the servers that `make locks` tests locks and storages with, below `.cache/servers/`.

ZooKeeper, DynamoDB Local, two releases of the Hive Metastore and the REST catalog of Iceberg's tests come from Maven Central:
`requirements-servers-jars.lock` lists every file with its SHA-256, and the Ivy in PySpark fetches them by coordinate. PostgreSQL is Debian's
package. versitygw, a gateway with Amazon's S3 protocol before a local folder, and fake-gcs-server, which speaks Google's, are built by Go.
Azurite, an emulator of Azure, comes from npm. A second run keeps what is there.

    python scripts/servers.py              everything
    python scripts/servers.py zookeeper    one of them
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import java as java_setup

ROOT = Path(__file__).resolve().parent.parent
HOME = ROOT / ".cache" / "servers"
JAR_LOCK = ROOT / "requirements-servers-jars.lock"
VERSITYGW = "github.com/versity/versitygw@v1.8.0"
GATEWAY = HOME / "bin" / "versitygw"
FAKE_GCS = "github.com/fsouza/fake-gcs-server@v1.56.1"
AZURITE = "azurite@3.37.0"
AZURITE_MAIN = HOME / "azurite" / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js"
ATTEMPTS = 3


@dataclass(frozen=True, slots=True)
class Jar:
    """One line of the lock: `server group:artifact:version[:extension[:classifier]] sha256=...`."""

    server: str
    group: str
    artifact: str
    version: str
    extension: str
    classifier: str
    sha256: str

    @property
    def name(self) -> str:
        """The file's name without its extension."""
        return f"{self.artifact}-{self.version}" + (f"-{self.classifier}" if self.classifier else "")

    @property
    def path(self) -> Path:
        """The path of the installed file."""
        return HOME / self.server / f"{self.name}.{self.extension}"

    def installed(self) -> bool:
        """Whether the file is there, and has the locked digest."""
        return self.path.exists() and hashlib.sha256(self.path.read_bytes()).hexdigest() == self.sha256


def main() -> int:
    """Install the named servers; returns the exit code."""
    jars = locked_jars()
    known = [*dict.fromkeys(jar.server for jar in jars), "postgresql", "versitygw", "fake-gcs-server", "azurite"]
    wanted = sys.argv[1:] or known
    unknown = set(wanted) - set(known)
    if unknown:
        print(f"unknown: {', '.join(sorted(unknown))}; known are {', '.join(known)}", file=sys.stderr)
        return 2
    for server in wanted:
        if server == "postgresql":
            _postgresql()
        elif server == "versitygw":
            _go(VERSITYGW, "/cmd/versitygw")
        elif server == "fake-gcs-server":
            _go(FAKE_GCS)
        elif server == "azurite":
            _azurite()
        else:
            _jars([jar for jar in jars if jar.server == server])
        print(f"{server}: installed", flush=True)
    return 0


def locked_jars() -> list[Jar]:
    """The lines of the lock."""
    found = []
    for line in JAR_LOCK.read_text(encoding="utf-8").splitlines():
        text = line.partition("#")[0].split()
        if text:
            server, coordinate, digest = text
            parts = coordinate.split(":")
            given = [*parts, *("jar", "")[len(parts) - 3 :]]
            found.append(Jar(server, *given, sha256=digest.removeprefix("sha256=")))
    return found


def _jars(jars: list[Jar]) -> None:
    """Fetch the jars that are missing or damaged, all of them by one start of Ivy."""
    for _ in range(ATTEMPTS):
        missing = [jar for jar in jars if not jar.installed()]
        if not missing:
            break
        print(f"{jars[0].server}: fetching {len(missing)} files", flush=True)
        _fetch(missing)
    for jar in jars:
        if not jar.installed():
            raise SystemExit(
                f"{jar.path.name} could not be fetched, or does not have the locked digest; see {HOME / 'ivy.log'}"
            )
    _unpack(jars)


def _unpack(jars: list[Jar]) -> None:
    """Unpack the archives beside themselves, once; the folder has the archive's digest in its name."""
    for jar in jars:
        folder = jar.path.parent / f"{jar.artifact}-{jar.sha256[:8]}"
        if jar.extension == "tar.gz" and not folder.exists():
            fresh = folder.with_suffix(".part")
            shutil.rmtree(fresh, ignore_errors=True)
            with tarfile.open(jar.path) as archive:
                archive.extraction_filter = getattr(tarfile, "data_filter", None)  # Python 3.11.3 and older have none
                archive.extractall(fresh)
            fresh.rename(folder)


def _fetch(jars: list[Jar]) -> None:
    cache = HOME / "ivy"
    description = HOME / "ivy.xml"
    HOME.mkdir(parents=True, exist_ok=True)
    lines = []
    for jar in jars:
        classifier = f' m:classifier="{jar.classifier}"' if jar.classifier else ""
        artifact = f'<artifact name="{jar.artifact}" type="{jar.extension}" ext="{jar.extension}"{classifier}/>'
        lines.append(
            f'<dependency org="{jar.group}" name="{jar.artifact}" rev="{jar.version}" transitive="false" conf="default->*">'
            f"{artifact}</dependency>"
        )
    description.write_text(
        '<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">'
        '<info organisation="pyhudi" module="servers"/><configurations><conf name="default"/>'
        f"</configurations><dependencies>{''.join(lines)}</dependencies></ivy-module>",
        encoding="utf-8",
    )
    command = [java_setup.java(), "-Xmx256m", "-cp", str(_spark_jars() / "*"), "org.apache.ivy.Main"]
    command += ["-ivy", str(description), "-cache", str(cache)]
    command += ["-retrieve", str(HOME / jars[0].server / "[artifact]-[revision](-[classifier]).[ext]")]
    with (HOME / "ivy.log").open("ab") as log:
        subprocess.run(command, stdout=log, stderr=subprocess.STDOUT, check=False)
    shutil.rmtree(cache, ignore_errors=True)


def _spark_jars() -> Path:
    import pyspark

    return Path(pyspark.__file__).parent / "jars"


def _postgresql() -> None:
    if not list(Path("/usr/lib/postgresql").glob("*/bin/postgres")):
        as_root = [] if os.geteuid() == 0 else ["sudo"]
        _run([*as_root, "apt-get", "update", "-q"])
        _run([*as_root, "apt-get", "install", "-q", "-y", "postgresql"])


def _go(program: str, command: str = "") -> None:
    """Build a program; Debian's Go fetches a newer one if the program needs it."""
    module, _, version = program.partition("@")
    if (GATEWAY.parent / f"{module}{command}".rpartition("/")[2]).exists():
        return
    _debian("go", "golang-go")
    environment = {**os.environ, "GOBIN": str(GATEWAY.parent), "GOFLAGS": "-modcacherw"}
    _run(["go", "install", f"{module}{command}@{version}"], environment)


def _azurite() -> None:
    """Its releases ask for Node 22, and the blob service runs on Node 20, too."""
    if not AZURITE_MAIN.exists():
        _debian("npm", "npm")
        _run(["npm", "install", "--silent", "--no-fund", "--no-audit", "--prefix", str(HOME / "azurite"), AZURITE])


def _debian(program: str, package: str) -> None:
    if not shutil.which(program):
        as_root = [] if os.geteuid() == 0 else ["sudo"]
        _run([*as_root, "apt-get", "update", "-q"])
        _run([*as_root, "apt-get", "install", "-q", "-y", package])


def _run(command: list[str], environment: dict[str, str] | None = None) -> None:
    if subprocess.run(command, env=environment, check=False).returncode:
        raise SystemExit(f"failed: {' '.join(command)}")


if __name__ == "__main__":
    sys.exit(main())
