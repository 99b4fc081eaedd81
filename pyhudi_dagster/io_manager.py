"""Tables as inputs and outputs of ordinary ``@dg.asset`` functions.

An asset says in its metadata how its table is organised: ``record_key``, ``partition_by``, ``ordering``, ``table_type``, ``operation``,
``on_foreign_rows``. An input says in its metadata what to read: ``columns``, ``where``, ``as_of``. The type annotation decides whether it comes
as a Spark DataFrame, Arrow table or reader, or pandas DataFrame.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import dagster as dg
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi_dagster import interrupts, metadata, writer
from pyhudi_dagster.assets import foreign_events, table_name
from pyhudi_dagster.errors import definition_error
from pyhudi_dagster.identity import identity_of, partition_keys_of
from pyhudi_dagster.partitions import HudiPartitions, Value
from pyhudi_dagster.resource import HudiLakeResource
from pyhudi_dagster.settings import HudiWrite, TableSettings, checked_operation, names


class HudiIOManager(dg.ConfigurableIOManager):
    """Writes each output as one commit, with the same identity, gate, adoption and metadata as `hudi_asset`.

    Example:
        .. code-block:: python

            @dg.asset(metadata={"record_key": "id", "ordering": "updated_at"}, io_manager_key="hudi")
            def orders() -> pa.Table: ...

            dg.Definitions(assets=[orders], resources={"hudi": HudiIOManager(lake=HudiLakeResource(warehouse="s3://lake"))})
    """

    lake: dg.ResourceDependency[HudiLakeResource]

    def handle_output(self, context: dg.OutputContext, obj: Any) -> None:
        """Commit the output; an empty one makes no commit."""
        target = _target(context.asset_key, context.definition_metadata, _partitions(context))
        step = writer.Step(
            context.step_context.instance,
            context.step_context.dagster_run,
            identity_of(context, context.asset_key),
            tuple(partition_keys_of(context)),
        )
        operation = checked_operation(str(context.definition_metadata.get("operation", "upsert")))
        request = obj if isinstance(obj, HudiWrite) else HudiWrite(obj, operation)  # type: ignore[arg-type]
        written = interrupts.interruptibly(
            lambda: writer.adopted(self.lake, target, step) or writer.write(self.lake, target, request, step),
            target.name,
        )
        if written is not None:
            _report(context, target, step, written)

    def load_input(self, context: dg.InputContext) -> Any:
        """Read the upstream table, or the partitions of it that the run needs."""
        table = self.lake.table(table_name(context.asset_key))
        wanted = context.definition_metadata or {}
        scan = table.scan(
            columns=list(names(wanted.get("columns"))) or [field.name for field in table.schema],
            where=_where(context, wanted.get("where")),
            as_of=wanted.get("as_of"),
        )
        return _as_type(scan, context.dagster_type.typing_type, self.lake)


def _as_type(scan: Any, wanted: Any, lake: HudiLakeResource) -> Any:
    if wanted is pa.RecordBatchReader:
        return pa.RecordBatchReader.from_batches(scan.schema, scan.to_batches())
    if wanted is pa.Table or wanted in (Any, None):
        return scan.to_arrow()
    if wanted is pd.DataFrame:
        return scan.to_arrow().to_pandas()
    if getattr(wanted, "__module__", "").startswith("pyspark.sql"):
        return scan.to_spark(lake.spark)
    raise definition_error(
        f"A Hudi table cannot be read as {wanted}",
        "Annotate the input with a pyspark or pandas DataFrame, pyarrow.Table or pyarrow.RecordBatchReader.",
    )


def _target(key: dg.AssetKey, entries: Mapping[str, Any], partitions: HudiPartitions | None) -> writer.Target:
    columns = names(entries.get("partition_by"))
    if not entries.get("record_key"):
        raise definition_error(
            f"The asset {key.to_user_string()} does not say what its record key is",
            "Give it metadata={'record_key': 'column'}.",
        )
    settings = TableSettings(
        names(entries["record_key"]),
        columns,
        entries.get("ordering"),
        entries.get("table_type", "copy_on_write"),
        entries.get("schema"),
        dict(entries.get("options", {})),
    )
    return writer.Target(key, table_name(key), settings, partitions, entries.get("on_foreign_rows", "fail"))


def _partitions(context: dg.OutputContext) -> HudiPartitions | None:
    columns = names(context.definition_metadata.get("partition_by"))
    if not context.has_asset_partitions or not columns:
        return None
    return HudiPartitions.of(context.asset_partitions_def, columns)


def _report(context: dg.OutputContext, target: writer.Target, step: writer.Step, written: writer.Written) -> None:
    facts = metadata.commit_metadata(target, written)
    if target.partitions is not None:
        facts, once = metadata.shared(facts, len(step.partition_keys))
        for key, entries in metadata.partition_metadata(target.partitions, step.partition_keys, written):
            context.step_context.add_asset_metadata({**entries, **once}, asset_key=target.key, partition_key=key)
            once = {}
        for event in foreign_events(target, written):
            context.log_event(event)
    context.step_context.set_data_version(target.key, dg.DataVersion(written.commit.completion_time))
    context.add_output_metadata(facts)


def _where(context: dg.InputContext, given: Any) -> Any:
    """The condition of the input and the partitions that it needs, as a set."""
    upstream = context.upstream_output
    columns = names((upstream.definition_metadata if upstream else {}).get("partition_by"))
    if not context.has_asset_partitions or not columns:
        return given
    partitions = HudiPartitions.of(context.asset_partitions_def, columns)
    owned = _one_of(columns, sorted(partitions.values(context.asset_partition_keys)))
    if given is None:
        return owned
    if isinstance(given, str):
        raise definition_error("A where in SQL text cannot go together with partitions", "Give a pyarrow expression.")
    return owned & given


def _one_of(columns: Sequence[str], values: Sequence[Value]) -> pc.Expression:
    if len(columns) == 1:
        return _text(columns[0]).isin([value[0] for value in values])
    each = [_all(columns, value) for value in values]
    found = each[0]
    for one in each[1:]:
        found = found | one
    return found


def _all(columns: Sequence[str], value: Value) -> pc.Expression:
    found = _text(columns[0]) == value[0]
    for column, text in zip(columns[1:], value[1:], strict=True):
        found = found & (_text(column) == text)
    return found


def _text(column: str) -> pc.Expression:
    return pc.field(column).cast(pa.string())
