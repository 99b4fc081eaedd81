"""Erasure deletes rows and all traces of their keys in the files of the table; a report with digests proves this.

``run`` deletes the rows, compacts the logs, deletes every older file slice and every file without an owner, builds the metadata table again, and
examines all remaining files (``repairs/erasure_proof.py``). Each step is a separate commit or service. So if the process dies between two steps, the
table is correct, and the next run continues.

Older states cannot be read afterwards. So an erasure is refused, before anything is written, if savepoints, slow readers
(``pyhudi.clean.keep.seconds``) or pending instants need older states. `ErasureRefusedError` names them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import pyarrow as pa

from pyhudi_core.argument_types import OfTable
from pyhudi_core.engine.local import as_table
from pyhudi_core.errors import ErasureRefusedError, InvalidOptionError, UnsupportedTableError, columns_named
from pyhudi_core.metadata_table.defined_indexes import is_kept
from pyhudi_core.model.instant import Action, Instant
from pyhudi_core.model.meta_fields import with_meta_fields
from pyhudi_core.model.operation import OperationType
from pyhudi_core.model.printing import printable
from pyhudi_core.model.properties import TableType
from pyhudi_core.model.record_key import record_keys
from pyhudi_core.model.schema_cast import cast_batch
from pyhudi_core.opened_table.opened_table import reopened
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.read.lookups import key_texts, lookup, nested_keys, why_unknown_texts
from pyhudi_core.repairs.erasure_proof import ErasureProof, examine
from pyhudi_core.savepoints.hold_files import read_holds
from pyhudi_core.savepoints.savepoint_files import read_savepoints
from pyhudi_core.services.cleaning.cleaning import Cleaning, taking_all
from pyhudi_core.services.compaction.compaction import Compaction
from pyhudi_core.services.failed_writes import FailedWrites
from pyhudi_core.services.metadata.metadata_tables import MetadataTableOf
from pyhudi_core.services.progress import ServiceProgress, silent
from pyhudi_core.services.service import Figures
from pyhudi_core.services.sweep.sweep import Sweep
from pyhudi_core.timeline.active import Timeline
from pyhudi_core.transaction import plan_executors
from pyhudi_core.transaction.commit import Gate, ask_gate
from pyhudi_core.write.batch import UserRows
from pyhudi_core.write.handle import Write
from pyhudi_core.write.metadata_part import metadata_update
from pyhudi_core.write.states import WriteSpec, load

_WAYS_OUT = {
    "savepoint": "delete the savepoint (`pyhudi savepoint LOCATION delete INSTANT`)",
    "hold": "delete the hold, or wait for its end (`pyhudi hold LOCATION delete --name NAME`)",
    "pending": "let the pending instants end, or end them (`pyhudi timeline LOCATION` shows them)",
    "readers": "set pyhudi.clean.keep.seconds=0",
    "index": "drop the index (`pyhudi index LOCATION drop NAME`)",
}
"""The advice, by the first word of each name in `ErasurePlan.refused_by`."""


@dataclass(frozen=True, slots=True)
@printable
class ErasurePlan:
    """What an erasure would do; false if no file contains one of the keys.

    Attributes:
        keys: number of distinct keys.
        rows: number of rows that readers see now.
        holders: the files and other places that contain keys now.
        refused_by: names of the obstacles to the erasure.
    """

    keys: int
    rows: int
    holders: tuple[str, ...] = ()
    refused_by: tuple[str, ...] = ()

    @property
    def figures(self) -> Figures:
        """Numbers of keys, of rows, and of the places that contain them."""
        return {"keys": self.keys, "rows": self.rows, "holders": len(self.holders)}

    def __bool__(self) -> bool:
        return bool(self.holders)

    def __str__(self) -> str:
        if not self:
            return f"Nothing to erase: no file holds any of {self.keys:,} keys"
        refused = f"; refused by {', '.join(self.refused_by)}" if self.refused_by else ""
        return f"Erase {self.rows:,} rows of {self.keys:,} keys from {len(self.holders):,} places{refused}"


@dataclass(frozen=True, slots=True)
@printable
class ErasureReport:
    """The result of an erasure, and the proof; true if no key is left.

    Attributes:
        table: the location.
        keys: number of keys. ``keys_sha256`` is the digest of all texts that the keys may have in the table, sorted, one on each line.
        rows: number of deleted rows.
        instants: the requested times of the commits and services of the erasure.
        gone: deleted files that contained keys.
        proof: the examination afterwards.
        time: the time of the examination, as an instant time.
    """

    table: str
    keys: int
    keys_sha256: str
    rows: int
    instants: tuple[str, ...]
    gone: tuple[str, ...]
    proof: ErasureProof
    time: str

    def __bool__(self) -> bool:
        return bool(self.proof)

    def __str__(self) -> str:
        return f"Erased {self.rows:,} rows of {self.keys:,} keys; {len(self.gone):,} files that held them are gone. {self.proof}"

    def to_json(self) -> str:
        """Return the report as JSON, without keys. ``sha256`` is the digest of the other fields, as sorted JSON."""
        found: dict[str, Any] = {**asdict(self), "complete": bool(self)}
        text = json.dumps(found, sort_keys=True)
        return json.dumps({**found, "sha256": hashlib.sha256(text.encode()).hexdigest()}, indent=2)


@dataclass(frozen=True, slots=True)
class _Keys:
    """The keys to erase.

    Attributes:
        given: the keys in the caller's form.
        count: number of distinct keys.
        texts: every text that the keys may have in the table; a key has several if releases of Hudi write it differently.
    """

    given: pa.Table
    count: int
    texts: pa.Array

    @property
    def digest(self) -> str:
        """The digest of the sorted texts, one on each line."""
        return hashlib.sha256("\n".join(sorted(self.texts.to_pylist())).encode()).hexdigest()


@printable
class Erasure(OfTable):
    """Erases rows of one table: ``plan(keys)``, ``run(keys)`` and ``verify(keys)``. ``keys`` hold the key columns, as for `HudiTable.lookup`."""

    _METHODS: ClassVar[str] = ".run(keys), or .plan(keys) to see before what it does"

    def __init__(self, context: TableContext) -> None:
        self.context = context

    def plan(self, keys: object) -> ErasurePlan:
        """Return what an erasure would erase now, and its obstacles. Reads the keys of every file, and changes nothing.

        Raises `UnsupportedTableError` for tables with change logs, without meta columns, or with keys whose text is not known, and
        `InvalidOptionError` for no keys.
        """
        found = self._keys(keys)
        rows, proof = self._rows(self.context, found).num_rows, self._examined(self.context, found)
        holders = (*proof.found, *proof.unread)
        return ErasurePlan(found.count, rows, holders, self._refused_by(frozenset(holders)))

    def verify(self, keys: object) -> ErasureProof:
        """Say whether a file, an index or the history of the table contains one of the keys now. Raises as `plan`."""
        return self._examined(self.context, self._keys(keys))

    def run(
        self,
        keys: object,
        spark: Any = None,
        gate: Gate | None = None,
        extra_metadata: Mapping[str, str] | None = None,
        *,
        progress: ServiceProgress | None = None,
    ) -> ErasureReport:
        """Delete the rows and all copies of their keys, and examine the table. If the report is false, the erasure is incomplete: `proof` lists the
        remaining places.

        ``gate`` is called before the first write and before each step, see `Execution`; ``extra_metadata`` goes into the commits of all steps;
        ``progress`` is called with each step, and with the progress of its service. Raises `ErasureRefusedError` before anything is written, and the
        errors of the steps; then call it again.
        """
        planned, wanted = self.plan(keys), self._keys(keys)
        if planned.refused_by:
            raise ErasureRefusedError(
                f"Older states are promised, so the keys cannot be erased: {', '.join(planned.refused_by)}",
                table=self.context.table,
                hint=f"{_ways_out(planned.refused_by)}; then erase again. Nothing was written.",
            )
        ask_gate(gate, self.context, "to erase rows")
        # If a process died after its clean had deleted the last file with a key, that clean must be finished.
        begun = Cleaning(self.context).take_over().instants if not planned else ()
        instants = (
            self._steps(wanted, spark, gate, extra_metadata or {}, progress or silent)
            if planned
            else [i.requested_time for i in begun]
        )
        (progress or silent)("examine files", 0, 0)
        context = reopened(self.context)
        proof = self._examined(context, wanted)
        left = {file.path for file in proof.files}
        gone = tuple(path for path in planned.holders if path not in left)
        return ErasureReport(
            context.table, wanted.count, wanted.digest, planned.rows, tuple(instants), gone, proof, context.now()
        )

    def _steps(
        self, keys: _Keys, spark: Any, gate: Gate | None, extra: Mapping[str, str], progress: ServiceProgress
    ) -> list[str]:
        """Delete, compact, clean, sweep, and build the metadata table again. The gate is asked before each step."""
        # Work that an earlier erasure had begun when its process died. (Work of a living process has refused this erasure.)
        FailedWrites(self.context).run(spark, gate, progress=progress)
        rows = self._rows(self.context, keys)
        done = []
        progress("delete rows", 0, len(rows))
        if len(rows):
            with Write(WriteSpec(self.context, OperationType.DELETE, extra, spark)) as write:
                done.append(write.until_committed(UserRows(rows), gate).instant)
        if self.context.config.table_type is TableType.MERGE_ON_READ:
            compacted = Compaction(taking_all(reopened(self.context))).run(spark, gate, extra, progress=progress)
            done += [instant.requested_time for instant in compacted.instants]
        cleaned = Cleaning(taking_all(reopened(self.context))).run(spark, gate, extra, progress=progress)
        done += [instant.requested_time for instant in cleaned.instants]
        Sweep(taking_all(reopened(self.context))).run(spark, gate, extra, progress=progress)
        metadata = MetadataTableOf(reopened(self.context))
        if metadata.partitions:
            # Not between the removal and the new one: the table would remain without a metadata table.
            ask_gate(gate, self.context, "to make the metadata table anew")
            progress("make the metadata table anew", 0, 0)
            metadata.rebuild(spark)
        return [time for time in done if time]

    def _rows(self, context: TableContext, keys: _Keys) -> pa.Table:
        """Return the key and partition columns of the rows that readers see now."""
        config = context.config
        columns = list(config.naming_fields)
        return lookup(context, keys.given, columns).to_arrow()

    def _examined(self, context: TableContext, keys: _Keys) -> ErasureProof:
        """Return the places that contain keys.

        Raises `UnsupportedTableError` for readable rows that were found in no file: then the table writes its keys as other texts than the searched
        ones.
        """
        proof = examine(context, keys.texts)
        rows = self._rows(context, keys).num_rows if proof else 0
        if rows and (proof := examine(context, keys.texts)):  # not a row that a writer has written just now
            raise UnsupportedTableError(
                f"{rows} rows of the keys can be read, and no file seems to hold their keys: the table stores them in a form that is not known here",
                table=context.table,
                hint="Nothing is proved. Compare _hoodie_record_key of these rows with the keys.",
            )
        return proof

    def _keys(self, keys: object) -> _Keys:
        """Return the keys with their texts. Raises as `plan`."""
        config, schema = self.context.config, load(self.context).schema
        _refuse_unprovable(self.context, schema)
        given = as_table(keys)
        names = [name for name in config.identifying_fields if name in given.schema.names]
        if not given.num_rows or len(names) < len(config.identifying_fields):
            raise InvalidOptionError(
                f"The keys to erase need rows and the columns {', '.join(config.identifying_fields)}",
                table=self.context.table,
                hint=f"For example pa.table({{{config.identifying_fields[0]!r}: [...]}}).",
            )
        wanted = pa.schema([with_meta_fields(schema).field(name) for name in names])
        [batch] = given.select(names).combine_chunks().to_batches()
        typed = cast_batch(batch, wanted)
        return _Keys(given, len(record_keys(typed, config).unique()), key_texts(typed, config))

    def _refused_by(self, holders: frozenset[str]) -> tuple[str, ...]:
        """Return the obstacles: savepoints, readers and instants that need the files with keys."""
        context, timeline = self.context, self.context.folder.load()
        saved = [
            f"savepoint {savepoint.instant}"
            for savepoint in read_savepoints(context.folder, timeline)
            if holders & savepoint.paths
        ]
        ended = _ended_by_steps(context, timeline)
        pending = [f"pending {i.action} {i.requested_time}" for i in timeline.pending if i not in ended]
        seconds = context.options.cleaning.keep_seconds
        readers = [f"readers of the last {seconds} seconds (pyhudi.clean.keep.seconds)"] if seconds else []
        foreign = [name for name in sorted(context.config.metadata_partitions) if not is_kept(name)]
        indexes = [f"index {name}, which cannot be made anew" for name in foreign]
        undefined = metadata_update.why_undefined(context, load(context).schema)
        unfit = [f"index {undefined}"] if undefined and not indexes else []
        held = [f"hold {hold.name}" for hold in read_holds(context).lasting if holders & hold.paths]
        return (*saved, *held, *pending, *readers, *indexes, *unfit) if holders else ()


def _ways_out(refused_by: Iterable[str]) -> str:
    """Return the advice for each kind of obstacle."""
    kinds = dict.fromkeys(name.partition(" ")[0] for name in refused_by)
    text = ", and ".join(_WAYS_OUT[kind] for kind in kinds)
    return f"{text[:1].upper()}{text[1:]}"


def _refuse_unprovable(context: TableContext, schema: pa.Schema) -> None:
    """Raise `UnsupportedTableError` for a table in which it cannot be proved that a key is gone."""
    config = context.config
    why = ""
    if config.cdc_enabled:
        why = "writes change logs, which hold deleted rows"
    elif not config.populate_meta_fields:
        why = "does not store record keys"
    elif nested := nested_keys(config, schema):
        why = f"has keys in the nested {columns_named(nested)}"
    elif unknown := why_unknown_texts(config, schema):
        why = f"has {unknown}"
    if why:
        raise UnsupportedTableError(
            f"Keys cannot be erased from a table that {why}",
            table=context.table,
            hint="Rewrite the table without the rows, into a new one.",
        )
    if config.bootstrap_base_path is not None:
        raise UnsupportedTableError(
            "Keys cannot be erased from a bootstrapped table: its source keeps the rows (hoodie.bootstrap.base.path)",
            table=context.table,
            path=config.bootstrap_base_path,
            hint="Rewrite the table without the rows, into a new one, and delete the source.",
        )


def _ended_by_steps(context: TableContext, timeline: Timeline) -> frozenset[Instant]:
    """Return the pending instants that an erasure ends: it rolls back dead writes, and executes compactions and cleans without an executor."""
    dead = FailedWrites(context).plan()
    plans = (i for i in timeline.pending if i.action in (Action.COMPACTION, Action.CLEAN))
    return frozenset((*dead.writes, *dead.rollbacks, *(i for i in plans if plan_executors.is_free(context, i))))
