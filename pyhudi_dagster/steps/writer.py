"""Writes the rows of an asset into its table: one commit, or none for an empty batch. Used by the decorator and the IO manager."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import dagster as dg
import pyarrow as pa

import pyhudi as hudi
from pyhudi.errors import PreCommitError, SchemaMismatchError, TableNotFoundError
from pyhudi_core import orchestration
from pyhudi_core.orchestration import data as data_kinds
from pyhudi_core.orchestration import incremental, past_commits
from pyhudi_core.orchestration.errors import ForeignRowsError
from pyhudi_core.orchestration.partition_values import Value, value_of_path
from pyhudi_core.orchestration.settings import HudiWrite
from pyhudi_dagster.lake.info import HudiAssetInfo
from pyhudi_dagster.lake.resource import HudiLakeResource
from pyhudi_dagster.steps import runner
from pyhudi_dagster.steps.returned import giver
from pyhudi_dagster.steps.runner import Step
from pyhudi_dagster.timeline.identity import RUN_ID
from pyhudi_dagster.timeline.reported_commits import reported_until

_NAMED = 5


@dataclass(frozen=True, slots=True)
class CompletedCommit:
    """A completed commit of this attempt, or of an earlier run that died before its event.

    Times are in seconds; lock figures and descriptions of columns exist only for commits of this step.
    """

    table: hudi.HudiTable
    commit: past_commits.PastCommit
    adopted: bool = False
    write_seconds: float = 0.0
    commit_seconds: float = 0.0
    lock_wait: float = 0.0
    lock_held: float = 0.0
    retries: int = 0
    foreign: tuple[Value, ...] = field(default=())
    changes: tuple[incremental.Changes, ...] = ()
    descriptions: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """Whether the commit wrote no file, and only stores positions of read changes. It gets no materialization, and no new data version."""
        return self.commit.metadata.is_empty


@dataclass(frozen=True, slots=True)
class _Asked:
    """The requested write of a step, and its table."""

    lake: HudiLakeResource
    info: HudiAssetInfo
    request: HudiWrite
    step: Step
    changes: Sequence[incremental.Changes]


def adopted(lake: HudiLakeResource, info: HudiAssetInfo, step: Step) -> CompletedCommit | None:
    """Return the commit that this attempt has already made. Raises `TableError` for a read-only table, before a function computes rows."""
    table = existing(lake, info)
    if table is None:
        return None
    found = runner.adopted(step, table)
    if found is None:
        orchestration.refuse_only_read(table)
        return None
    return _found(table, info, step, found)


def unreported(lake: HudiLakeResource, info: HudiAssetInfo, step: Step) -> CompletedCommit | None:
    """Return the newest commit of the asset for the step's partitions, if no event reports it, because an earlier run died before the event.

    Only commits after the commit in the newest event are read.
    """
    table = existing(lake, info)
    if table is None or step.instance is None or step.run is None:
        return None
    after = reported_until(step.instance, info.key, step.partition_keys)
    found = past_commits.newest_with_rows(table, RUN_ID, step.identity.concerns, after)
    if found is None:
        return None
    step.log.info("no event reports the commit %s of an earlier run; adopted", found.instant.requested_time)
    return _found(table, info, step, found)


def _found(table: hudi.HudiTable, info: HudiAssetInfo, step: Step, commit: past_commits.PastCommit) -> CompletedCommit:
    # A writer that shares a commit has rows only in its own partitions.
    foreign = () if orchestration.is_shared(commit) else _foreign(info, step, commit.metadata.partitions)
    return CompletedCommit(table, commit, adopted=True, foreign=foreign)


def existing(lake: HudiLakeResource, info: HudiAssetInfo) -> hudi.HudiTable | None:
    """Return the table of the asset, with the asset's options, or None if the table does not exist yet."""
    try:
        return lake.table(info.table, info.settings)
    except TableNotFoundError:
        return None


def write(
    lake: HudiLakeResource,
    info: HudiAssetInfo,
    request: HudiWrite,
    step: Step,
    changes: Sequence[incremental.Changes] = (),
) -> CompletedCommit | None:
    """Make one commit, with the positions of the changes that it processes.

    For an empty batch, make a commit with only the positions if the inputs have new commits; otherwise make no commit and return None.
    """
    with orchestration.new_tables() as new:
        prepared = prepare(lake, info, request, step, changes, new)
        return prepared.publish() if prepared is not None else None


def prepare(
    lake: HudiLakeResource,
    info: HudiAssetInfo,
    request: HudiWrite,
    step: Step,
    changes: Sequence[incremental.Changes],
    new: list[hudi.HudiTable],
) -> PreparedCommit | None:
    """Prepare the commit of `write`, before anything is written; None if there is nothing to write. A table that is created is added to ``new``."""
    asked = _Asked(lake, info, request, step, changes)
    if request.operation == "delete_partitions":
        return _deletion(asked)
    empties = request.operation == "insert_overwrite_table"  # as in the core, an empty batch empties the table
    rows = data_kinds.normalised(request.data, giver(), keep_empty=empties, known=partial(_columns_of, lake, info))
    if rows is None:
        return _advance(asked)
    _refuse_without_partition(info, step, rows)
    allowed = values_of(info, step)
    if allowed is not None and info.partitions is not None and info.on_foreign_rows == "drop":
        found = data_kinds.only_values(rows, info.partitions.columns, allowed)
        rows = data_kinds.normalised(found, giver(), keep_empty=empties)
        if rows is None:
            own = ", ".join(sorted("/".join(value) for value in allowed)[:_NAMED])
            step.log.warning(
                "%s: no row belongs to the run's partitions (%s), so all rows were omitted", info.table, own
            )
            return _advance(asked)
    table = lake.table_or_new(info.table, info.settings, rows.schema, request.operation, new)
    described = data_kinds.descriptions_of(rows.schema)
    prepared = PreparedCommit.of(asked, table, lambda begun: begun.write(rows), advances=True, descriptions=described)
    prepared.rows = rows
    return prepared


def _refuse_without_partition(info: HudiAssetInfo, step: Step, rows: Any) -> None:
    """Raise `SchemaMismatchError` for rows without a partition column: neither Dagster nor the table fills this column from the run's partition."""
    there = {
        name.lower() for name in rows.schema.names
    }  # if a name differs only in case, the core says which column is meant
    missing = [name for name in info.partitions.columns if name.lower() not in there] if info.partitions else []
    if missing:
        own = ", ".join("/".join(value) for value in sorted(values_of(info, step) or ())[:_NAMED])
        raise SchemaMismatchError(
            f"The rows of {info.key.to_user_string()} have no column {missing[0]!r}, which says to which partition a row belongs",
            table=info.table,
            hint=f"Add the column to the rows{f'; its value in this run is {own}' if own else ''}. It comes from context.partition_key.",
        )


def _columns_of(lake: HudiLakeResource, info: HudiAssetInfo) -> pa.Schema | None:
    """Return the existing or declared columns of the table; None if the columns are unknown."""
    table = existing(lake, info)
    if table is not None:
        return table.schema
    return info.settings.schema if isinstance(info.settings.schema, pa.Schema) else None


def values_of(info: HudiAssetInfo, step: Step) -> frozenset[Value] | None:
    """Return the partition values that the step may write; None if the step may write all partition values."""
    if info.partitions is None or not step.partition_keys:
        return None
    return info.partitions.values(step.partition_keys)


def _deletion(asked: _Asked) -> PreparedCommit | None:
    info, step = asked.info, asked.step
    table = existing(asked.lake, info)
    if table is None:
        return None
    paths = asked.request.data
    if paths is None:
        wanted = values_of(info, step) or frozenset()
        columns = info.partitions.columns if info.partitions else ()
        paths = [path for path in table.snapshot().view.partitions() if value_of_path(path, columns) in wanted]
    dropped = tuple(paths) if isinstance(paths, Iterable) and not isinstance(paths, str | bytes) else paths
    if dropped == ():
        return _advance(asked)
    return PreparedCommit.of(asked, table, lambda begun: begun.drop(dropped))


def _advance(asked: _Asked) -> PreparedCommit | None:
    """Return a commit with only the positions of changes without rows, so that these changes are not read again."""
    info, step, request = asked.info, asked.step, asked.request
    if not any(asked.changes):
        return None
    schema = info.settings.schema if info.settings.schema is not None else data_kinds.schema_of(request.data)
    table = existing(asked.lake, info)
    if table is None and schema is not None:
        table = asked.lake.table_or_new(info.table, info.settings, schema)
    if table is None:
        step.log.info(
            "%s: no rows, and no table yet that could store the position; the next run reads the changes again",
            info.table,
        )
        return None
    step.log.info("%s: no rows to write; the commit contains only the position", info.table)
    nothing = replace(asked, request=HudiWrite(None, "upsert", request.extra_metadata))
    return PreparedCommit.of(nothing, table, lambda begun: begun.write(None), allow_empty=True)


@dataclass(slots=True)
class PreparedCommit:
    """A prepared commit.

    ``advances``: if there is nothing to change, a commit with only the positions follows. ``rows``: the rows of the write, if the write has rows.
    """

    asked: _Asked
    table: hudi.HudiTable
    begun: hudi.Write
    fill: Callable[[hudi.Write], object]
    advances: bool
    descriptions: Mapping[str, str]
    foreign: tuple[Value, ...] = ()
    stage_seconds: float | None = None
    rows: Any = None

    @classmethod
    def of(
        cls,
        asked: _Asked,
        table: hudi.HudiTable,
        fill: Callable[[hudi.Write], object],
        *,
        advances: bool = False,
        allow_empty: bool = False,
        descriptions: Mapping[str, str] | None = None,
    ) -> PreparedCommit:
        """Begin the write; nothing is written yet."""
        info, request = asked.info, asked.request
        extra = _extra(table, request, asked.step, asked.changes)
        rules = list(info.pre_commit)
        begun = table.begin(
            request.operation, extra, allow_empty=allow_empty, partial=request.partial, pre_commit=rules
        )
        return cls(asked, table, begun, fill, advances, descriptions or {})

    def stage(self) -> None:
        """Write the files now, before `publish`, and raise the refusals of a commit.

        The caller must exit the context manager ``begun`` after this call. The exit rolls back a write that is not published.
        """
        started = time.monotonic()
        self.fill(self.begun)
        self._inspect()
        self.stage_seconds = time.monotonic() - started

    def refuse_unfit(self) -> None:
        """Raise the `PreCommitError` of staged rows that a validator refuses. If the table changes before the commit, the commit asks the validators
        again.
        """
        if self.asked.info.pre_commit and self.begun.instant is not None:
            verdict = self.begun.would_commit()
            if isinstance(verdict.error, PreCommitError):
                raise verdict.error

    def publish(self) -> CompletedCommit | None:
        """Make the commit; return None if there is nothing to change and no position to store."""
        fill = (lambda: self.fill(self.begun)) if self.stage_seconds is None else (lambda: None)
        share = self._share if self._may_share() else None
        return self._completed(runner.publish(self._gated(), self.table, self.begun, fill, self._inspect, share))

    def _may_share(self) -> bool:
        """Say whether other runs may commit these rows with their own rows. Only a plain upsert by a run of partitions may share a commit."""
        asked = self.asked
        is_plain = asked.request.operation == "upsert" and not asked.changes and not asked.info.pre_commit
        return (
            is_plain
            and not asked.request.partial
            and self.rows is not None
            and self.stage_seconds is None
            and values_of(asked.info, asked.step) is not None
        )

    def _share(self, gate: Callable[[], bool]) -> hudi.Commit | None:
        asked = self.asked
        return orchestration.shared_upsert(
            self.table, self.begun, self.rows, gate, lambda paths: not _foreign(asked.info, asked.step, paths)
        )

    def _gated(self) -> Step:
        asked = self.asked
        return asked.step.with_gates(*(partial(incremental.refuse_if_consumed, each) for each in asked.changes))

    def _completed(self, made: runner.Published) -> CompletedCommit | None:
        asked, staged = self.asked, self.stage_seconds
        if not made.commit:
            positions = _advance(asked) if self.advances else None
            return positions.publish() if positions is not None else None
        return CompletedCommit(
            self.table,
            orchestration.own_part(self.table, made.commit),
            write_seconds=made.write_seconds + (staged or 0.0),
            commit_seconds=made.commit_seconds,
            lock_wait=made.commit.lock_wait,
            lock_held=made.commit.lock_held,
            retries=made.commit.retries,
            foreign=self.foreign,
            changes=tuple(asked.changes),
            descriptions=self.descriptions,
        )

    def _inspect(self) -> None:
        info, step = self.asked.info, self.asked.step
        self.foreign = _foreign(info, step, frozenset(self.begun.stats.partitions))
        if self.foreign and info.on_foreign_rows == "fail":
            raise _foreign_error(self.table, info, step, self.foreign)


def publish_together(
    together: orchestration.CommitTogether, prepared: Sequence[PreparedCommit]
) -> list[CompletedCommit | None]:
    """Publish staged commits of several tables as `PreparedCommit.publish`, in one step: all or none."""
    made = runner.publish_together(together, [(each._gated(), each.table, each.begun) for each in prepared])
    return [each._completed(one) for each, one in zip(prepared, made, strict=True)]


def _extra(
    table: hudi.HudiTable, request: HudiWrite, step: Step, changes: Sequence[incremental.Changes]
) -> Mapping[str, str]:
    """Return the extra metadata: the identity of the step, the checkpoints (also the checkpoints of other inputs), and the entries of the asset."""
    return {**incremental.extra_of(table, changes), **step.identity.extra(), **request.extra_metadata}


def _foreign(info: HudiAssetInfo, step: Step, paths: frozenset[str]) -> tuple[Value, ...]:
    """Return the values outside the step's own partitions, sorted."""
    allowed = values_of(info, step)
    if allowed is None or info.partitions is None:
        return ()
    touched = {value_of_path(path, info.partitions.columns) for path in paths}
    return tuple(sorted(touched - allowed))


def refuse_foreign(table: hudi.HudiTable, info: HudiAssetInfo, step: Step, paths: frozenset[str]) -> None:
    """Raise `ForeignRowsError` if the paths of a commit are outside the step's partitions and the asset does not allow foreign rows."""
    foreign = _foreign(info, step, paths)
    if foreign and info.on_foreign_rows == "fail":
        raise _foreign_error(table, info, step, foreign)


def _foreign_error(
    table: hudi.HudiTable, info: HudiAssetInfo, step: Step, foreign: Sequence[Value]
) -> ForeignRowsError:
    named = ", ".join("/".join(value) for value in foreign[:_NAMED])
    more = f" and {len(foreign) - _NAMED} more" if len(foreign) > _NAMED else ""
    own = sorted("/".join(value) for value in values_of(info, step) or ())
    columns = "/".join(info.partitions.columns) if info.partitions else ""
    return ForeignRowsError(
        f"The data of partition {step.identity.partitions} has rows of other partitions: {columns} is {named}{more}",
        table=table.location,
        hint=f"Rows of the run have {columns} = {', '.join(own[:_NAMED])}{' ...' * (len(own) > _NAMED)}. "
        f"{_format_hint(info, step, foreign)} "
        "Filter the other rows in the asset, or set on_foreign_rows='drop' to omit them or 'allow' to write them (late data).",
    )


def _format_hint(info: HudiAssetInfo, step: Step, foreign: Sequence[Value]) -> str:
    """Return what to do if the rows have the partitions of the step, but write the values in another format."""
    definition = info.partitions.definition if info.partitions else None
    if isinstance(definition, dg.TimeWindowPartitionsDefinition) and any(
        (key,) in foreign for key in step.partition_keys
    ):
        return f"The rows have the partition key itself: set fmt={definition.fmt!r} in hudi_metadata or HudiPartitions."
    return "If only the format differs, set fmt= in hudi_metadata or HudiPartitions."
