"""A table of Hudi's that lists a kind of index that we do not keep: a write is refused, or, if that was allowed, takes the metadata table off the list."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from support.golden import unpack

import pyhudi_core as hudi
from pyhudi_core.errors import UnsupportedTableError
from pyhudi_core.model.java_properties import parse

REMOVING = {"pyhudi.metadata.remove_unkept": True}
RELEASES = ["hudi-1.0.2/cow_indexed", "hudi-1.2.0/cow_indexed", "hudi-1.0.2/cow_expressions"]


def _properties(location: str) -> dict[str, str]:
    return parse(Path(location, ".hoodie/hoodie.properties").read_bytes(), path="")


def _without_meta(table: pa.Table) -> list[dict]:
    names = [name for name in table.schema.names if not name.startswith("_hoodie_")]
    return sorted(table.select(names).to_pylist(), key=str)


@pytest.mark.row("P10")
@pytest.mark.parametrize("name", RELEASES)
def test_a_write_is_refused_before_it_writes_anything(name: str, location: str) -> None:
    table = hudi.open_table(unpack(name, location))
    rows = table.scan().to_arrow().slice(0, 1)
    before = sorted(Path(location).rglob("*"))
    with pytest.raises(UnsupportedTableError, match=r"_index_.* pyhudi\.metadata\.remove_unkept=true"):
        table.upsert(rows)
    assert sorted(Path(location).rglob("*")) == before


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", RELEASES)
def test_a_write_that_may_removes_the_metadata_table_and_says_so(name: str, location: str) -> None:
    table = hudi.open_table(unpack(name, location), options=REMOVING)
    listed = _properties(location)["hoodie.table.metadata.partitions"]
    assert "files" in listed.split(",")
    assert Path(location, ".hoodie/metadata").exists()
    before = table.scan().to_arrow()
    one = before.slice(0, 1)
    commit = table.upsert(one)
    after = _properties(location)
    comment = Path(location, ".hoodie/hoodie.properties").read_text().splitlines()[0]
    assert comment.startswith("#metadata table removed ")
    assert not after.get("hoodie.table.metadata.partitions")
    assert not after.get("hoodie.table.metadata.partitions.inflight")
    assert not [path for path in Path(location, ".hoodie/metadata").rglob("*") if path.is_file()]
    extra = table.commit_metadata(table.timeline.completed[-1]).extra
    assert extra["pyhudi.metadata_table.removed"] == listed
    assert ("pyhudi.metadata_table.removed", listed) in commit.notes
    assert _without_meta(table.scan().to_arrow()) == _without_meta(before)
    assert not Path(location, ".hoodie/.hoodie.properties.crc").exists()
    again = table.upsert(one)
    assert again.notes == ()
    unchanged = {key: value for key, value in after.items() if key != "hoodie.table.checksum"}
    assert unchanged.items() <= _properties(location).items()


def test_reading_leaves_the_metadata_table_alone(location: str) -> None:
    table = hudi.open_table(unpack(RELEASES[0], location))
    listed = _properties(location)
    table.scan().to_arrow()
    assert _properties(location) == listed


def test_a_write_that_fails_before_its_commit_leaves_the_list_alone(location: str) -> None:
    table = hudi.open_table(unpack(RELEASES[0], location), options=REMOVING)
    one = table.scan().to_arrow().slice(0, 1)
    listed = _properties(location)
    with pytest.raises(hudi.errors.CommitAbortedError), table.begin("upsert") as write:  # noqa: PT012
        write.write(one)
        write.commit(gate=lambda: False)
    assert "files" in listed["hoodie.table.metadata.partitions"]
    assert _properties(location) == listed


@pytest.mark.one_in(3)
@pytest.mark.row("D1", "D3")
@pytest.mark.parametrize(
    "name", ["hudi-1.0.2/cow_plain", "hudi-1.2.0/cow_plain", "hudi-1.0.2/cow_rich_types", "hudi-1.2.0/cow_rich_types"]
)
def test_a_table_of_hudi_goes_on_under_our_writes(name: str, location: str) -> None:
    table = hudi.open_table(unpack(name, location))
    rows = table.scan().to_arrow()
    half = rows.slice(0, max(1, len(rows) // 2))
    table.delete(half)
    assert _without_meta(table.scan().to_arrow()) == _without_meta(rows.slice(len(half)))
    table.insert(half)
    assert _without_meta(table.scan().to_arrow()) == _without_meta(rows)
    table.upsert(rows)
    assert _without_meta(table.scan().to_arrow()) == _without_meta(rows)
