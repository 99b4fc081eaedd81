"""Hudi's side of the tests of lock servers: one of its lock providers in a JVM without Spark's session, driven by JSON lines.

Started as `hudi_locking.py CLASS PROPERTIES FOLDER BUNDLE` by the Python of `.interop/venv`. Imports nothing of this project. Commands:
    take      tries the lock for a time in milliseconds: was it got?
    give      its unlock
    count     rounds of taking the lock, raising the number in a file of the folder by one, and giving it back
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any


class HudiLock:
    """One lock provider of Hudi."""

    def __init__(self, name: str, properties: dict[str, str], folder: Path, bundle: str) -> None:
        from pyspark import SparkConf
        from pyspark.java_gateway import launch_gateway

        conf = SparkConf().set("spark.driver.extraClassPath", bundle).set("spark.driver.memory", "512m")
        conf = conf.set("spark.driver.extraJavaOptions", "-XX:+UseSerialGC -XX:TieredStopAtLevel=1")
        self._gateway = launch_gateway(conf)
        self._folder = folder
        jvm = self._gateway.jvm
        self._millis = jvm.java.util.concurrent.TimeUnit.MILLISECONDS
        given = jvm.java.util.Properties()
        for key, value in properties.items():
            given.setProperty(key, value)
        settings = jvm.org.apache.hudi.common.config.LockConfiguration(given)
        storage = jvm.org.apache.hudi.storage.hadoop.HadoopStorageConfiguration(
            jvm.org.apache.hadoop.conf.Configuration()
        )
        made: Any = jvm
        for part in name.split("."):
            made = getattr(made, part)
        self._provider = made(settings, storage)

    def answer(self, command: dict[str, Any]) -> dict[str, Any]:
        """Carry out one command."""
        if command["do"] == "take":
            return {"got": self._take(command["ms"])}
        if command["do"] == "give":
            self._provider.unlock()
            return {}
        for _ in range(command["rounds"]):
            while not self._take(60_000):
                continue
            raise_by_one(self._folder, "java")
            self._provider.unlock()
        return {}

    def close(self) -> None:
        self._provider.close()
        self._gateway.shutdown()

    def _take(self, ms: int) -> bool:
        try:
            return bool(self._provider.tryLock(ms, self._millis))
        except Exception as error:
            # Some of its providers raise if the time is over.
            if "ACQUIRE" in str(error) or "acquire" in str(error):
                return False
            raise


def raise_by_one(folder: Path, who: str) -> None:
    """What is done under the lock: fails if somebody else does it at the same moment."""
    inside, counter = folder / "inside", folder / "counter"
    os.close(os.open(inside, os.O_CREAT | os.O_EXCL))
    before = int(counter.read_text())
    fresh = folder / f"counter.{who}"
    fresh.write_text(str(before + 1))
    fresh.replace(counter)
    inside.unlink()


def main() -> None:
    """Answer until stdin ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    lock = HudiLock(sys.argv[1], json.loads(sys.argv[2]), Path(sys.argv[3]), sys.argv[4])
    print(json.dumps({"ok": True}), file=answers, flush=True)
    for line in sys.stdin:
        try:
            reply = {"ok": True, **lock.answer(json.loads(line))}
        except Exception as error:
            reply = {"ok": False, "error": f"{type(error).__name__}: {error}"[:2_000]}
        print(json.dumps(reply), file=answers, flush=True)
    lock.close()


if __name__ == "__main__":
    main()
