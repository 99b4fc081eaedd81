"""The lake as a Dagster resource: a warehouse of tables, and a Spark session that starts when it is first used.

Everything that only looks (sensors, checks, plans, loading the code location) goes through `HudiLakeResource.table` and never starts a
JVM. The session comes from `SparkResource` by default, or from any other resource with a ``spark_session``, such as dagster-pyspark's.
"""

import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import dagster as dg
from pydantic import Field, PrivateAttr

import pyhudi_core as hudi
from pyhudi_core.errors import TableExistsError, TableNotFoundError
from pyhudi_dagster import interrupts, spark_session
from pyhudi_dagster.settings import TableSettings
from pyhudi_dagster.spark_session import SparkResource
from pyhudi_dagster.table_match import refuse_mismatch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_STOP_LIMIT = 10.0


class HudiLakeResource(dg.ConfigurableResource):  # type: ignore[type-arg]
    """A folder or bucket of Hudi tables. The table of an asset is in the folder of its asset key, unless the asset names another one.

    Tables are opened without a JVM. A Spark session starts when an asset first uses one, and ends with the run.
    """

    warehouse: str = Field(description="Where the tables are: a folder or an s3:// address.")
    storage_options: dict[str, str] = Field(default={}, description="How to reach the storage, for every table.")
    options: dict[str, str] = Field(default={}, description="Hudi options (hoodie.*) for every table.")
    pyspark: dg.ResourceDependency[Any]
    _started: bool = PrivateAttr(default=False)

    def __init__(self, **data: Any) -> None:
        data.setdefault("pyspark", SparkResource())
        super().__init__(**data)

    def location(self, name: str) -> str:
        """Where the table of this name is; relative warehouses count from the working directory."""
        whole = "://" in self.warehouse or self.warehouse.startswith("~")  # a '~' is refused where the table is opened
        root = self.warehouse if whole else str(Path(self.warehouse).resolve())
        return f"{root.rstrip('/')}/{name}"

    def table(self, name: str, settings: TableSettings | None = None) -> hudi.HudiTable:
        """Open a table by its name, such as ``sales/orders``; starts no JVM. Raises `TableNotFoundError`.

        ``settings`` are those of the table's own asset: the table is opened with its options too, as every run that writes it does.
        """
        options = self._options(settings) if settings is not None else dict(self.options)
        return hudi.open_table(self.location(name), storage_options=dict(self.storage_options), options=options)

    def _options(self, settings: TableSettings) -> dict[str, object]:
        """The lake's options and the asset's, which come first. What an asset says of a new table counts for its creation alone."""
        own = dict(settings.options)
        return {**{key: value for key, value in self.options.items() if key not in own}, **hudi.options_for_open(own)}

    def table_or_new(self, name: str, settings: TableSettings, schema: Any) -> hudi.HudiTable:
        """Open the table, or create it with these settings and this schema (pyarrow or Spark) if there is none.

        Raises `TableMismatchError` if there is one that is organised in another way, and `RunEndedError` in a step that was interrupted: it
        begins nothing any more.
        """
        interrupts.refuse_if_abandoned()
        try:
            return self._matching(name, settings)
        except TableNotFoundError:
            pass
        try:
            return hudi.create_table(
                self.location(name),
                schema=settings.schema if settings.schema is not None else schema,
                record_key=list(settings.record_key),
                partition_by=list(settings.partition_by),
                ordering=settings.ordering,
                table_type=settings.table_type,
                options={**self.options, **settings.options},
                storage_options=dict(self.storage_options),
            )
        except TableExistsError:  # another run was first
            return self._matching(name, settings)

    def _matching(self, name: str, settings: TableSettings) -> hudi.HudiTable:
        table = self.table(name, settings)
        refuse_mismatch(table, settings)
        return table

    @property
    def spark(self) -> "SparkSession":
        """The Spark session; started on first use, in this process only. Raises `RunEndedError` in a step that was interrupted."""
        session = interrupts.within_work(self._session, "the start of Spark")
        interrupts.claim(session)
        return cast("SparkSession", session)

    def _session(self) -> Any:
        session, fresh = spark_session.started(lambda: self.pyspark.spark_session)
        self._started = self._started or fresh
        return session

    def teardown_after_execution(self, context: dg.InitResourceContext) -> None:
        """Stop the session if this resource started it; a session that hangs is left to the end of the process."""
        if not self._started:
            return
        stopper = threading.Thread(target=self.pyspark.spark_session.stop, daemon=True)
        stopper.start()
        stopper.join(_STOP_LIMIT)
        if stopper.is_alive() and context.log is not None:
            context.log.warning("the Spark session did not stop within %s s", _STOP_LIMIT)
