"""The cases of the merge law (`merge_cases`) as tables: written in commits, as one batch, or as logs on base rows, then read by scans and
`changes`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

import pyhudi_core as hudi
from pyhudi_core.formats.log.blocks import BlockType, Header
from pyhudi_core.formats.log.contents import write_deletes
from pyhudi_core.model.meta_fields import META_FIELDS
from support.log_tables import append, append_block, next_time, slices
from support.merge_cases import KEY, LISTED, MARKED, ROW, Kind, Story, delete_record, rows_of
from support.tables import make, reopen

Left = dict[str, int | None]
Told = Mapping[str, Story]


def as_arrow(rows: pa.Table) -> Any:
    """The batch as Arrow data, for the local engine."""
    return rows


def by_commits(location: str, told: Told, kind: Kind, data: Callable[[pa.Table], Any] = as_arrow) -> hudi.HudiTable:
    """A copy-on-write table; each version of a row is written in a separate commit."""
    table = make(location, kind.schema, record_key="id", ordering=list(kind.names))
    for number in range(max(map(len, told.values()))):
        here = [(key, number, story[number]) for key, story in told.items() if number < len(story)]
        if rows := [entry for entry in here if entry[2].what in (ROW, MARKED)]:
            table.upsert(data(rows_of(rows, kind)))
        if keys := [key for key, _, version in here if version.what == KEY]:
            table.delete(data(pa.table({"id": keys})))
    return table


def in_one_batch(location: str, told: Told, kind: Kind, data: Callable[[pa.Table], Any] = as_arrow) -> hudi.HudiTable:
    """A copy-on-write table with the first version of each row; one upsert writes all other versions."""
    table = make(location, kind.schema, record_key="id", ordering=list(kind.names))
    table.upsert(data(rows_of([(key, 0, story[0]) for key, story in told.items()], kind)))
    rest = [(key, n, version) for key, story in told.items() for n, version in enumerate(story) if n]
    table.upsert(data(rows_of(rest, kind)))
    return table


def as_logs(location: str, told: Told, kind: Kind, mode: str = "EVENT_TIME_ORDERING") -> hudi.HudiTable:
    """A merge-on-read table with the first versions in its base file, and a log for each further version."""
    options = {"hoodie.record.merge.mode": mode}
    table = make(location, kind.schema, record_key="id", ordering=list(kind.names), options=options)
    table.upsert(rows_of([(key, 0, story[0]) for key, story in told.items()], kind))
    properties = Path(location, ".hoodie", "hoodie.properties")
    properties.write_text(properties.read_text().replace("COPY_ON_WRITE", "MERGE_ON_READ"))
    for number in range(1, max(map(len, told.values()))):
        here = [(key, number, story[number]) for key, story in told.items() if number < len(story)]
        if rows := [entry for entry in here if entry[2].what in (ROW, MARKED)]:
            table = reopen(table)
            append(table, slices(table)[0], _with_meta(rows_of(rows, kind), next_time(table)))
        for what in (KEY, LISTED):  # values of two classes do not share a delete block
            if deletes := [delete_record(key, version, kind) for key, _, version in here if version.what == what]:
                table = reopen(table)
                append_block(table, slices(table)[0], BlockType.DELETE, {Header.SCHEMA: "{}"}, write_deletes(deletes))
    return reopen(table)


def _with_meta(rows: pa.Table, instant: str) -> pa.Table:
    count = rows.num_rows
    values = {"_hoodie_commit_time": [instant] * count, "_hoodie_record_key": rows.column("id").to_pylist()}
    meta = [pa.array(values.get(name, [""] * count), pa.string()) for name in META_FIELDS]
    return pa.table([*meta, *rows.columns], names=[*META_FIELDS, *rows.column_names])


def left(table: hudi.HudiTable, told: Told) -> Left:
    """The version that a scan returns."""
    found = {row["id"]: row["version"] for row in table.scan(columns=["id", "version"]).to_arrow().to_pylist()}
    assert found.keys() <= told.keys()
    return {key: found.get(key) for key in told}


def left_by_changes(table: hudi.HudiTable, told: Told) -> Left:
    """The version that remains after all changes are applied; the `before` of each change must be the current version."""
    state: dict[str, int] = {}
    for change in table.changes(columns=["id", "version"]).to_arrow().to_pylist():
        before, after = change["before"], change["after"]
        key = (before or after)["id"]
        assert (before and before["version"]) == state.get(key), change
        if after is None:
            del state[key]
        else:
            state[key] = after["version"]
    return {key: state.get(key) for key in told}
