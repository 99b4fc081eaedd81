"""The demo, and an example to copy: New York's flights of 2013 as a small lake of Hudi tables in Dagster.

``dg dev`` or ``dagster dev`` in this folder shows it; ``make demo`` fills the first week.

- ``flight_messages``: the messages of the airlines' feed, as Parquet files (without Hudi);
- ``flights``: one row per flight, merge-on-read. Every run upserts the messages received on its days in one commit, through Spark;
- ``flights_ro``: the read-optimized view of ``flights``; each compaction is a materialization;
- ``weather`` and ``planes``: small copy-on-write tables, through Arrow;
- ``daily_delays`` and ``flight_conditions``: read only the changes in ``flights`` since their last commits; the second joins them with weather and
  planes.

Dagster compacts, clusters and cleans ``flights`` and builds its indexes, each on a schedule; a sensor rolls back what dead writers left and executes
plans that nobody executes. Another sensor reports commits of other programs. Checks say every hour whether a table is healthy.
"""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import dagster as dg
import pyarrow as pa
import pyarrow.compute as pc

import pyhudi as hudi
from examples.flights import feed
from pyhudi_dagster import (
    Changes,
    HudiAutomation,
    HudiLakeResource,
    HudiPartitions,
    OnCron,
    ServicePolicy,
    Services,
    SparkResource,
    build_hudi_checks,
    build_hudi_services,
    build_hudi_timeline_sensor,
    checked_definitions,
    hudi_asset,
    hudi_read_optimized_asset,
)

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


# For growing data use HudiPartitions.daily("flight_date", start="2013-01-01"). These days are in the past: for a daily definition
# Dagster plots only the 120 days before today, whatever the end date; for a static list it plots the newest 120 keys.
DAYS = HudiPartitions.static("flight_date", feed.days(feed.FIRST_DAY, 120))


@hudi_asset(
    record_key=feed.KEY,
    ordering="updated_at",
    table_type="merge_on_read",
    schema=feed.SCHEMA,
    partitions=DAYS,
    pre_commit=[hudi.not_null("carrier", "status")],
    services=Services(
        compaction=OnCron("*/10 * * * *"),
        clustering=OnCron("0 3 * * *", by=["carrier"]),
        cleaning=OnCron("30 * * * *"),
        indexing=OnCron("45 * * * *"),
        index=["column_stats", "bloom"],
    ),
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


flights_ro = hudi_read_optimized_asset(flights, group_name="flights")


@hudi_asset(record_key=["origin", "time_hour"], group_name="flights", kinds={"hudi", "arrow"})
def weather() -> pa.Table:
    """The weather of each hour at New York's airports."""
    return feed.read_weather()


@hudi_asset(
    record_key="tailnum", group_name="flights", kinds={"hudi", "arrow"}, pre_commit=[hudi.row_count(at_least=3000)]
)
def planes() -> pa.Table:
    """The aircraft."""
    return feed.read_planes()


@hudi_asset(
    record_key=feed.KEY,
    ordering="updated_at",
    group_name="flights",
    kinds={"hudi", "arrow"},
    deps=[weather, planes],
    automation_condition=HudiAutomation.on_commit(),
)
def flight_conditions(flights: Changes, lake: HudiLakeResource) -> pa.Table:
    """The changed flights with the weather at their departure and their aircraft."""
    known = [lake.table(name).scan().to_arrow() for name in ("weather", "planes")]
    columns = [[name for name in table.column_names if not name.startswith("_hoodie")] for table in known]
    return feed.conditions(flights.to_arrow(), known[0].select(columns[0]), known[1].select(columns[1]))


lake = HudiLakeResource(warehouse=str(DATA / "lake"), pyspark=SparkResource(spark_config=SPARK))

# Runs `daily_delays` after each commit to `flights`. Dagster's default automation sensor is switched off, so this one replaces it.
automation = dg.AutomationConditionSensorDefinition(
    "automation", target=dg.AssetSelection.all(), default_status=dg.DefaultSensorStatus.RUNNING
)

UNFINISHED = [dg.DagsterRunStatus(name) for name in ("QUEUED", "NOT_STARTED", "STARTING", "STARTED", "CANCELING")]
CHECKS = ["no_stuck_instants", "compaction_lag", "commit_retries"]
# Without the health checks, which would be one more process after each day; they run every hour.
HEALTH = dg.AssetSelection.checks(*(dg.AssetCheckKey(flights.key, check) for check in CHECKS))
days_job = dg.define_asset_job("next_day", dg.AssetSelection.assets(flights) - HEALTH, partitions_def=DAYS.definition)


@dg.schedule(job=days_job, cron_schedule="*/5 * * * *")
def next_day(context: dg.ScheduleEvaluationContext) -> dg.RunRequest | dg.SkipReason:
    """Materializes the first day that is not there yet, one at a time. Off until it is started in the UI."""
    under_way = context.instance.get_runs(dg.RunsFilter(job_name=days_job.name, statuses=UNFINISHED), limit=1)
    if under_way:
        return dg.SkipReason(f"The day {under_way[0].tags['dagster/partition']} is under way.")
    done = context.instance.get_materialized_partitions(dg.AssetKey("flights"))
    missing = [day for day in DAYS.definition.get_partition_keys() if day not in done]
    return dg.RunRequest(partition_key=missing[0]) if missing else dg.SkipReason("All days are there.")


TABLES = [flights, flights_ro, weather, planes, daily_delays, flight_conditions]

# What cannot work fails when the code location loads. Dagster takes one Definitions object of a module, so the others have no names.
defs = checked_definitions(
    dg.Definitions.merge(
        dg.Definitions(
            assets=[flight_messages, *TABLES],
            jobs=[days_job],
            schedules=[next_day],
            sensors=[automation],
            resources={"lake": lake},
        ),
        build_hudi_timeline_sensor(lake, TABLES, minimum_interval_seconds=30),
        build_hudi_services(lake, TABLES, policy=ServicePolicy(max_minutes=50)),
        build_hudi_checks([flights], CHECKS, cron="0 * * * *"),
    )
)
