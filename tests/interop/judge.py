"""A judge: one process that drives a real Hudi and answers JSON lines.

Started as `judge.py RELEASE` by the Python of `.interop/venv`, where RELEASE is a version of Hudi's Spark
bundle or `hudi-rs`. Reads one JSON object a line from stdin, writes one a line to what was stdout; everything
that Spark prints goes to stderr. It imports nothing of this project, so that what it says is Hudi's word alone.

Every command names `do` and `table`; rows go in and out as Parquet files:
    read    options, out          snapshot, time travel or incremental, as the options say; meta columns too
    write   data, options, mode   a DataFrame write; `hoodie.datasource.write.operation` in the options says which
    each    data, options, attempts   the same for each of a list of files, again after a conflict
    files   options               how many files Spark's plan of such a read scanned: what no index ruled out
    sql     text                  one statement
    index   options, partitions or instant   Hudi's client plans an indexing and says its instant, or executes the plan of an instant
    timeline                      the names of the files on the active timeline
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import traceback
from pathlib import Path
from typing import IO, Any, Protocol

ROOT = Path(__file__).resolve().parents[2]
JARS = ROOT / ".interop" / "jars"

# No service may change a table between the write that a test asked for and the read that judges it.
QUIET = {
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.clustering.inline": "false",
    "hoodie.clustering.async.enabled": "false",
    "hoodie.compact.inline": "false",
    "hoodie.datasource.compaction.async.enable": "false",
    "hoodie.upsert.shuffle.parallelism": "2",
    "hoodie.insert.shuffle.parallelism": "2",
    "hoodie.bulkinsert.shuffle.parallelism": "2",
    "hoodie.delete.shuffle.parallelism": "2",
}
# Releases after 1.0 raise a table to version 9 on their first write unless they are told to stay.
STAY_ON_VERSION_8 = {
    "hoodie.write.auto.upgrade": "false",
    "hoodie.write.table.version": "8",
}


class Judge(Protocol):
    """What answers the commands."""

    def answer(self, command: dict[str, Any]) -> dict[str, Any]:
        """Carries out one command; the result is sent back as it is."""
        ...

    def close(self) -> None:
        """Lets go of everything."""
        ...


class SparkJudge:
    """Apache Hudi's Spark release, in one session."""

    def __init__(self, release: str) -> None:
        from pyspark.sql import SparkSession

        self._release = release
        self._scratch = tempfile.TemporaryDirectory(prefix="judge-")
        jar = JARS / f"hudi-spark3.5-bundle_2.12-{release}.jar"
        settings = {
            "spark.driver.extraClassPath": str(jar),
            "spark.driver.memory": "1g",
            # Kryo copies a file system view with its lock when Hudi looks up bloom filters in the metadata table.
            "spark.driver.extraJavaOptions": "-Duser.timezone=UTC -XX:+UseSerialGC -XX:TieredStopAtLevel=1"
            " --add-opens=java.base/java.util.concurrent.locks=ALL-UNNAMED",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
            "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
            "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.hudi.catalog.HoodieCatalog",
            # Hudi's Avro writer refuses a null inside an array unless parquet-avro is told to write lists in today's form.
            "spark.hadoop.parquet.avro.write-old-list-structure": "false",
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
            "spark.sql.warehouse.dir": str(Path(self._scratch.name) / "warehouse"),
            "spark.local.dir": self._scratch.name,
        }
        builder = SparkSession.builder.master("local[2]").appName(f"judge-{release}")
        for key, value in settings.items():
            builder = builder.config(key, value)
        self._spark = builder.getOrCreate()
        self._spark.sparkContext.setLogLevel("ERROR")

    def answer(self, command: dict[str, Any]) -> dict[str, Any]:
        verb = {
            "read": self._read,
            "write": self._write,
            "each": self._write_each,
            "files": self._files,
            "sql": self._sql,
            "index": self._index,
            "timeline": self._timeline,
        }[command["do"]]
        return verb(command)

    def close(self) -> None:
        self._spark.stop()
        self._scratch.cleanup()

    def _read(self, command: dict[str, Any]) -> dict[str, Any]:
        options = dict(command.get("options", {}))
        condition = options.pop("condition", "")
        rows = self._spark.read.format("hudi").options(**options).load(command["table"])
        rows = rows.where(condition) if condition else rows
        if options.get("hoodie.datasource.query.incremental.format") == "cdc":
            # Release 1.0.2 passes over a change whenever its iterator is asked twice whether there is one, as writers of files do.
            rows = self._spark.createDataFrame(rows.collect(), rows.schema)
        rows.coalesce(1).write.mode("overwrite").parquet(command["out"])
        return {"columns": rows.columns}

    def _files(self, command: dict[str, Any]) -> dict[str, Any]:
        """The metric `numFiles` of the scans in the executed plan."""
        options = dict(command.get("options", {}))
        condition = options.pop("condition")
        rows = self._spark.read.format("hudi").options(**options).load(command["table"]).where(condition)
        rows.collect()
        leaves = rows._jdf.queryExecution().executedPlan().collectLeaves()
        found = [leaves.apply(number).metrics().get("numFiles") for number in range(leaves.size())]
        return {"files": sum(metric.get().value() for metric in found if metric.isDefined())}

    def _write(self, command: dict[str, Any]) -> dict[str, Any]:
        options = dict(QUIET)
        if not self._release.startswith(("0.", "1.0")):
            options |= STAY_ON_VERSION_8
        options |= command.get("options", {})
        rows = self._spark.read.parquet(command["data"])
        rows.write.format("hudi").options(**options).mode(command.get("mode", "append")).save(command["table"])
        return {}

    def _write_each(self, command: dict[str, Any]) -> dict[str, Any]:
        return {"told": [self._try(command | {"data": data}) for data in command["data"]]}

    def _try(self, command: dict[str, Any]) -> dict[str, Any]:
        """One commit, as a user would make it: again after a conflict, or if its requested time was taken; any other failure is told at once."""
        conflicts = taken = 0
        error = ""
        while conflicts + taken < command["attempts"]:
            try:
                self._write(command)
                return {"ok": True, "conflicts": conflicts, "taken": taken, "error": ""}
            except Exception as failure:
                error = _short(failure)
            if "ConflictException" in error or "ConcurrentModification" in error:
                conflicts += 1
            elif "FileAlreadyExistsException" in error and ".requested" in error:
                taken += 1
            else:
                break
        return {"ok": False, "conflicts": conflicts, "taken": taken, "error": error}

    def _sql(self, command: dict[str, Any]) -> dict[str, Any]:
        rows = self._spark.sql(command["text"]).collect()
        return {"rows": [[str(value) for value in row] for row in rows]}

    def _index(self, command: dict[str, Any]) -> dict[str, Any]:
        """What Hudi's HoodieIndexer does, which is in another jar: the kinds of partitions to schedule, or the instant to execute."""
        jvm, context = self._spark._jvm, self._spark._jsc
        given = jvm.java.util.HashMap()
        for key, value in {**QUIET, **command.get("options", {})}.items():
            given.put(key, value)
        made = jvm.org.apache.hudi.DataSourceUtils.createHoodieClient
        client = made(context, command["schema"], command["table"], command["name"], given)
        try:
            if "instant" in command:
                return {"done": client.index(command["instant"]).isPresent()}
            kinds, paths = jvm.java.util.ArrayList(), jvm.java.util.ArrayList()
            for kind in command["partitions"]:
                kinds.add(jvm.org.apache.hudi.metadata.MetadataPartitionType.valueOf(kind.upper()))
            return {"instant": client.scheduleIndexing(kinds, paths).get()}
        finally:
            client.close()

    def _timeline(self, command: dict[str, Any]) -> dict[str, Any]:
        names = sorted(
            path.name for path in (Path(command["table"]) / ".hoodie" / "timeline").iterdir() if path.is_file()
        )
        return {"files": [name for name in names if not name.startswith(".")]}


class RustJudge:
    """hudi-rs through its Python package: it reads only."""

    def answer(self, command: dict[str, Any]) -> dict[str, Any]:
        import pyarrow as pa
        import pyarrow.parquet as pq
        from hudi import HudiQueryType, HudiReadOptions, HudiTableBuilder

        if command["do"] != "read":
            raise ValueError(f"hudi-rs cannot {command['do']}")
        options = command.get("options", {})
        wanted = HudiReadOptions()
        if "as.of.instant" in options:
            wanted = wanted.with_as_of_timestamp(options["as.of.instant"])
        if options.get("hoodie.datasource.query.type") == "incremental":
            begin = options["hoodie.datasource.read.begin.instanttime"]
            wanted = wanted.with_query_type(HudiQueryType.Incremental).with_start_timestamp(begin)
        table = HudiTableBuilder.from_base_uri(command["table"]).build()
        batches = table.read(wanted)
        out = Path(command["out"])
        out.mkdir(parents=True, exist_ok=True)
        if not batches:
            return {"columns": []}
        rows = pa.Table.from_batches(batches)
        pq.write_table(rows, out / "part-0.parquet")
        return {"columns": rows.column_names}

    def close(self) -> None:
        return


def main() -> None:
    """Answers commands until stdin ends."""
    replies = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    judge: Judge = RustJudge() if sys.argv[1] == "hudi-rs" else SparkJudge(sys.argv[1])
    _say(replies, {"ready": sys.argv[1]})
    for line in sys.stdin:
        try:
            _say(replies, {"ok": True} | judge.answer(json.loads(line)))
        except BaseException as error:  # a panic in Rust is no Exception; the judge must outlive it
            traceback.print_exc()
            _say(
                replies,
                {"ok": False, "error": _short(error)},
            )
    judge.close()


def _short(error: BaseException) -> str:
    """The error without Java's stack: its first two lines, and the first line of every cause."""
    lines = f"{type(error).__name__}: {error}".splitlines()
    causes = [line for line in lines[2:] if line.startswith("Caused by:")]
    return "\n".join(line[:600] for line in [*lines[:2], *dict.fromkeys(causes)])


def _say(replies: IO[str], what: dict[str, Any]) -> None:
    replies.write(json.dumps(what) + "\n")
    replies.flush()


if __name__ == "__main__":
    main()
