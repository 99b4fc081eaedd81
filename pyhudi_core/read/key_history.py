"""The history of one record key: the commits that inserted, updated or deleted its row, and the changes.

A commit changed the key if, in one of its file groups, the key's row after the commit differs from the row before it (`changes`). So a row that was
only copied, by a compaction, a clustering or the update of another row, does not count. The search starts at the newest commit, and ends where
cleaning or archival has removed the files (`KeyHistory.known_from`).

Few files are read: the range and the bloom filter of each base file show whether it can have the key, and with simple buckets the hash of the key
selects the file group. Memory is bounded by one file group, as in a scan.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from pyhudi_core.errors import InvalidOptionError, ObjectNotFoundError, SnapshotExpiredError, UnsupportedTableError
from pyhudi_core.index.bucket import Hashing
from pyhudi_core.merge.merged_slice import Merging
from pyhudi_core.model.commit import BUCKETS_KEY, CommitMetadata
from pyhudi_core.model.instant import Instant, time_before
from pyhudi_core.model.meta_fields import COMMIT_TIME, RECORD_KEY
from pyhudi_core.model.printing import printable
from pyhudi_core.naming import set_module
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.read.change_feed import Group, changes_of, changes_rows, view_at
from pyhudi_core.read.changes import DELETE, INSERT, ChangeReader, GroupChange
from pyhudi_core.read.differences import differing
from pyhudi_core.read.history_rows import moment, writer_of
from pyhudi_core.read.lookups import key_texts, nested_keys, why_unknown_texts
from pyhudi_core.read.retention import refuse_cleaned
from pyhudi_core.read.snapshots import archived_between, make_scan
from pyhudi_core.snapshot.snapshot import Snapshot, build
from pyhudi_core.transaction import lost_completions

_NAMES = {INSERT: "inserted", DELETE: "deleted"}
_EARLIER = "written"


@set_module("pyhudi")
@dataclass(frozen=True, slots=True)
@printable
class KeyHistory:
    """The changes of one record key by commits.

    Attributes:
        key: the record key as Hudi stores it.
        rows: one row for each commit that changed the key, newest first: instant, completion_time, completed, operation, action, changed (the columns
            whose values differ), before, after, user, host, program, run. ``action`` is inserted, updated or deleted; the last row may be
            ``written``: the commit wrote the row, and the row before it is no longer known.
        known_from: the requested time of the oldest examined commit; empty if the table has no commit.
        note: which part of the history is lost, and why. Empty if every commit was examined.
    """

    key: str
    rows: pa.Table
    known_from: str = ""
    note: str = ""

    def __bool__(self) -> bool:
        return self.rows.num_rows > 0

    def __str__(self) -> str:
        known = f"; {self.note}" if self.note else ""
        return f"{self.rows.num_rows:,} commits touched the key {self.key}{known}"


def key_history(context: TableContext, key: object) -> KeyHistory:
    """Return the commits that inserted, updated or deleted the row of a key.

    ``key`` is the value of the key column, or its text. For several key columns it is a mapping, or the record key as Hudi stores it. Raises
    `InvalidOptionError` for a value that cannot be a key of the table. Raises `UnsupportedTableError` for a table that stores no record keys, and for
    values if this package does not know how the table makes keys from them.
    """
    timeline = lost_completions.load(context)
    last = build(context.storage, context.folder, context.config, timeline, None, executor=context.runtime.executor)
    texts = _texts(context, last, key)
    reader = ChangeReader(
        tuple(last.schema.names), last.schema, None, Merging(context.config, last.evolution), keys=texts
    )
    found: list[dict[str, Any]] = []
    oldest, note = "", ""
    looked: Instant | None = None
    for instant in reversed(last.visibility.commits):
        commit = context.folder.read_commit(instant)
        if changes_rows(commit):
            try:
                found += _touched(context, last, reader, instant, commit)
            except (SnapshotExpiredError, ObjectNotFoundError):
                note = f"what commits{oldest and f' before {oldest}'} did is not known: files that they changed were cleaned"
                break
        looked, oldest = instant, instant.requested_time
    if not note and any(archived_between(context, last, "")):
        note = f"what commits{oldest and f' before {oldest}'} did is not known: they were archived"
    if note:
        found += _earlier(context, last, texts, looked, {row["instant"] for row in found})
    return KeyHistory(texts[0].as_py(), pa.Table.from_pylist(found, _schema(last.schema)), oldest, note)


def _schema(columns: pa.Schema) -> pa.Schema:
    row = pa.struct([field.with_nullable(True) for field in columns])
    texts = [(name, pa.string()) for name in ("user", "host", "program", "run")]
    return pa.schema(
        [
            ("instant", pa.string()),
            ("completion_time", pa.string()),
            ("completed", pa.timestamp("ms", "UTC")),
            ("operation", pa.string()),
            ("action", pa.string()),
            ("changed", pa.list_(pa.string())),
            ("before", row),
            ("after", row),
            *texts,
        ]
    )


def _texts(context: TableContext, state: Snapshot, key: object) -> pa.Array:
    """Return every text that the key may have in the table."""
    config, hint = (
        context.config,
        "Read its changes with table.changes(where=...), or its row with table.scan(where=...).",
    )
    if not config.populate_meta_fields:
        raise UnsupportedTableError(
            "The table stores no record keys, so a key cannot be followed", table=context.table, hint=hint
        )
    names = config.record_key_fields
    stored = f"the record key as the table stores it, in the column {RECORD_KEY}"
    if isinstance(key, str) and (config.generates_keys or len(names) > 1):
        if not re.match(",".join(f"{re.escape(name)}:.*" for name in names), key, re.DOTALL):
            raise InvalidOptionError(
                f"{key!r} is no record key of this table",
                table=context.table,
                hint=f"Give {stored}, which looks like {','.join(f'{name}:...' for name in names)!r}.",
            )
        return pa.array([key])
    unknown = why_unknown_texts(config, state.schema) or ", ".join(nested_keys(config, state.schema))
    if unknown:
        hint = f"Give {stored}. Or {hint[0].lower()}{hint[1:]}" if len(names) > 1 else hint
        raise UnsupportedTableError(
            f"A key cannot be followed by its values in a table with {unknown}", table=context.table, hint=hint
        )
    values: Mapping[str, object] = (
        key if isinstance(key, Mapping) else dict.fromkeys(names, key) if len(names) == 1 else {}
    )
    if set(values) != set(names) or None in values.values():
        raise InvalidOptionError(
            f"{key!r} does not give a value of each key column",
            table=context.table,
            hint=f"The key columns are {', '.join(names)}; for example {{{', '.join(f'{name!r}: ...' for name in names)}}}.",
        )
    try:
        columns = [_typed(values[name], state.schema.field(name).type) for name in names]
    except (pa.ArrowException, TypeError, OverflowError, UnicodeError) as error:
        kinds = ", ".join(f"{name} ({state.schema.field(name).type})" for name in names)
        raise InvalidOptionError(
            f"{key!r} is no key of this table", table=context.table, hint=f"Give a value of {kinds}."
        ) from error
    return key_texts(pa.record_batch(columns, list(names)), config)


def _typed(value: object, kind: pa.DataType) -> pa.Array:
    """Return a value, or the value of its text, in the type of a key column."""
    return pa.array([value]).cast(kind) if isinstance(value, str) else pa.array([value], kind)


def _touched(
    context: TableContext, last: Snapshot, reader: ChangeReader, instant: Instant, commit: CommitMetadata
) -> list[dict[str, Any]]:
    """Return the changes of the key by a commit: none, one row, or one row for each partition with the key."""
    wanted = _bucket_of(commit, reader.keys, context.config.record_key_fields)
    groups = list(changes_of(context, last, instant, commit, wanted, by_logs=False))

    def read(change: GroupChange) -> list[pa.RecordBatch]:
        return list(reader.read(context.storage, change))

    batches = [batch for read_ones in context.runtime.executor.map(read, groups) for batch in read_ones]
    changes = pa.Table.from_batches(batches, reader.result_schema)
    rows = [(row["op"], row["before"], row["after"]) for row in changes.to_pylist()]
    if sorted(op for op, _, _ in rows) == [DELETE, INSERT]:
        # The row moved to another file group, or an overwrite wrote it again.
        gone, come = sorted(rows, key=lambda row: row[0])
        rows = [("u", gone[1], come[2])]
    said = {**_when(context, instant), "operation": commit.operation, **writer_of(commit)}
    kinds = reader.schema
    return [
        {**said, "action": _NAMES.get(op, "updated"), "changed": _changed(before, after, kinds), "before": before, "after": after}
        for op, before, after in rows
    ]  # fmt: skip


def _bucket_of(commit: CommitMetadata, keys: pa.Array | None, names: tuple[str, ...]) -> Callable[[Group], bool]:
    """Return a function that says which file groups of a commit can have the key. With simple buckets: the file groups of one number."""
    number, _, fields = commit.extra.get(BUCKETS_KEY, "").partition(":")
    if keys is None or len(keys) != 1 or not number.isdecimal():
        return lambda _: True
    bucket = Hashing(int(number), names, tuple(fields.split(","))).of(keys)[0]
    replaced = {(partition, file_id) for partition, ids in commit.replaced.items() for file_id in ids}
    return lambda group: group in replaced or group[1].startswith(f"{bucket:08d}-")


def _changed(before: Mapping[str, Any] | None, after: Mapping[str, Any] | None, schema: pa.Schema) -> list[str]:
    """Return the columns whose values differ; if there is only one row, the columns with a value."""
    if before is None or after is None:
        row = before or after or {}
        return [name for name, value in row.items() if value is not None]
    nullable = pa.schema([field.with_nullable(True) for field in schema])
    old, new = (pa.Table.from_pylist([row], nullable) for row in (before, after))
    return [name for name in schema.names if differing(old.select([name]), new.select([name]))[0]]


def _earlier(
    context: TableContext, last: Snapshot, texts: pa.Array, looked: Instant | None, known: Iterable[str]
) -> list[dict[str, Any]]:
    """Return the commit that wrote the row before the oldest examined commit; the row itself names it. Empty if no such state can be read."""
    rows = _oldest_rows(context, last, texts, looked)
    if rows is None:
        return []
    times = rows.column(COMMIT_TIME).to_pylist()
    values = rows.select(last.schema.names).to_pylist()
    timeline = last.timeline
    found = []
    for time, row in zip(times, values, strict=True):
        if time not in known:
            instant = next((i for i in timeline.commits if i.requested_time == time), None)
            instant = instant or context.folder.archived(timeline, time)
            when = {"instant": time} if instant is None else _when(context, instant)
            found.append({**when, "action": _EARLIER, "changed": [], "after": row})
    return found


def _oldest_rows(context: TableContext, last: Snapshot, texts: pa.Array, looked: Instant | None) -> pa.Table | None:
    """Return the rows of the key before a commit, or with the commit if its files replace cleaned ones. None if neither state can be read."""
    completed = "" if looked is None else looked.completion_time or looked.requested_time
    for bound in (time_before(completed), completed) if completed else (None,):
        state = last if bound is None else replace(last, bound=bound, view=view_at(context, last, bound))
        try:
            refuse_cleaned(state, context.table)
            return make_scan(context, state, None, None, keys=texts).to_arrow()
        except (SnapshotExpiredError, ObjectNotFoundError):
            continue
    return None


def _when(context: TableContext, instant: Instant) -> dict[str, Any]:
    completion = instant.completion_time or instant.requested_time
    return {
        "instant": instant.requested_time,
        "completion_time": completion,
        "completed": moment(completion, utc=context.utc),
    }
