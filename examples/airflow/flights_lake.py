"""New York's flights of 2013 as a lake of Hudi tables in Airflow. ``make demo-airflow`` shows it.

- ``load_flights``: each run upserts the messages that the airlines' feed received on one day, in one commit. A backfill loads many days;
- ``daily_delays``: after each commit to ``flights``, whoever made it, computes the days with changed flights again;
- ``look_after_flights``: after commits to ``flights`` compacts, clusters, cleans and indexes it, if that is due, and examines it. So it waits for
  the first commit: an operator fails if its table does not exist;
- ``nightly``: what is due in all tables of the lake, within 50 minutes.

The connection ``hudi_default`` names the lake. Dagster's demo (``definitions.py``) works on the same tables.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from airflow.sdk import DAG, dag, task

import pyhudi as hudi
from examples.flights import feed
from pyhudi_airflow import (
    HudiCheckOperator,
    HudiConsumerOperator,
    HudiServiceOperator,
    HudiUpkeepOperator,
    hudi_asset,
)

MESSAGES = Path(os.environ.get("PYHUDI_DEMO_DATA", ".data")).resolve() / "feed"
FLIGHTS = hudi_asset("flights", poll_interval=10, start="earliest")


@dag(
    schedule="@daily",
    start_date=datetime(2013, 1, 1, tzinfo=UTC),
    end_date=datetime(2013, 12, 31, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    tags=["hudi"],
)
def load_flights():
    """Flights in their latest state: a day's schedule is inserted; departures, arrivals and cancellations update it."""

    @task.hudi(
        table="flights",
        record_key=feed.KEY,
        partition_by="flight_date",
        ordering="updated_at",
        table_type="merge_on_read",
        schema=feed.SCHEMA,
        pre_commit=[hudi.not_null("carrier", "status")],
        retries=3,
        retry_delay=timedelta(minutes=1),
    )
    def messages_of_the_day(ds: str):
        return feed.messages_of(MESSAGES, ds)

    messages_of_the_day()


load_flights()


def delays_of_changed_days(batch: hudi.Batch) -> pa.Table:
    """Delays per day and airline, of the days with changed flights."""
    days = pc.unique(batch.rows(columns=["flight_date"]).to_arrow()["flight_date"])
    return feed.delays(
        batch.consumer.source.scan(columns=feed.SCHEMA.names, where=pc.field("flight_date").isin(days)).to_arrow()
    )


with DAG("daily_delays", schedule=[FLIGHTS], max_active_runs=1, tags=["hudi"]):
    HudiConsumerOperator(
        task_id="delays",
        source="flights",
        into="daily_delays",
        python_callable=delays_of_changed_days,
        record_key=["flight_date", "carrier"],
        ordering="updated_at",
        schema=feed.DELAYS,
        after_gap="rebuild",
        retries=3,
    )

with DAG("look_after_flights", schedule=[FLIGHTS], max_active_runs=1, tags=["hudi"]):
    services = HudiServiceOperator.partial(
        task_id="service",
        table="flights",
        options={"hoodie.clustering.plan.strategy.sort.columns": "carrier"},
        map_index_template="{{ task.service }}",
        max_active_tis_per_dagrun=1,
    ).expand(service=["compaction", "clustering", "cleaning", "indexing"])
    services >> HudiCheckOperator(task_id="check", table="flights", trigger_rule="all_done")

with DAG(
    "nightly",
    schedule="0 3 * * *",
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    tags=["hudi"],
):
    HudiUpkeepOperator(task_id="upkeep", seconds=50 * 60)
