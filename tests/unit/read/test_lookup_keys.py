"""Look-ups find a row in whatever way a release of Hudi wrote its key, and say so where an index cannot be asked."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from support.golden import unpack
from support.tables import make, orders, reopen, rows

import pyhudi_core as hudi
from pyhudi_core.errors import InvalidOptionError
from pyhudi_core.metadata_table.slices import MetadataSlices
from pyhudi_core.model.instant import Action, Instant, State
from pyhudi_core.model.meta_fields import RECORD_KEY
from pyhudi_core.snapshot.snapshot import build
from pyhudi_core.timeline.active import Timeline


@pytest.mark.row("I5")
@pytest.mark.parametrize("written", ["{}", "id:{}"])
def test_both_texts_of_a_complex_key_over_one_field_are_found(location: str, written: str) -> None:
    """Release 1.0 writes the plain value, 1.1 and newer the field's name before it."""
    table = make(location)
    table.upsert(orders((1, "a", 1.0), (2, "b", 2.0)))
    for piece in table.scan().slices():
        path = Path(location, piece.base.path)
        found = pq.read_table(path)
        keys = pa.array([written.format(key) for key in found.column("id").to_pylist()])
        at = found.schema.get_field_index(RECORD_KEY)
        pq.write_table(found.set_column(at, RECORD_KEY, keys).replace_schema_metadata(None), path)
    properties = Path(location, ".hoodie", "hoodie.properties")
    lines = properties.read_text().splitlines()
    kept = [line for line in lines if not line.startswith("hoodie.table.keygenerator.type")]
    properties.write_text("\n".join([*kept, "hoodie.table.keygenerator.type=COMPLEX"]))
    complex_table = reopen(table)
    assert rows(complex_table.lookup(pa.table({"id": [2]})), "id", "price") == [(2, 2.0)]
    assert rows(complex_table.lookup(pa.table({"id": [1], "day": ["a"]})), "id") == [(1,)]
    assert rows(complex_table.lookup(pa.table({"id": [3]})), "id") == []


@pytest.fixture
def indexed(tmp_path: Path) -> str:
    return unpack("hudi-1.2.0/cow_indexed", tmp_path / "table")


def test_a_secondary_index_is_asked_for_its_own_column_only(indexed: str) -> None:
    table = hudi.open_table(indexed)
    with pytest.raises(InvalidOptionError, match="on column 'label'"):
        table.lookup(pa.table({"region": ["eu"]}), index="idx_label")


def test_values_whose_text_in_the_index_is_not_known_are_looked_for_in_the_rows(indexed: str) -> None:
    definitions = Path(indexed, ".hoodie", ".index_defs", "index.json")
    told = json.loads(definitions.read_text())
    told["indexDefinitions"]["secondary_index_idx_label"]["sourceFields"] = ["price"]
    definitions.write_text(json.dumps(told))
    table = hudi.open_table(indexed)
    everything = table.scan().to_arrow()
    wanted = pc.unique(everything.column("price").drop_null())[:3]
    found = table.lookup(pa.table({"price": wanted}), index="idx_label").to_arrow()
    expected = everything.filter(pc.is_in(everything.column("price"), wanted))
    assert sorted(found.column("id").to_pylist()) == sorted(expected.column("id").to_pylist()) != []


@pytest.mark.row("L11")
@pytest.mark.parametrize("name", ["hudi-1.0.2/mor_indexed", "hudi-1.2.0/cow_indexed"])
def test_a_metadata_table_that_is_newer_than_the_timeline_is_not_asked(tmp_path: Path, name: str) -> None:
    """A commit that began and completed while a reader was between the two timelines."""
    table = hudi.open_table(unpack(name, tmp_path / "table"))
    context = table._opened.context()
    assert not MetadataSlices.load(table.timeline, context.folder).is_ahead
    last = max(table.timeline.commits, key=lambda instant: instant.completion_time or "")
    before = Timeline(tuple(i for i in table.timeline if (i.completion_time or "~") < (last.completion_time or "")))
    assert MetadataSlices.load(before, context.folder).is_ahead
    slices = MetadataSlices.load(table.timeline, context.folder)
    later = "20990101000000000"
    for action, requested in ((Action.CLEAN, later), (Action.COMMIT, later), (Action.DELTACOMMIT, "00000000000000001")):
        own = Instant(requested, action, State.COMPLETED, later)
        known = MetadataSlices(context.storage, Timeline((*slices.own, own)), table.timeline)
        assert not known.is_ahead, "its own upkeep, and what an index began with, tell of no commit"
    assert build(context.storage, context.folder, context.config, before).metadata is None
