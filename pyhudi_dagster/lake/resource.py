"""The lake as a Dagster resource: a warehouse of tables, and a Spark session that starts on first use.

Read-only work (sensors, checks, plans, loading the code location) uses `HudiLakeResource.table` and never starts a JVM. The session comes from
`SparkResource` by default, or from any other resource with a ``spark_session``, such as dagster-pyspark's.
"""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import dagster as dg
from pydantic import ConfigDict, Field, PrivateAttr

import pyhudi as hudi
from pyhudi.errors import ConfigError, TableExistsError, TableNotFoundError
from pyhudi_core import orchestration
from pyhudi_core.orchestration.errors import definition_error
from pyhudi_core.orchestration.settings import TableSettings
from pyhudi_core.orchestration.table_match import refuse_mismatch
from pyhudi_dagster.lake import interrupts, spark_session
from pyhudi_dagster.lake.info import HudiAssetInfo
from pyhudi_dagster.lake.spark_session import SparkResource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_STOP_LIMIT = 10.0


class HudiLakeResource(dg.ConfigurableResource):  # type: ignore[type-arg]
    """A folder or bucket of Hudi tables. The table of an asset is in the folder of its asset key, unless the asset names another folder.

    Dagster's UI shows the configuration of resources as it is written. So write a secret as dg.EnvVar: the UI then shows the variable's name. Tables
    are opened without a JVM. A Spark session starts when an asset first uses the session, and ends with the run.

    The translator is the default for the assets of a module, if the module defines this lake above the assets, in a variable that is named after the
    resource key. The key of an asset is fixed when its function is defined. So an asset needs its own translator if the asset is defined before its
    lake, or if its module has the lake under another name. The builders and checked_definitions refuse such an asset without a translator.
    """

    model_config = ConfigDict(hide_input_in_errors=True)

    warehouse: str = Field(description="Location of the tables: a folder or an s3:// address.")
    storage_options: dict[str, str] = Field(default={}, repr=False, description="Storage options for every table.")
    options: dict[str, str] = Field(default={}, repr=False, description="Hudi options (hoodie.*) for every table.")
    pyspark: dg.ResourceDependency[Any]
    _started: bool = PrivateAttr(default=False)
    _translator: Any = PrivateAttr(default=None)

    def __init__(self, **data: Any) -> None:
        translator = data.pop("translator", None)
        if translator is not None and not hasattr(translator, "get_asset_spec"):
            raise definition_error(
                f"HudiLakeResource has translator={translator!r}", "Pass an object of a subclass of HudiTranslator."
            )
        self._refuse_unknown(data)
        data.setdefault("pyspark", SparkResource())
        super().__init__(**data)
        self._translator = translator
        self._refuse_unfit()

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        """Return what ``repr`` and ``str`` show: no options, and no password in the address of the warehouse."""
        for name, value in super().__repr_args__():
            yield name, orchestration.masked_text(value) if isinstance(value, str) else value

    @property
    def translator(self) -> Any:
        """The default `HudiTranslator` of the lake's assets, or None. The translator exists only in the process that defines the lake, because a run
        does not need a translator.
        """
        return self._translator

    @classmethod
    def _refuse_unknown(cls, data: dict[str, Any]) -> None:
        """Raise `InvalidOptionError` for an argument that does not exist; Dagster would ignore it."""
        for name in data.keys() - cls.model_fields.keys():
            fix = f"The arguments are {', '.join(cls.model_fields)}, translator."
            raise definition_error(f"HudiLakeResource cannot take {name}=", fix)

    def _refuse_unfit(self) -> None:
        """Raise `ConfigError` for a warehouse or options with which no run could open a table. Values of the environment are unknown at this time."""
        if not isinstance(self.warehouse, dg.EnvVar) and not self.warehouse.strip():
            raise definition_error(
                "HudiLakeResource has an empty warehouse", "Pass a folder, or an address such as 's3://bucket/lake'."
            )
        self._refuse_options("HudiLakeResource", TableSettings())

    def refuse_unfit(self, info: HudiAssetInfo) -> None:
        """Raise `InvalidOptionError`, which names the asset, if its options, such as its lock, contradict this lake, or if the lake's translator did
        not name it.
        """
        asset = info.key.to_user_string()
        if self._translator is not None and info.translated is False:
            raise definition_error(
                f"The asset {asset} was defined without the translator of its lake",
                f"Define the lake above its assets, in their module and with the name {info.lake!r}, or pass translator= to the asset.",
            )
        self._refuse_options(f"The asset {asset}, with the options of its lake,", info.settings)

    def _refuse_options(self, whose: str, settings: TableSettings) -> None:
        options = {**self.options, **settings.options}
        if any(isinstance(value, dg.EnvVar) for value in (self.warehouse, *options.values())):
            return
        try:
            place = self.location("").rstrip("/")
            orchestration.refuse_unfit_options(
                options, location=place, processes=True, storage_options=self._given_storage()
            )
        except ConfigError as error:
            raise definition_error(f"{whose} cannot work: {error.message}", error.hint or "") from error

    def _given_storage(self) -> dict[str, str]:
        """Return the known storage options; for an unset variable, its name is the value."""
        known = {}
        for name, value in self.storage_options.items():
            if not isinstance(value, dg.EnvVar):
                known[name] = value
            elif name != "fsync":  # the value of fsync is checked
                known[name] = value.env_var_name
        return known

    def location(self, name: str) -> str:
        """Return the location of the table with this name; a relative warehouse starts at the working directory."""
        is_absolute = "://" in self.warehouse or self.warehouse.startswith("~")  # the opening of a table refuses a '~'
        root = self.warehouse if is_absolute else str(Path(self.warehouse).resolve())
        return f"{root.rstrip('/')}/{name}"

    @property
    def tables_by_name(self) -> "hudi.Lake":
        """The tables of the warehouse by their names."""
        return hudi.lake(self.location(""), dict(self.storage_options), dict(self.options))

    def table(self, name: str, settings: TableSettings | None = None) -> "hudi.HudiTable":
        """Open a table by its name, such as ``sales/orders``; starts no JVM. Raises `TableNotFoundError`.

        ``settings`` are the settings of the table's asset. The options in the settings also apply, as in every run that writes the table. If this
        release only reads the table, a log line says which operations work on the table.
        """
        options = self._options(settings) if settings is not None else dict(self.options)
        table = hudi.open_table(self.location(name), storage_options=self._storage(name), options=options)
        orchestration.say_what_works(table)
        return table

    def _storage(self, name: str) -> dict[str, str]:
        return dict(orchestration.options_in_lake(self.storage_options, self.location("").rstrip("/"), name))

    def _options(self, settings: TableSettings) -> dict[str, object]:
        """Return the options of the lake, overridden by the options of the asset. Table options of the asset apply only when the table is created."""
        own = dict(settings.options)
        return {
            **{key: value for key, value in self.options.items() if key not in own},
            **orchestration.options_for_open(own),
        }

    def table_or_new(
        self,
        name: str,
        settings: TableSettings,
        schema: Any,
        operation: str = "insert",
        new: "list[hudi.HudiTable] | None" = None,
    ) -> "hudi.HudiTable":
        """Open the table. If the table does not exist, create the table with these settings and this schema (pyarrow or Spark), for a first write
        with an operation, and add it to ``new``.

        Raises `TableMismatchError` if the existing table has other settings, and `RunEndedError` in an interrupted step, because such a step
        must not create a table.
        """
        interrupts.refuse_if_abandoned()
        try:
            return self._matching(name, settings)
        except TableNotFoundError:
            pass
        try:
            table = settings.create(self.location(name), schema, operation, self.options, self._storage(name))
        except TableExistsError:  # another run created it first
            return self._matching(name, settings)
        if new is not None:
            new.append(table)
        return table

    def _matching(self, name: str, settings: TableSettings) -> "hudi.HudiTable":
        table = self.table(name, settings)
        refuse_mismatch(table, settings)
        return table

    @property
    def spark(self) -> "SparkSession":
        """The Spark session, which starts on first use, in this process only. Raises `RunEndedError` in an interrupted step."""
        session = interrupts.within_work(self._session, "the start of Spark")
        interrupts.claim(session)
        return cast("SparkSession", session)

    def _session(self) -> Any:
        remote = bool(getattr(self.pyspark, "remote", ""))
        session, fresh = spark_session.started(lambda: self.pyspark.spark_session, remote=remote)
        self._started = self._started or fresh
        return session

    def teardown_after_execution(self, context: dg.InitResourceContext) -> None:
        """Stop the session if this resource started it. If stopping hangs, the session ends with the process."""
        if not self._started:
            return
        stopper = threading.Thread(target=self.pyspark.spark_session.stop, daemon=True)
        stopper.start()
        stopper.join(_STOP_LIMIT)
        if stopper.is_alive() and context.log is not None:
            context.log.warning("the Spark session did not stop within %s s", _STOP_LIMIT)
