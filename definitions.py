"""The demo, and an example to copy: New York's flights of 2013 as Hudi tables in Dagster.

``dg dev`` or ``dagster dev`` in this folder shows it; ``make demo`` fills the first week. Three assets:

- ``flight_messages``: the messages of the airlines' feed, as Parquet files (without Hudi);
- ``flights``: one row per flight. Every run upserts the messages received on its days in one commit, through Spark;
- ``daily_delays``: one row per day and airline. Reads only the changes in ``flights`` since its last commit, through Arrow.
"""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import dagster as dg
import pyarrow as pa
import pyarrow.compute as pc

from examples.flights import feed
from pyhudi_dagster import Changes, HudiAutomation, HudiLakeResource, HudiPartitions, SparkResource, hudi_asset

if TYPE_CHECKING:  # loading definitions imports no pyspark
    from pyspark.sql import DataFrame

DATA = Path(os.environ.get("PYHUDI_DEMO_DATA", ".data")).resolve()
MESSAGES = DATA / "feed"

SPARK = {
    "spark.master": "local[*]",
    "spark.driver.memory": "1g",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


@dg.asset(group_name="flights", kinds={"parquet"})
def flight_messages(context: dg.AssetExecutionContext) -> dg.MaterializeResult[None]:
    """A million messages of an airline feed: schedules, departures and cancellations, arrivals and diversions."""
    count = feed.write_messages(MESSAGES)
    context.log.info("wrote %s messages", count)
    return dg.MaterializeResult(metadata={"dagster/row_count": count, "dagster/uri": str(MESSAGES)})


class Messages(dg.Config):
    """Which messages of a day to process: one stage, to follow the day step by step, or all of them."""

    stage: Literal["schedule", "departure", "arrival", "all"] = "all"


@hudi_asset(
    record_key=feed.KEY,
    ordering="updated_at",
    schema=feed.SCHEMA,
    # For growing data use HudiPartitions.daily("flight_date", start="2013-01-01"). These days are in the past: for a daily definition
    # Dagster plots only the 120 days before today, whatever the end date; for a static list it plots the newest 120 keys.
    partitions=HudiPartitions.static("flight_date", feed.days(feed.FIRST_DAY, 120)),
    on_foreign_rows="allow",  # a flight that lands after midnight changes yesterday's row
    deps=[flight_messages],
    group_name="flights",
    kinds={"hudi", "pyspark"},
)
def flights(context: dg.AssetExecutionContext, config: Messages, lake: HudiLakeResource) -> "DataFrame":
    """Flights in their latest state: a day's schedule is inserted; departures, arrivals and cancellations update it."""
    days = [str(feed.message_folder(MESSAGES, day)) for day in context.partition_keys]
    messages = lake.spark.read.option("basePath", str(MESSAGES)).parquet(*days)
    if config.stage != "all":
        messages = messages.where(messages.stage == config.stage)
    return messages.select(*feed.SCHEMA.names)


@hudi_asset(
    record_key=["flight_date", "carrier"],
    ordering="updated_at",
    group_name="flights",
    kinds={"hudi", "arrow"},
    automation_condition=HudiAutomation.on_commit(),
)
def daily_delays(context: dg.AssetExecutionContext, flights: Changes) -> pa.Table:
    """Delays per day and airline; computes only the days with changed flights again."""
    changed = flights.to_arrow()
    days = pc.unique(changed["flight_date"])
    context.log.info("%s changed flights on %s days", changed.num_rows, len(days))
    return feed.delays(
        flights.table.scan(columns=feed.SCHEMA.names, where=pc.field("flight_date").isin(days)).to_arrow()
    )


lake = HudiLakeResource(warehouse=str(DATA / "lake"), pyspark=SparkResource(spark_config=SPARK))

# Runs `daily_delays` after each commit to `flights`. Dagster's default automation sensor is switched off, so this one replaces it.
automation = dg.AutomationConditionSensorDefinition(
    "automation", target=dg.AssetSelection.all(), default_status=dg.DefaultSensorStatus.RUNNING
)

defs = dg.Definitions(assets=[flight_messages, flights, daily_delays], sensors=[automation], resources={"lake": lake})
