"""Reading what changed in an upstream table since the last commit of the table that is written.

The position is not kept in Dagster. It stands in the extra metadata of the commit that the changes went into, so that input position
and output are one atomic write: a lost cursor, a failed run or a wiped Dagster database neither loses nor repeats anything.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

import pyhudi_core as hudi
from pyhudi_core.errors import SnapshotExpiredError
from pyhudi_dagster.errors import CheckpointGapError, RunEndedError
from pyhudi_dagster.history import carried_extra

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

CHECKPOINT = "pyhudi.checkpoint."


@dataclass(frozen=True, slots=True)
class Changes:
    """The rows of an upstream table that changed in (after, until], each in its latest state; completion times.

    Annotate a parameter of an asset with it. It is falsy when nothing has changed.
    """

    name: str
    table: hudi.HudiTable
    after: str | None
    until: str

    def __bool__(self) -> bool:
        return self.until > (self.after or "")

    @property
    def scan(self) -> Any:
        """The incremental scan, meta columns included. Raises `CheckpointGapError`."""
        try:
            return self.table.incremental(after=self.after, until=self.until)
        except SnapshotExpiredError as error:
            raise CheckpointGapError(
                f"The changes of {self.name} since {self.after} have been cleaned away",
                table=self.table.location,
                hint="Read the whole table once with changes.table.scan(), or accept the loss and start from now; "
                "either commit moves the checkpoint.",
            ) from error

    def to_arrow(self) -> pa.Table:
        """The changed rows as one Arrow table, without meta columns."""
        rows = self.scan.to_arrow()
        return rows.select([name for name in rows.column_names if not name.startswith("_hoodie_")])

    def to_spark(self, spark: Any) -> DataFrame:
        """The changed rows as a DataFrame, without meta columns."""
        rows: DataFrame = self.scan.to_spark(spark)
        return rows.select(*[name for name in rows.columns if not name.startswith("_hoodie_")])

    def checkpoint(self) -> dict[str, str]:
        """The entry that the consuming commit must carry."""
        return {CHECKPOINT + self.name: json.dumps({"watermark": self.until})}


def changes_since(name: str, upstream: hudi.HudiTable, consumer: hudi.HudiTable | None) -> Changes:
    """What the consumer's table has not seen of the upstream one; all of it for a table that does not exist yet."""
    position = carried_extra(consumer, CHECKPOINT).get(CHECKPOINT + name) if consumer is not None else None
    newest = [instant.completion_time or "" for instant in upstream.timeline.commits]
    return Changes(name, upstream, _watermark(position), max(newest, default=""))


def refuse_if_consumed(changes: Changes, consumer: hudi.HudiTable) -> None:
    """Raise `RunEndedError` if another commit has moved the checkpoint since these changes were read."""
    position = carried_extra(consumer, CHECKPOINT).get(CHECKPOINT + changes.name)
    if _watermark(position) != changes.after:
        raise RunEndedError(
            f"Another run has consumed the changes of {changes.name} meanwhile",
            table=consumer.location,
            hint="Nothing was published; the next run goes on from there.",
        )


def _watermark(position: str | None) -> str | None:
    return str(json.loads(position)["watermark"]) if position else None
