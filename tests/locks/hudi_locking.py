"""Hudi's side of the tests of lock servers: one of its lock providers in a JVM without Spark's session, driven by JSON lines.

Started as `hudi_locking.py CLASS PROPERTIES FOLDER CLASSES` by the Python of `.interop/venv`. Imports nothing of this project. Hudi's provider for
DynamoDB is in a jar that Maven Central does not have; in its place Amazon's lock client, on which it is built, is used as the provider uses it.
Commands:
    take      tries the lock for a time in milliseconds: was it got?
    give      its unlock
    count     rounds of taking the lock, raising the number in a file of the folder by one, and giving it back
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any


class HudiLock:
    """One lock provider of Hudi."""

    def __init__(self, name: str, properties: dict[str, str], folder: Path, classes: str) -> None:
        self._gateway = _gateway(classes)
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
        self._asks_once = name.endswith("HiveMetastoreBasedLockProvider")
        made: Any = jvm
        for part in name.split("."):
            made = getattr(made, part)
        self._provider = made(settings, storage)

    def answer(self, command: dict[str, Any]) -> dict[str, Any]:
        """Carry out one command."""
        if command["do"] == "take":
            return {"got": self._take(command["ms"])}
        if command["do"] == "give":
            self._give()
            return {}
        for _ in range(command["rounds"]):
            while not self._take(60_000):
                continue
            raise_by_one(self._folder, "java")
            self._give()
        return {}

    def close(self) -> None:
        self._provider.close()
        self._gateway.shutdown()

    def _give(self) -> None:
        self._provider.unlock()

    def _take(self, ms: int) -> bool:
        """Hudi's lock manager also tries again: the provider for Hive Metastore asks once, whatever the time is.

        With a short time this provider of release 1.0.2 leaves its request behind in the metastore's queue, if the answer comes too late.
        """
        end = time.monotonic() + ms / 1000
        while not self._try(60_000 if self._asks_once else ms):
            if time.monotonic() >= end:
                return False
            time.sleep(0.05)
        return True

    def _try(self, ms: int) -> bool:
        try:
            return bool(self._provider.tryLock(ms, self._millis))
        except Exception as error:
            # Some of its providers raise if the time is over.
            if "ALREADY_ACQUIRED" not in str(error) and "ACQUIRE" in str(error).upper():
                return False
            raise


class AmazonLock(HudiLock):
    """Amazon's lock client, with the settings that Hudi's provider for DynamoDB gives it: the wait is the lease, renewed three times."""

    def __init__(self, name: str, properties: dict[str, str], folder: Path, classes: str) -> None:
        self._gateway = _gateway(classes)
        self._folder = folder
        jvm, prefix = self._gateway.jvm, "hoodie.write.lock.dynamodb."
        self._amazon = jvm.com.amazonaws.services.dynamodbv2
        self._key = properties[f"{prefix}partition_key"]
        self._millis = jvm.java.util.concurrent.TimeUnit.MILLISECONDS
        sdk = jvm.software.amazon.awssdk
        given = sdk.auth.credentials.AwsBasicCredentials.create(
            properties["hoodie.aws.access.key"], properties["hoodie.aws.secret.key"]
        )
        database = sdk.services.dynamodb.DynamoDbClient.builder()
        database.endpointOverride(jvm.java.net.URI.create(properties[f"{prefix}endpoint_url"]))
        database.region(sdk.regions.Region.of(properties[f"{prefix}region"]))
        database.credentialsProvider(sdk.auth.credentials.StaticCredentialsProvider.create(given))
        database.httpClient(sdk.http.urlconnection.UrlConnectionHttpClient.create())
        lease_ms = int(properties["hoodie.write.lock.wait_time_ms"])
        options = self._amazon.AmazonDynamoDBLockClientOptions.builder(database.build(), properties[f"{prefix}table"])
        options.withTimeUnit(self._millis).withLeaseDuration(lease_ms).withHeartbeatPeriod(lease_ms // 3)
        self._provider = self._amazon.AmazonDynamoDBLockClient(
            options.withCreateHeartbeatBackgroundThread(True).build()
        )
        assert self._provider.lockTableExists()
        self._held: Any = None

    def _give(self) -> None:
        assert self._provider.releaseLock(self._held), "the lock was stolen"
        self._held = None

    def _take(self, ms: int) -> bool:
        options = self._amazon.AcquireLockOptions.builder(self._key).withAdditionalTimeToWaitForLock(ms)
        try:
            self._held = self._provider.acquireLock(options.withTimeUnit(self._millis).build())
        except Exception as error:
            if "LockNotGrantedException" in str(error):
                return False
            raise
        return not self._held.isExpired()


def _gateway(classes: str) -> Any:
    from pyspark import SparkConf
    from pyspark.java_gateway import launch_gateway

    conf = SparkConf().set("spark.driver.extraClassPath", classes).set("spark.driver.memory", "512m")
    return launch_gateway(conf.set("spark.driver.extraJavaOptions", "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"))


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
    kind = AmazonLock if sys.argv[1].startswith("com.amazonaws.") else HudiLock
    lock = kind(sys.argv[1], json.loads(sys.argv[2]), Path(sys.argv[3]), sys.argv[4])
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
