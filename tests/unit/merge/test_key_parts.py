"""Logs that are larger than the memory for them are merged one part of the keys after the other; the rows are the same."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from support.golden import unpack
from support.homes import context_of
from support.tables import make, orders, rows

import pyhudi_core as hudi
from pyhudi_core.merge import merged_slice
from pyhudi_core.merge.key_parts import MOST_PARTS, KeyPart, parts_for
from pyhudi_core.merge.merged_slice import Merging, slice_rows
from pyhudi_core.model.meta_fields import with_meta_fields

pytestmark = pytest.mark.row("C5", "N1")
LIMIT = 600
GOLDEN = ("mor_event_delete", "mor_partial", "mor_payload_partial_update")


def test_every_key_is_in_one_part_and_parts_are_alike() -> None:
    keys = pa.array([f"key-{number}" for number in range(20_000)])
    parts = [smaller for part in KeyPart().cut(4) for smaller in part.cut(8)]
    held = np.array([part.holds(keys) for part in parts])
    assert (held.sum(axis=0) == 1).all()
    assert 0.8 < held.sum(axis=1).min() / (len(keys) / 32) <= held.sum(axis=1).max() / (len(keys) / 32) < 1.2
    assert KeyPart().holds(keys).all()


def test_a_part_is_cut_by_what_its_logs_are_expected_to_take() -> None:
    assert parts_for(100, 10, 10, 100) == 2
    assert parts_for(100, 10, 100, 100) == 16
    assert parts_for(100, 1, 10_000, 100) == 64
    assert parts_for(10, 1, 10, 10) == 16
    assert parts_for(100, 100, 10, 10) == 16, "no less than what was held already"


@pytest.mark.parametrize("name", GOLDEN)
def test_the_rows_in_parts_are_those_of_the_slice_as_a_whole(name: str, location: str) -> None:
    table = hudi.open_table(unpack(f"hudi-1.0.2/{name}", location))
    context, snapshot = context_of(table), table.snapshot()
    schema = with_meta_fields(snapshot.schema)
    whole = Merging(snapshot.config, snapshot.evolution)
    cut = 0
    for piece in snapshot.view.all_slices():
        found = []
        for merging in (whole, replace(whole, most_log_bytes=LIMIT)):
            parts = 0
            batches: list[pa.RecordBatch] = []
            for part in slice_rows(context.storage, piece, merging, schema, schema).parts:
                batches += [batch.select(schema.names).cast(schema) for batch in (*part.kept(), *part.added())]
                parts += 1
            found.append(sorted(map(repr, pa.Table.from_batches(batches, schema).to_pylist())))
            cut += parts > 1
        assert found[0] == found[1]
    assert cut, "no slice had to be cut, so nothing was tested"


def test_a_compaction_in_parts_keeps_the_rows_and_counts_them(location: str, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make(location, table_type="mor")
    table.upsert(orders(*((number, "a", float(number)) for number in range(300))))
    table.upsert(orders(*((number, "a", number + 0.5) for number in range(100, 250))))
    table.delete(where="id < 20")
    expected = rows(table, "id", "price")
    monkeypatch.setattr(merged_slice, "LogScan", Limited)
    done = table.compaction.run()
    assert Limited.cuts
    assert done.figures["rows"] == len(expected) == 280
    assert rows(table, "id", "price") == expected
    stat = table.commit_metadata(table.timeline.commits[-1]).stats[0]
    assert (stat.updates, stat.deletes, stat.merged_entries) == (150, 20, 170)
    assert table.check().ok
    assert Path(location, stat.path).exists()


class Limited(merged_slice.LogScan):
    """A scan with a small limit, which options do not allow."""

    cuts = 0

    def entries(self, columns: object, part: KeyPart = KeyPart(), most_bytes: int = 0) -> object:  # type: ignore[override]  # noqa: B008
        Limited.cuts += part.of > 1
        return super().entries(columns, part, 4_000)  # type: ignore[arg-type]


def test_a_key_with_too_many_entries_is_held_as_a_whole() -> None:
    assert KeyPart(0, MOST_PARTS // 64).cut(64)[0].of == MOST_PARTS
