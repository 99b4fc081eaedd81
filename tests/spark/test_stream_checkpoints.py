"""Streams that write x what became of their checkpoint x the two doors: no row is lost or doubled, and what cannot be told apart is refused."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.tables import FAST, make, orders, rows

import pyhudi_core as hudi
from pyhudi_core.errors import HudiError, InvalidOptionError, SchemaMismatchError
from pyhudi_core.spark import StreamSink, error_of, last_batch, own_errors, register

try:
    import pyspark.sql.streaming.datasource as streaming_sources
except ModuleNotFoundError:  # PySpark 3.5 has no streaming data sources in Python
    streaming_sources = None
DOORS = ["sink", *(["format"] if streaming_sources else [])]
BOTH = pytest.mark.parametrize("streams", DOORS, indirect=True)
"""For the tests that run quickly at both doors."""
COLUMNS = "id bigint, day string, price double, ts bigint"
LIMIT_S = 120


@dataclass
class Streams:
    """Queries over one folder of files, each with a checkpoint of its own, that write through one door."""

    spark: Any
    place: Path
    door: str
    landed: int = 0
    tables: dict[str, hudi.HudiTable] = field(default_factory=dict)

    def table(self, name: str = "table", **made: Any) -> hudi.HudiTable:
        if name not in self.tables:
            self.tables[name] = make(str(self.place / name), **made)
        return self.tables[name]

    def checkpoint(self, name: str = "checkpoint") -> Path:
        return self.place / name

    def land(self) -> None:
        """One more file, with the next key."""
        self.landed += 1
        path = self.place / "source" / f"{self.landed}.parquet"
        path.parent.mkdir(exist_ok=True)
        pq.write_table(orders((self.landed, "a", float(self.landed))), path)

    def run(
        self,
        stream: str = "files",
        table: str = "table",
        checkpoint: str = "checkpoint",
        columns: tuple[str, ...] = ("*",),
        **given: Any,
    ) -> None:
        """Write what has landed, one file a batch. Raises this package's error."""
        frame = (
            self.spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1).parquet(str(self.place / "source"))
        )
        writer = frame.selectExpr(*columns).writeStream.option("checkpointLocation", str(self.checkpoint(checkpoint)))
        writer = writer.trigger(availableNow=True)
        location = self.table(table).location
        if self.door == "sink":
            query = writer.foreachBatch(StreamSink(location, stream, storage_options=FAST, **given)).start()
        else:
            query = writer.format("pyhudi").option("stream", stream).options(**given).start(location)
        with own_errors():
            assert query.awaitTermination(LIMIT_S)

    def ids(self, table: str = "table") -> list[int]:
        return [row[0] for row in rows(self.table(table), "id")]


@pytest.fixture(params=["sink", *(pytest.param(door, marks=pytest.mark.slow) for door in DOORS[1:])])
def streams(spark: Any, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Streams]:
    if request.param == "format":
        register(spark)
    yield Streams(spark, tmp_path, request.param)
    for query in spark.streams.active:
        query.stop()


def replaces_of(error: HudiError) -> str:
    """What the hint tells to give to the sink."""
    return str(error.hint).partition('replaces="')[2].partition('"')[0]


def test_a_lost_checkpoint_is_refused_and_begins_anew_only_as_its_error_says(streams: Streams) -> None:
    streams.land()
    streams.run()
    shutil.rmtree(streams.checkpoint())
    streams.land()
    with pytest.raises(InvalidOptionError, match="its checkpoint is new") as refused:
        streams.run()
    assert streams.ids() == [1]
    streams.run(replaces=replaces_of(refused.value))
    assert streams.ids() == [1, 2]
    shutil.rmtree(streams.checkpoint())
    with pytest.raises(InvalidOptionError, match="its checkpoint is new"):
        streams.run(replaces=replaces_of(refused.value))  # it was said about another query


def test_the_checkpoint_of_another_table_or_name_is_refused_and_its_own_goes_on(streams: Streams) -> None:
    streams.land()
    streams.run()
    streams.land()
    for place in ({"table": "other"}, {"stream": "renamed"}):
        with pytest.raises(InvalidOptionError, match="batches before it were written to another table") as refused:
            streams.run(**place)
        assert ("as the stream 'files'" in str(refused.value)) == ("stream" in place)
    assert (streams.ids(), streams.ids("other")) == ([1], [])
    streams.run()
    assert streams.ids() == [1, 2]


@BOTH
@pytest.mark.parametrize("operation", ["upsert", pytest.param("insert", marks=pytest.mark.slow)])
def test_a_checkpoint_from_a_backup_loses_and_doubles_nothing(streams: Streams, operation: str) -> None:
    """Its batches are planned anew: the first of them has a row that the table has, a later one a new row under an old number."""
    for _ in range(3):
        streams.land()
        streams.run(operation=operation)
        if streams.landed == 1:
            shutil.copytree(streams.checkpoint(), streams.checkpoint("backup"))
    streams.land()
    shutil.rmtree(streams.checkpoint())
    (streams.place / "source" / "2.parquet").unlink()  # so that the new row has the number of a batch that was written
    streams.run(checkpoint="backup", operation=operation)
    assert streams.ids() == [1, 2, 3, 4]
    assert last_batch(streams.table(), "files") == 2
    assert streams.table().check().ok


def test_a_batch_that_was_written_before_a_kill_is_not_written_again(streams: Streams) -> None:
    streams.land()
    streams.run()
    streams.land()
    streams.run()
    newest = streams.checkpoint() / "commits" / "1"
    newest.unlink()  # as if the driver had died before it noted the batch
    newest.with_name(".1.crc").unlink(missing_ok=True)
    before = len(streams.table().timeline.commits)
    streams.run()
    assert len(streams.table().timeline.commits) == before
    assert streams.ids() == [1, 2]


def test_a_stream_of_an_earlier_release_is_taken_over_once(streams: Streams, caplog: pytest.LogCaptureFixture) -> None:
    streams.land()
    with streams.table().begin("upsert", {"pyhudi.stream.files": "0"}) as write:
        write.write(orders((1, "a", 1.0)))
        write.commit()
    with pytest.raises(InvalidOptionError, match="earlier release did not note") as refused:
        streams.run()  # its batch 0 was planned after that commit
    assert replaces_of(refused.value) == "unknown"
    streams.land()
    streams.run(replaces="unknown")
    assert streams.ids() == [1, 2]
    streams.land()
    caplog.clear()
    streams.run()
    assert streams.ids() == [1, 2, 3]
    assert "takes it over" not in caplog.text


@BOTH
def test_the_second_of_two_queries_under_one_name_is_refused(streams: Streams) -> None:
    streams.land()
    streams.run(checkpoint="one")
    with pytest.raises(InvalidOptionError, match="from the query .*comes from the query"):
        streams.run(checkpoint="two")
    streams.land()
    streams.run(checkpoint="one")
    assert streams.ids() == [1, 2]


def test_an_empty_first_batch_lets_the_next_one_in(streams: Streams) -> None:
    source = streams.place / "source"
    source.mkdir()
    pq.write_table(orders(), source / "0.parquet")
    streams.run()
    streams.land()
    streams.run()
    assert streams.ids() == [1]


def test_the_errors_of_a_sink_come_out_with_type_table_and_hint(streams: Streams) -> None:
    streams.land()
    with pytest.raises(SchemaMismatchError) as raised:
        streams.run(columns=("id", "day", "'x' AS price", "ts"))
    assert raised.value.table == streams.table().location
    assert raised.value.hint


def test_a_sink_knows_its_query_in_threads_and_behind_functions_of_the_user(spark: Any, tmp_path: Path) -> None:
    """Two tables are often written by threads of ``foreachBatch``, where Spark's local property of the query is missing."""
    streams = Streams(spark, tmp_path, "sink")
    streams.land()
    failures: list[BaseException] = []

    def query() -> Any:
        sink = StreamSink(streams.table().location, "files", storage_options=FAST)

        def write(frame: Any, number: int) -> None:
            try:
                sink(frame, number)
            except BaseException as error:
                failures.append(error)

        def both(frame: Any, number: int) -> None:
            thread = threading.Thread(target=write, args=(frame, number))
            thread.start()
            thread.join()
            if failures:
                raise failures[-1]

        frame = spark.readStream.schema(COLUMNS).parquet(str(tmp_path / "source"))
        started = frame.writeStream.option("checkpointLocation", str(streams.checkpoint()))
        return started.trigger(availableNow=True).foreachBatch(both).start()

    assert query().awaitTermination(LIMIT_S)
    assert streams.ids() == [1]
    shutil.rmtree(streams.checkpoint())
    failed = query()
    with pytest.raises(Exception, match="its checkpoint is new") as raised:
        failed.awaitTermination(LIMIT_S)
    for error in (raised.value, failed.exception()):
        assert isinstance(error_of(error), InvalidOptionError)


def test_rows_that_a_function_of_the_user_made_of_a_batch_belong_to_its_query(spark: Any, tmp_path: Path) -> None:
    streams = Streams(spark, tmp_path, "sink")
    sink = StreamSink(streams.table().location, "files", storage_options=FAST)
    streams.land()
    frame = spark.readStream.schema(COLUMNS).parquet(str(tmp_path / "source"))

    def run() -> None:
        writer = frame.writeStream.option("checkpointLocation", str(streams.checkpoint())).trigger(availableNow=True)
        query = writer.foreachBatch(
            lambda batch, number: sink.write(pa.Table.from_pandas(batch.toPandas()), number)
        ).start()
        with own_errors():
            assert query.awaitTermination(LIMIT_S)

    run()
    assert streams.ids() == [1]
    shutil.rmtree(streams.checkpoint())
    with pytest.raises(InvalidOptionError, match="its checkpoint is new") as refused:
        run()
    assert refused.value.hint
    sink.write(orders((2,)), 1)  # outside of a query
    assert streams.ids() == [1, 2]


def test_an_error_that_a_function_of_the_user_lets_through_keeps_its_type(spark: Any, tmp_path: Path) -> None:
    streams = Streams(spark, tmp_path, "sink")
    streams.land()
    table = streams.table()
    frame = spark.readStream.schema(COLUMNS).parquet(str(tmp_path / "source"))
    writer = frame.selectExpr("id", "day", "'x' AS price", "ts").writeStream.trigger(availableNow=True)
    query = (
        writer.option("checkpointLocation", str(streams.checkpoint()))
        .foreachBatch(lambda f, _: table.upsert(f))
        .start()
    )
    with pytest.raises(SchemaMismatchError, match="Column price is double.*cast the data"), own_errors():
        query.awaitTermination(LIMIT_S)
