"""Remove the rows that `duplicates` found, in one commit: a delete with a file group for each key.

The commit is an ordinary write (`write/write.py`), but its rows already have their tags. If another writer changes one of the file groups in the
meantime, even a file group whose copies stay, the duplicates are searched again. After the commit, the record index names the file group of the
remaining copy.
"""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from pyhudi_core.argument_types import OfTable
from pyhudi_core.engine.base import Engine
from pyhudi_core.engine.choice import engine_for
from pyhudi_core.errors import UnsupportedTableError
from pyhudi_core.index.base import POSITION, TAG_FILE_ID, TAG_PARTITION, TAG_POSITION, TAGS
from pyhudi_core.model.commit import DUPLICATES_REPAIR, REPAIR_KEY
from pyhudi_core.model.meta_fields import PARTITION_PATH, RECORD_KEY
from pyhudi_core.model.operation import OperationType
from pyhudi_core.model.printing import printable
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.repairs.duplicates import DuplicatePlan, find_duplicates
from pyhudi_core.services.registry import following
from pyhudi_core.snapshot.snapshot import Snapshot
from pyhudi_core.write import cases, refusals, states
from pyhudi_core.write.batch import RowsWithTags, Search
from pyhudi_core.write.handle import Write
from pyhudi_core.write.plan import Volume
from pyhudi_core.write.prepare import Prepared, prepared_schema
from pyhudi_core.write.result import Commit
from pyhudi_core.write.tasks import KEY_CHANGES

_OPERATION = OperationType.DELETE
_KEY_BYTES = 32


@printable
class Duplicates(OfTable):
    """Record keys that a partition has in several file groups: ``plan()`` reads, ``run()`` removes all copies but one."""

    _METHODS: ClassVar[str] = ".run(), or .plan() to see before what it does"

    def __init__(self, context: TableContext) -> None:
        self.context = context

    def plan(self) -> DuplicatePlan:
        """Return what would be removed now. Changes nothing."""
        return find_duplicates(self._loaded(), self.context.storage)

    def run(self, spark: Any = None) -> Commit:
        """Remove the surplus rows in one commit. If there are none, the result is false, with a reason. Raises `CommitError` as a write does."""
        plan = self.plan()
        if not plan:
            return Commit.nothing(str(_OPERATION), plan.why_not, plan.snapshot.completion_time)
        engine = engine_for(None, self.context.runtime.executor, spark)
        extra = {REPAIR_KEY: DUPLICATES_REPAIR}
        # A record index cannot be built while there are duplicates, so no metadata table is made before.
        after = following(self.context)
        request = states.WriteSpec(self.context, _OPERATION, extra, spark, makes_metadata_table=False, after=after)
        with Write(request) as write:
            return write.until_committed(Search(engine, partial(self._found, engine)))

    def _loaded(self) -> Snapshot:
        snapshot = states.load(self.context)
        if not snapshot.config.populate_meta_fields:
            raise UnsupportedTableError(
                "The table has no meta columns, by which the copies of a row are distinguished",
                table=self.context.table,
                hint="Rewrite it without the duplicates (insert_overwrite).",
            )
        refusals.before_rows(cases.in_state(cases.of_call(self.context, _OPERATION), self.context, snapshot))
        return snapshot

    def _found(self, engine: Engine, snapshot: Snapshot) -> RowsWithTags:
        """Return the keys to delete from this state of the table, tagged as by an index."""
        plan = find_duplicates(snapshot, self.context.storage)
        if not plan:
            return RowsWithTags(why_not=plan.why_not)
        stays = plan.surplus.group_by(["partition", "kept"]).aggregate([])
        groups = zip(stays["partition"].to_pylist(), stays["kept"].to_pylist(), strict=True)
        return RowsWithTags(_prepared(plan, engine), frozenset(groups), _key_changes(plan))


def _prepared(plan: DuplicatePlan, engine: Engine) -> Prepared:
    """Return the keys to delete, tagged as an index would tag them."""
    surplus, count = plan.surplus, len(plan.surplus)
    columns = {
        RECORD_KEY: surplus["key"],
        PARTITION_PATH: surplus["partition"],
        POSITION: pa.array(np.arange(count)),
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
    return Prepared(engine.dataset(rows), plan.snapshot.schema, volumes)


def _key_changes(plan: DuplicatePlan) -> pa.Table:
    """Return the changes of the keys: each key leaves some file groups, and stays in the file group with the remaining copy."""
    surplus, count = plan.surplus, len(plan.surplus)
    places = surplus.select(["key", "partition", "kept"]).group_by(["key", "partition", "kept"]).aggregate([])
    left = pa.table(
        [surplus["key"], surplus["partition"], surplus["file_id"], pa.repeat(True, count)], schema=KEY_CHANGES
    )
    stays = [places["key"], places["partition"], places["kept"], pa.repeat(False, len(places))]
    return pa.concat_tables([left, pa.table(stays, schema=KEY_CHANGES)])
