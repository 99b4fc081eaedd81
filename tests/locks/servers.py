"""Real servers for the tests of locks, started on free ports of this machine, with their files in a temporary folder."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from support.certificates import certificate
from support.ports import free_port
from support.waiting import until

ROOT = Path(__file__).resolve().parents[2]
INSTALLED = ROOT / ".cache" / "servers"
"""Where `scripts/servers.py` puts what it installs."""


@dataclass
class Server:
    """A process that listens on a port, and its folder."""

    command: Sequence[str]
    port: int
    folder: Path
    environment: dict[str, str] = field(default_factory=dict)
    _process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the process, and wait until it listens."""
        with (self.folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                list(self.command), stdout=log, stderr=log, cwd=self.folder, start_new_session=True,
                env={**os.environ, **self.environment},
            )  # fmt: skip
        until(self._listens)

    def stop(self) -> None:
        """End the process, by force if it does not end by itself in a minute; its files stay."""
        process = self._process
        if process is None:
            return
        for number, patience in ((signal.SIGTERM, 60), (signal.SIGKILL, 15)):
            if process.poll() is None:
                os.killpg(process.pid, number)
                try:
                    process.wait(patience)
                except subprocess.TimeoutExpired:
                    continue
        self._process = None

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Without the server, for the duration of the block."""
        self.stop()
        try:
            yield
        finally:
            self.start()

    @contextmanager
    def running(self) -> Iterator[Server]:
        self.start()
        try:
            yield self
        finally:
            self.stop()

    def _listens(self) -> bool:
        process = self._process
        if process is None or process.poll() is not None:
            raise AssertionError((self.folder / "server.log").read_text(errors="replace")[-4_000:])
        with socket.socket() as probe:
            probe.settimeout(1)
            return probe.connect_ex(("127.0.0.1", self.port)) == 0


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder that other users of this machine can reach, for servers that refuse to run as root."""
    folder = Path(tempfile.mkdtemp(prefix="pyhudi-server-", dir="/tmp"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def postgresql(folder: Path, password: str) -> Server:
    """A new cluster of Debian's PostgreSQL with the user ``hudi`` and the database ``locks``."""
    programs = max(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name), default=None)
    assert programs is not None, "PostgreSQL is not installed: run `make locks`, which installs it"
    as_user = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
    (folder / "password").write_text(password)
    for path in (folder, folder / "password"):
        path.chmod(0o777)
    data = folder / "data"
    initdb = ["initdb", "-D", str(data), "-U", "hudi", "--auth=scram-sha-256", f"--pwfile={folder / 'password'}"]
    _run([*as_user, str(programs / initdb[0]), *initdb[1:]])
    port = free_port()
    command = [*as_user, str(programs / "postgres"), "-D", str(data), "-p", str(port), "-k", str(folder)]
    server = Server([*command, "-c", "listen_addresses=127.0.0.1", "-c", "shared_buffers=16MB"], port, folder)
    server.start()
    environment = {**os.environ, "PGPASSWORD": password}
    create = [str(programs / "createdb"), "-h", "127.0.0.1", "-p", str(port), "-U", "hudi", "locks"]

    def created() -> bool:
        return subprocess.run(create, env=environment, capture_output=True, check=False).returncode == 0

    until(created)
    server.stop()
    until(lambda: not _runs(data / "postmaster.pid"))  # `runuser` ends before its server does
    return server


def _runs(pid_file: Path) -> bool:
    """Whether the process that wrote this file runs. A server that was ended by force leaves its file."""
    try:
        return psutil.pid_exists(int(pid_file.read_text().split("\n", 1)[0]))
    except FileNotFoundError:
        return False


def secure_postgresql(folder: Path, password: str) -> Server:
    """The same with a certificate for ``localhost`` (``server.pem`` of the folder)."""
    server = postgresql(folder, password)
    certificate(folder, "localhost")
    key = folder / "data" / "server.pem"
    shutil.copy(folder / "server.pem", key)
    if os.geteuid() == 0:
        shutil.chown(key, "postgres")
    key.chmod(0o600)
    tls = [part for name in ("cert", "key") for part in ("-c", f"ssl_{name}_file={key}")]
    return Server([*server.command, "-c", "ssl=on", *tls], server.port, folder)


def zookeeper(folder: Path) -> Server:
    """ZooKeeper with sessions of 2 s."""
    port = free_port()
    (folder / "zoo.cfg").write_text(
        f"tickTime=200\ndataDir={folder}/data\nclientPort={port}\nclientPortAddress=127.0.0.1\nadmin.enableServer=false\n"
        "minSessionTimeout=400\nmaxSessionTimeout=60000\nmaxClientCnxns=0\n"
    )
    main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
    quiet = folder / "logback.xml"
    quiet.write_text('<configuration><root level="WARN"/></configuration>')
    return Server(
        [*_java("zookeeper", f"-Dlogback.configurationFile={quiet}"), main, str(folder / "zoo.cfg")], port, folder
    )


def secure_zookeeper(folder: Path, user: str, password: str) -> Server:
    """ZooKeeper that speaks TLS only, with a certificate for ``localhost`` (``server.pem`` of the folder), and only with a user of SASL."""
    certificate(folder, "localhost")
    plain = zookeeper(folder)
    lines = (
        (folder / "zoo.cfg")
        .read_text()
        .replace("clientPort=", "secureClientPort=")
        .replace("clientPortAddress", "secureClientPortAddress")
    )
    (folder / "zoo.cfg").write_text(
        f"{lines}serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory\nssl.clientAuth=none\n"
        f"ssl.keyStore.location={folder}/server.pem\nssl.keyStore.type=PEM\nssl.trustStore.location={folder}/server.pem\nssl.trustStore.type=PEM\n"
        "authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider\nsessionRequireClientSASLAuth=true\n"
    )
    login = "org.apache.zookeeper.server.auth.DigestLoginModule"
    (folder / "jaas.conf").write_text(f'Server {{ {login} required user_{user}="{password}"; }};\n')
    java, *rest = plain.command
    return Server([java, f"-Djava.security.auth.login.config={folder}/jaas.conf", *rest], plain.port, folder)


def dynamodb(folder: Path) -> Server:
    """DynamoDB Local, with its data on disk, so that a restart finds it."""
    port = free_port()
    native = f"-Djava.library.path={INSTALLED / 'dynamodb'}"
    main = "com.amazonaws.services.dynamodbv2.local.main.ServerRunner"
    words = [main, "-port", str(port), "-dbPath", str(folder), "-sharedDb", "-disableTelemetry"]
    return Server([*_java("dynamodb", native), *words], port, folder)


def hive_metastore(folder: Path, timeout_s: int, *, housekeeping: bool = True, release: str = "hive") -> Server:
    """A Hive Metastore on Derby, whose locks end ``timeout_s`` seconds after their last heartbeat; its housekeeping looks each second.

    ``release``: ``hive``, 4.0, or ``hive3``, 3.1, which the clients of Spark and Hudi speak to.
    """
    home = next((INSTALLED / release).glob("*/apache-hive-metastore-*"), None)
    assert home is not None, "the Hive Metastore is not installed: run `make locks`, which installs it"
    port = free_port()
    given = {
        "javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={folder}/metastore;create=true",
        "javax.jdo.option.ConnectionDriverName": "org.apache.derby.jdbc.EmbeddedDriver",
        "metastore.thrift.port": port,
        "metastore.thrift.bind.host": "127.0.0.1",
        "metastore.warehouse.dir": folder / "warehouse",
        "metastore.txn.timeout": f"{timeout_s}s",
        "metastore.housekeeping.threads.on": str(housekeeping).lower(),
        "metastore.acid.housekeeper.interval": "1s",
        "datanucleus.connectionPool.maxPoolSize": 40,
    }
    if release == "hive3":  # other tasks need classes that this archive does not have
        package = "org.apache.hadoop.hive.metastore."
        given["metastore.task.threads.always"] = f"{package}events.EventCleanerTask"
        given["metastore.expression.proxy"] = f"{package}DefaultPartitionExpressionProxy"
    lines = [f"<property><name>{name}</name><value>{value}</value></property>" for name, value in given.items()]
    (folder / "metastore-site.xml").write_text(f"<configuration>{''.join(lines)}</configuration>")
    opened = [f"--add-opens=java.base/java.{package}=ALL-UNNAMED" for package in ("lang", "net", "util")]
    java = [*_java("hive", *opened, classes=f"{folder}:{home}/lib/*:{INSTALLED / release}/*:{INSTALLED / 'hive'}/*")]
    main = "org.apache.hadoop.hive.metastore."
    environment = {"METASTORE_HOME": str(home)}
    tool = "tools.MetastoreSchemaTool" if release == "hive3" else "tools.schematool.MetastoreSchemaTool"
    schema = [*java, f"{main}{tool}", "-dbType", "derby", "-initSchema"]
    _run(schema, folder, environment)
    return Server([*java, f"{main}HiveMetaStore"], port, folder, environment)


def iceberg_rest(folder: Path) -> Server:
    """Iceberg's own server of its REST catalog, as its tests use it; warehouse and tables are in this folder."""
    port = free_port()
    environment = {"CATALOG_REST_PORT": str(port), "CATALOG_WAREHOUSE": str(folder)}
    return Server([*_java("iceberg-rest"), "org.apache.iceberg.rest.RESTCatalogServer"], port, folder, environment)


def gateway(folder: Path, access_key: str, secret_key: str) -> Server:
    """versitygw, a gateway with Amazon's S3 protocol before a local folder.

    It keeps connections open, as Amazon's servers do. Without this option it closes each connection after one answer.
    """
    program = INSTALLED / "bin" / "versitygw"
    assert program.exists(), "versitygw is not installed: run `make locks`, which installs it"
    for name in ("objects", "attributes"):
        (folder / name).mkdir()
    port = free_port()
    command = [str(program), "--port", f"127.0.0.1:{port}", "--quiet", "--keep-alive", "posix"]
    command += ["--sidecar", str(folder / "attributes"), str(folder / "objects")]
    return Server(command, port, folder, {"ROOT_ACCESS_KEY": access_key, "ROOT_SECRET_KEY": secret_key})


def azurite(folder: Path) -> Server:
    """Azurite, Microsoft's emulator of Azure's blobs."""
    program = INSTALLED / "azurite" / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js"
    assert program.exists(), "Azurite is not installed: run `make locks`, which installs it"
    port = free_port()
    command = ["node", str(program), "--blobHost", "127.0.0.1", "--blobPort", str(port), "--location", str(folder)]
    return Server([*command, "--silent", "--skipApiVersionCheck", "--disableTelemetry"], port, folder)


def fake_gcs(folder: Path) -> Server:
    """fake-gcs-server, with Google's JSON interface."""
    program = INSTALLED / "bin" / "fake-gcs-server"
    assert program.exists(), "fake-gcs-server is not installed: run `make locks`, which installs it"
    port = free_port()
    command = [str(program), "-scheme", "http", "-host", "127.0.0.1", "-port", str(port), "-backend", "memory"]
    return Server([*command, "-log-level", "error"], port, folder)


def _java(server: str, *options: str, classes: str = "") -> list[str]:
    """The start of a command with a server's jars and a small heap."""
    jars = INSTALLED / server
    assert jars.is_dir(), f"{server} is not installed: run `make locks`, which installs it"
    return ["java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", *options, "-cp", classes or f"{jars}/*"]


def _run(command: Sequence[str], folder: Path | None = None, environment: Mapping[str, str] | None = None) -> None:
    surroundings = {**os.environ, **(environment or {})}
    done = subprocess.run(list(command), capture_output=True, text=True, check=False, cwd=folder, env=surroundings)
    assert done.returncode == 0, f"{command[0]}: {done.stdout}{done.stderr}"
