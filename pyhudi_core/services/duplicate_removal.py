"""Remove the rows that `duplicates` found: one commit, a delete that says for each key from which file group it goes.

The commit is written and decided as every other one. It is planned anew if another writer changed one of the file groups meanwhile, those of the
copies that stay included. The record index says afterwards where the copy that stays is.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa

from pyhudi_core.conflicts.conflict import Touched
from pyhudi_core.engine.base import Engine
from pyhudi_core.engine.choice import engine_for
from pyhudi_core.errors import UnsupportedTableError
from pyhudi_core.index.base import POSITION, TAG_FILE_ID, TAG_PARTITION, TAG_POSITION, TAGS
from pyhudi_core.model.commit import DUPLICATES_REPAIR, REPAIR_KEY, CommitMetadata
from pyhudi_core.model.meta_fields import PARTITION_PATH, RECORD_KEY
from pyhudi_core.model.operation import OperationType
from pyhudi_core.services.duplicates import DuplicatePlan, find_duplicates
from pyhudi_core.transaction.begin import Transaction, begin_write, withdraw
from pyhudi_core.transaction.context import TableContext
from pyhudi_core.transaction.rollback import repair_by_policy
from pyhudi_core.write import checks, metadata_update, states
from pyhudi_core.write.attempt import Attempt, CommitCheck, extra_of, publish
from pyhudi_core.write.pipeline import WriteJob
from pyhudi_core.write.plan import Volume
from pyhudi_core.write.prepare import Prepared, prepared_schema
from pyhudi_core.write.result import Commit, CommitStats
from pyhudi_core.write.retrying import Retries, retry
from pyhudi_core.write.tasks import KEY_CHANGES, Written

_OPERATION = OperationType.DELETE
_KEY_BYTES = 32


class Duplicates:
    """Record keys that a partition has in several file groups: ``plan()`` reads, ``run()`` removes all copies but one."""

    def __init__(self, context: TableContext) -> None:
        self.context = context

    def plan(self) -> DuplicatePlan:
        """What would be removed now. Changes nothing."""
        return find_duplicates(self._loaded(), self.context.storage)

    def run(self, spark: Any = None) -> Commit:
        """Remove the surplus rows in one commit; the result is false, and says why, if there are none. Raises `CommitError` as a write does."""
        engine = engine_for(None, self.context.runtime.executor, spark)
        plan = self.plan()
        if not plan:
            return Commit.nothing(str(_OPERATION), plan.why_not, plan.snapshot.completion_time)
        with Retries(self.context) as retries:

            def attempt() -> Commit:
                retries.began()
                return self._attempt(engine, retries)

            return retry(retries, attempt)

    def _loaded(self) -> Any:
        snapshot = states.load(self.context)
        checks.refuse_unwritable(self.context, snapshot)
        if not snapshot.config.populate_meta_fields:
            raise UnsupportedTableError(
                "The table has no meta columns, by which copies of a row are told apart",
                table=self.context.table,
                hint="Write it anew without the duplicates (insert_overwrite).",
            )
        return snapshot

    def _attempt(self, engine: Engine, retries: Retries) -> Commit:
        context = self.context
        metadata_update.refuse_unkept(context)
        repair_by_policy(context, None)
        action = _OPERATION.action_on(context.config.table_type)
        transaction = begin_write(context, action, str(_OPERATION), None)
        try:
            plan = find_duplicates(states.load(context, transaction.start), context.storage)
            if not plan:
                withdraw(transaction)
                return Commit.nothing(str(_OPERATION), plan.why_not, plan.snapshot.completion_time, retries.attempts)
            check = CommitCheck.of(self._staged(transaction, plan, engine))
            published = publish(check, retries)
        except BaseException:
            states.undo(context, transaction)
            raise
        finished = published.finished
        return Commit(
            instant=transaction.requested_time,
            completion_time=finished.instant.completion_time or "",
            token=transaction.token,
            operation=str(_OPERATION),
            retries=retries.attempts,
            stats=CommitStats.of(check.attempt.metadata),
            lock_wait=finished.lock_wait,
            lock_held=finished.lock_held,
            notes=published.notes,
        )

    def _staged(self, transaction: Transaction, plan: DuplicatePlan, engine: Engine) -> Attempt:
        """Write the files of an attempt, and the metadata table's part."""
        snapshot, context = plan.snapshot, self.context
        schema = snapshot.schema
        kept = metadata_update.slices_to_keep(context, snapshot, schema)
        needs_keys = metadata_update.needs_keys(snapshot.config)
        job = WriteJob(_OPERATION, engine, _prepared(plan, engine), snapshot, transaction, needs_keys)
        written = job.run()
        if needs_keys:
            written = _with_places(written, plan, engine)
        extra = extra_of(transaction, {REPAIR_KEY: DUPLICATES_REPAIR}, snapshot, {}, schema)
        metadata = CommitMetadata(str(_OPERATION), written.stats, extra)
        stays = set(zip(plan.surplus["partition"].to_pylist(), plan.surplus["kept"].to_pylist(), strict=True))
        touched = Touched.by(metadata)
        # Nothing is written to a group whose copy stays. As for one that gets a log only, a planned compaction of it is not in the way.
        unwritten = touched.appended | (stays - touched.file_groups)
        groups = touched.file_groups | stays
        touched = replace(touched, file_groups=groups, appended=unwritten, keys_of_table=needs_keys)
        companions = metadata_update.stage(transaction, kept, snapshot, written, {}, schema, engine)
        return Attempt(transaction, snapshot, metadata, touched, schema, companions=companions)


def _prepared(plan: DuplicatePlan, engine: Engine) -> Prepared:
    """The keys to delete, as an index would have tagged them."""
    surplus, count = plan.surplus, len(plan.surplus)
    columns = {
        RECORD_KEY: surplus["key"],
        PARTITION_PATH: surplus["partition"],
        POSITION: pa.array(range(count), pa.int64()),
        TAG_PARTITION: surplus["partition"],
        TAG_FILE_ID: surplus["file_id"],
        TAG_POSITION: pa.nulls(count, pa.int64()),
    }
    schema = pa.schema([*prepared_schema(None), *TAGS])
    rows = pa.table([columns[name] for name in schema.names], schema=schema)
    counted = surplus.group_by("partition").aggregate([([], "count_all")]).to_pydict()
    volumes = {
        partition: Volume(rows, rows * _KEY_BYTES)
        for partition, rows in zip(counted["partition"], counted["count_all"], strict=True)
    }
    return Prepared(engine.dataset(rows).persist(), plan.snapshot.schema, volumes)


def _with_places(written: Written, plan: DuplicatePlan, engine: Engine) -> Written:
    """What happened to the keys: each left some file groups, and is in the one that has the copy that stays."""
    surplus, count = plan.surplus, len(plan.surplus)
    places = surplus.select(["key", "partition", "kept"]).group_by(["key", "partition", "kept"]).aggregate([])
    left = pa.table(
        [surplus["key"], surplus["partition"], surplus["file_id"], pa.repeat(True, count)], schema=KEY_CHANGES
    )
    stays = [places["key"], places["partition"], places["kept"], pa.repeat(False, len(places))]
    changes = pa.concat_tables([left, pa.table(stays, schema=KEY_CHANGES)])
    holders = frozenset(zip(places["partition"].to_pylist(), places["kept"].to_pylist(), strict=True))
    return replace(written, key_changes=engine.dataset(changes), holders=holders)
