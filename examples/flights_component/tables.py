"""The rows of the tables that defs.yaml names: one function for each. Python must find ``examples.flights``: start in the folder of the project."""

from functools import lru_cache

import dagster as dg
import pyarrow as pa
import pyarrow.compute as pc

from examples.flights import feed
from pyhudi_dagster import Changes, HudiLakeResource


def flights(context: dg.AssetExecutionContext) -> pa.Table:
    """Flights in their latest state: the messages that were received on the days of the run."""
    days = pa.array(context.partition_keys).cast(pa.date32())
    received = _messages().filter(pc.field("received_on").isin(days))
    return received.select(feed.SCHEMA.names)


def weather() -> pa.Table:
    """The weather of each hour at New York's airports."""
    return feed.read_weather()


def planes() -> pa.Table:
    """The aircraft."""
    return feed.read_planes()


def daily_delays(flights: Changes) -> pa.Table:
    """Delays per day and airline; computes only the days with changed flights again."""
    days = pc.unique(flights.to_arrow(columns=["flight_date"])["flight_date"])
    where = pc.field("flight_date").isin(days)
    return feed.delays(flights.table.scan(columns=feed.SCHEMA.names, where=where).to_arrow())


def flight_conditions(flights: Changes, lake: HudiLakeResource) -> pa.Table:
    """The changed flights with the weather at their departure and their aircraft."""
    known = [lake.table(name).scan(meta=False).to_arrow() for name in ("weather", "planes")]
    return feed.conditions(flights.to_arrow(), *known)


@lru_cache(maxsize=1)
def _messages() -> pa.Table:
    """A million messages of an airline feed."""
    return feed.messages(feed.read_flights())
