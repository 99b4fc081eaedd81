"""Hudi's side of the lock tests: one JVM without Spark's session, driven by JSON lines.

Started as `hudi_locks.py RELEASE TABLE` by the Python of `.interop/venv`. Imports nothing of this project. Commands:
    take      tries Hudi's FileSystemBasedLockProvider once: was it got?
    give      its unlock
    count     rounds of taking the lock, raising the number in a file by one, and giving it back
    parse     reads bytes as the lock file of Hudi's StorageBasedLockProvider (1.1 and newer)
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
JARS = ROOT / ".interop" / "jars"


class HudiLocks:
    """The classes of one release, and one lock provider of a table."""

    def __init__(self, release: str, table: Path) -> None:
        from pyspark import SparkConf
        from pyspark.java_gateway import launch_gateway

        jar = JARS / f"hudi-spark3.5-bundle_2.12-{release}.jar"
        conf = SparkConf().set("spark.driver.extraClassPath", str(jar)).set("spark.driver.memory", "512m")
        conf = conf.set("spark.driver.extraJavaOptions", "-XX:+UseSerialGC -XX:TieredStopAtLevel=1")
        self._gateway = launch_gateway(conf)
        self._table = table
        jvm = self._gateway.jvm
        self._lock_package = jvm.org.apache.hudi.client.transaction.lock
        self._millis = jvm.java.util.concurrent.TimeUnit.MILLISECONDS
        properties = jvm.java.util.Properties()
        for key, value in {
            "hoodie.base.path": str(table),
            "hoodie.write.lock.filesystem.expire": "0",
            "hoodie.write.lock.filesystem.path": str(table / ".hoodie"),
        }.items():
            properties.setProperty(key, value)
        settings = jvm.org.apache.hudi.common.config.LockConfiguration(properties)
        storage = jvm.org.apache.hudi.storage.hadoop.HadoopStorageConfiguration(
            jvm.org.apache.hadoop.conf.Configuration()
        )
        self._provider = self._lock_package.FileSystemBasedLockProvider(settings, storage)

    def answer(self, command: dict[str, Any]) -> dict[str, Any]:
        """Carry out one command."""
        verb = command["do"]
        if verb == "take":
            return {"got": self._take()}
        if verb == "give":
            self._provider.unlock()
            return {}
        if verb == "count":
            return self._count(command["rounds"])
        return self._parse(command["text"])

    def close(self) -> None:
        self._gateway.shutdown()

    def _take(self) -> bool:
        return bool(self._provider.tryLock(1, self._millis))

    def _count(self, rounds: int) -> dict[str, Any]:
        overlaps = 0
        for _ in range(rounds):
            while not self._take():
                time.sleep(0.002)
            overlaps += raise_by_one(self._table, "java")
            self._provider.unlock()
        return {"overlaps": overlaps}

    def _parse(self, text: str) -> dict[str, Any]:
        stream = self._gateway.jvm.java.io.ByteArrayInputStream(text.encode())
        models = self._lock_package.models
        found = models.StorageLockFile.createFromStream(stream, "tag")
        fields = (found.isExpired(), found.getValidUntilMs(), found.getOwner())
        written = models.StorageLockFile.toByteArray(models.StorageLockData(*fields))
        return {"fields": list(fields), "written": bytes(written).decode()}


def raise_by_one(table: Path, who: str) -> int:
    """What is done under the lock: 1 if somebody else was doing it at that moment, else 0."""
    inside, counter = table / "inside", table / "counter"
    try:
        os.close(os.open(inside, os.O_CREAT | os.O_EXCL))
        alone = True
    except FileExistsError:
        alone = False
    before = int(counter.read_text() or "0")
    fresh = table / f"counter.{who}"
    fresh.write_text(str(before + 1))
    fresh.replace(counter)
    if alone:
        inside.unlink()
    return 0 if alone else 1


def main() -> None:
    """Answer until stdin ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    locks = HudiLocks(sys.argv[1], Path(sys.argv[2]))
    print(json.dumps({"ok": True}), file=answers, flush=True)
    for line in sys.stdin:
        try:
            reply = {"ok": True, **locks.answer(json.loads(line))}
        except Exception as error:
            reply = {"ok": False, "error": f"{type(error).__name__}: {error}"[:2_000]}
        print(json.dumps(reply), file=answers, flush=True)
    locks.close()


if __name__ == "__main__":
    main()
