"""Tables as inputs and outputs of ordinary ``@dg.asset`` functions.

The metadata of an asset describes the organisation of its table (`hudi_metadata`). The metadata of an input selects what to read: ``columns``,
``where``, ``as_of`` (also ``"run_start"``). The type annotation selects a Spark DataFrame, an Arrow table or reader, or a pandas or Polars frame.

An input is empty in two cases. The run needs no partition of the input's table; for example, an asset reads its previous partition, and runs its
first partition. Or an asset reads its own table, and the table does not exist yet. An empty input is None if the annotation allows None. Otherwise an
empty input has no rows.
"""

import types
import typing
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Any

import dagster as dg
import pyarrow as pa

from pyhudi.errors import TableNotFoundError
from pyhudi_core import orchestration
from pyhudi_core.orchestration import past_commits, polars_frames
from pyhudi_core.orchestration.errors import definition_error
from pyhudi_core.orchestration.partition_condition import condition_of
from pyhudi_core.orchestration.partition_values import value_of_path
from pyhudi_core.orchestration.settings import names, write_asked_for
from pyhudi_dagster.assets.asset_arguments import io_manager_key
from pyhudi_dagster.dagster_internals import (
    add_output_entries,
    input_facts_of,
    is_own_input,
    set_output_data_version,
)
from pyhudi_dagster.lake.info import HudiAssetInfo, info_of, table_name
from pyhudi_dagster.lake.resource import HudiLakeResource
from pyhudi_dagster.partitions.asset_partitions import HudiPartitions
from pyhudi_dagster.reporting import events
from pyhudi_dagster.reporting.late_data import report_late
from pyhudi_dagster.steps import runner, writer
from pyhudi_dagster.timeline.identity import attempt_of, begun

RUN_START = "run_start"
"""The ``as_of`` of an input that is read in the state at the creation of the run, so that all such inputs of all steps show one moment."""
_NO_ROWS = "no-rows"
"""The data version of partitions without a commit."""
_WHY_NOTHING = "The metadata entry of an output without a commit: it has no rows, or its rows do not change the table."


class HudiIOManager(dg.ConfigurableIOManager):
    """Writes each output of an asset as one commit of its Hudi table, and reads tables as inputs of other assets.

    The metadata of the asset describes the organisation of its table. The record key is required: hudi_metadata(record_key="id").
    """

    lake: dg.ResourceDependency[HudiLakeResource]

    def handle_output(self, context: dg.OutputContext, obj: Any) -> None:
        """Commit the output. An empty output makes no commit."""
        _refuse_no_asset(context, f"The output {context.name}")
        info = _output_info(context)
        step = runner.step_of(context, info.key)
        request = write_asked_for(obj, info.operation, f"The output {context.name}")
        written = runner.run(
            step, lambda: writer.adopted(self.lake, info, step) or writer.write(self.lake, info, request, step)
        )
        if written is not None:
            _report(context, info, step, written)
        else:
            _report_nothing(context, info, step, self.lake)

    def load_input(self, context: dg.InputContext) -> Any:
        """Read the upstream table, or only the partitions that the run needs."""
        _refuse_no_asset(context, f"The input {context.name}" if context.has_input_name else "An input")
        info = _input_info(context)
        wanted = context.definition_metadata or {}
        kind, optional = _kind_of(context.dagster_type.typing_type)
        partitions = _partitions_of(context, info, wanted)
        needs_none = partitions is not None and not context.asset_partition_keys
        if needs_none and optional:
            return None
        try:
            table = self.lake.table(info.table if info is not None else table_name(context.asset_key))
        except TableNotFoundError:
            if not needs_none and not is_own_input(context):
                raise
            schema = info.settings.schema if info is not None and isinstance(info.settings.schema, pa.Schema) else None
            return None if optional else _as_type((schema or pa.schema([])).empty_table(), kind, self.lake)
        scan = table.scan(
            columns=list(names(wanted.get("columns"))) or [field.name for field in table.schema],
            as_of=_pinned(context) if wanted.get("as_of") == RUN_START else wanted.get("as_of"),
            **_conditions(context, partitions, wanted.get("where"), table.schema),
        )
        return _as_type(scan, kind, self.lake)


@cache
def io_manager_of(lake: str) -> dict[str, dg.IOManagerDefinition]:
    """Return, by resource key, the default IO manager that reads a ``@hudi_asset`` with this lake.

    The IO manager is the same object for each asset of the lake, because Dagster refuses two IO managers with one name.
    """

    @dg.io_manager(required_resource_keys={lake}, description=f"Reads the Hudi tables of {lake}.")
    def made(context: dg.InitResourceContext) -> HudiIOManager:
        return HudiIOManager(lake=getattr(context.resources, lake))

    return {io_manager_key(lake): made}


def _refuse_no_asset(context: dg.OutputContext | dg.InputContext, what: str) -> None:
    """Raise `InvalidOptionError` for a value that is passed between ops: such a value has no asset key, and so no table."""
    if not context.has_asset_key:
        raise definition_error(
            f"{what} of the op {context.op_def.name} is no asset, and HudiIOManager stores and reads assets only",
            "Give the output another IO manager: @dg.op(out=dg.Out(io_manager_key='between_ops')), with a resource 'between_ops', such as "
            "dg.FilesystemIOManager(); or keep HudiIOManager under another key than 'io_manager', and name it in io_manager_key of the assets.",
        )


def _kind_of(annotation: Any) -> tuple[Any, bool]:
    """Return the type of an annotation, and whether the annotation also allows None."""
    if typing.get_origin(annotation) not in (typing.Union, types.UnionType):
        return annotation, False
    kinds = [kind for kind in typing.get_args(annotation) if kind is not types.NoneType]
    return (kinds[0] if len(kinds) == 1 else annotation), len(kinds) < len(typing.get_args(annotation))


def _pinned(context: dg.InputContext) -> datetime:
    """Return the creation time of the run; of a resumed run, the creation time of the first run. Raises `InvalidOptionError` for an input that the
    run itself writes.
    """
    facts = input_facts_of(context)
    name = context.asset_key.to_user_string()
    if context.asset_key in facts.writes:
        raise definition_error(
            f"The input {name} has as_of={RUN_START!r}, but this run writes {name}, so it would not see what was written",
            "Materialize it in another run, or leave as_of out.",
        )
    start = begun(facts.instance, attempt_of(facts.instance, facts.run))
    assert start is not None, "the run is stored before its steps run"
    return start.replace(tzinfo=UTC) if start.tzinfo is None else start


def _as_type(rows: Any, wanted: Any, lake: HudiLakeResource) -> Any:
    """Return the rows of a scan, or of an empty table, as the annotated type."""
    module = str(getattr(wanted, "__module__", ""))
    if module.startswith("pyspark.sql"):
        return _empty_frame(rows, lake) if isinstance(rows, pa.Table) else rows.to_spark(lake.spark)
    if wanted is pa.RecordBatchReader:
        return pa.RecordBatchReader.from_batches(rows.schema, rows.to_batches())
    if wanted is pa.Table or wanted in (Any, None):
        return _arrow(rows)
    if isinstance(wanted, type) and orchestration.is_pandas(wanted):
        return _arrow(rows).to_pandas()
    if polars_frames.is_polars(wanted):
        return polars_frames.from_arrow(_arrow(rows), wanted)
    raise definition_error(
        f"A Hudi table cannot be read as {wanted}",
        "Annotate the input with a pyspark, pandas or polars DataFrame, polars.LazyFrame, pyarrow.Table or pyarrow.RecordBatchReader.",
    )


def _arrow(rows: Any) -> pa.Table:
    return rows if isinstance(rows, pa.Table) else rows.to_arrow()


def _empty_frame(rows: pa.Table, lake: HudiLakeResource) -> Any:
    from pyspark.sql.pandas.types import from_arrow_schema  # noqa: PLC0415 - the annotation is a Spark DataFrame

    return lake.spark.createDataFrame([], from_arrow_schema(rows.schema))


def _output_info(context: dg.OutputContext) -> HudiAssetInfo:
    definition = context.asset_partitions_def if context.has_asset_partitions else None
    info = info_of(context.asset_key, context.definition_metadata, definition)
    if info is None:
        raise definition_error(
            f"The asset {context.asset_key.to_user_string()} has no record key in its metadata",
            "Set metadata=hudi_metadata(record_key='column').",
        )
    return info


def _input_info(context: dg.InputContext) -> HudiAssetInfo | None:
    """Return the table of the upstream asset; None if the definition of the asset is in another code location."""
    upstream = context.upstream_output
    if upstream is None:
        return None
    definition = context.asset_partitions_def if context.has_asset_partitions else None
    return info_of(context.asset_key, upstream.definition_metadata, definition)


def _report(context: dg.OutputContext, info: HudiAssetInfo, step: runner.Step, written: writer.CompletedCommit) -> None:
    known = events.known_size(step.instance, info.key) if step.instance is not None else None
    said = events.report(info, written, step.partition_keys, known)
    for key, entries in said.by_partition.items():
        add_output_entries(context, info.key, key, entries)
    report_late(info, written, step, context.log_event, known)
    set_output_data_version(context, info.key, written.commit.completion_time)
    context.add_output_metadata(said.entries)


def _report_nothing(context: dg.OutputContext, info: HudiAssetInfo, step: runner.Step, lake: HudiLakeResource) -> None:
    """Give an event without a commit the existing data version of the rows, so that downstream assets see no change.

    Dagster stores a materialization even without a commit.
    """
    table, allowed = writer.existing(lake, info), writer.values_of(info, step)
    columns = info.partitions.columns if info.partitions is not None else ()
    newest = None
    if table is not None:
        newest = past_commits.newest_change(
            table, lambda path: allowed is None or value_of_path(path, columns) in allowed
        )
    set_output_data_version(context, info.key, _NO_ROWS if newest is None else newest.completion_time)
    context.add_output_metadata({"hudi/nothing_written": _WHY_NOTHING})


def _partitions_of(
    context: dg.InputContext, info: HudiAssetInfo | None, wanted: Mapping[str, Any]
) -> HudiPartitions | None:
    """Return the partitions of an input as partitions of the input's table; None if the input has no partitions.

    Raises `InvalidOptionError` if the partition columns are unknown, because the input would then be the complete table.
    """
    if not context.has_asset_partitions:
        return None
    if info is not None and info.partitions is not None:
        return info.partitions
    if columns := names(wanted.get("partition_by")):
        return HudiPartitions.of(context.asset_partitions_def, columns, fmt=wanted.get("fmt"))
    raise definition_error(
        f"The asset {context.asset_key.to_user_string()} has partitions, but its metadata does not name the partition columns of its table",
        "Name them in the input: dg.AssetIn(metadata={'partition_by': 'column'}), one column for each dimension; or describe the asset with "
        "hudi_external_asset(partitions=...) or metadata=hudi_metadata(record_key='id', partition_by='column').",
    )


def _conditions(
    context: dg.InputContext, partitions: HudiPartitions | None, given: Any, schema: pa.Schema
) -> dict[str, Any]:
    """Return the scan arguments for the input's condition and for the set of partitions that the input needs."""
    if partitions is None:
        return {"where": given}
    owned = condition_of(partitions.columns, partitions.values(context.asset_partition_keys), schema)
    if owned.expression is None or given is None:
        where = given if owned.expression is None else owned.expression
    elif isinstance(given, str):
        raise definition_error(
            "A condition as SQL text cannot be combined with partitions of several columns or of nulls",
            "Pass where= as a pyarrow expression.",
        )
    else:
        where = owned.expression & given
    return {"where": where, "semi_join": owned.semi_join}
