"""A change of the version in two steps is refused before the first one, if the second one would be refused."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pytest
from support.disk import contents

import pyhudi_core as hudi
from pyhudi_core.errors import UnsupportedTableError

ROWS = pa.table({"id": ["k1", "k2"], "day": ["a", "b"], "v": [1, 2]})


def lowered(place: Path, **properties: str) -> hudi.HudiTable:
    """A table of version 6 with other properties."""
    table = hudi.create_table(str(place), ROWS.schema, "id", "day")
    table.upsert(ROWS)
    table.downgrade(6)
    file = place / ".hoodie" / "hoodie.properties"
    text = file.read_text()
    for old, new in properties.items():
        assert old in text
        text = text.replace(old, new)
    file.write_text(text)
    return hudi.open_table(str(place))


def test_a_table_of_version_6_that_version_9_cannot_represent_stays_as_it_is(tmp_path: Path) -> None:
    table = lowered(tmp_path / "t", SimpleKeyGenerator="ComplexKeyGenerator")
    before = contents(str(tmp_path))
    planned = table.upgrade.plan(9)
    assert "COMPLEX generator" in planned.why_not
    with pytest.raises(UnsupportedTableError, match="Version 8 is possible"):
        table.upgrade(9)
    assert contents(str(tmp_path)) == before
    assert table.upgrade.plan(8)
    assert table.upgrade(8)
    assert hudi.open_table(str(tmp_path / "t")).count() == 2


def test_a_table_of_version_6_goes_to_9(tmp_path: Path) -> None:
    table = lowered(tmp_path / "t")
    assert table.upgrade.plan(9).to == 9
    assert table.upgrade(9).to == 9
    table = hudi.open_table(str(tmp_path / "t"))
    assert (table.config.version, table.count()) == (9, 2)


def test_a_table_of_version_9_that_version_8_cannot_represent_is_not_lowered_to_6(tmp_path: Path) -> None:
    options = {"hoodie.metadata.record.index.enable": "true"}
    table = hudi.create_table(str(tmp_path / "t"), ROWS.schema, "id", options=options, version=9)
    table.upsert(ROWS)
    file = tmp_path / "t" / ".hoodie" / ".index_defs" / "index.json"
    file.write_text(re.sub(r'"isPartitioned"\s*:\s*"false"', '"isPartitioned" : "true"', file.read_text()))
    table = hudi.open_table(str(tmp_path / "t"))
    before, partitions = contents(str(tmp_path)), table.config.metadata_partitions
    assert "record index by partition" in table.downgrade.plan(6).why_not
    with pytest.raises(UnsupportedTableError, match="record index by partition"):
        table.downgrade(6)
    assert contents(str(tmp_path)) == before
    assert hudi.open_table(str(tmp_path / "t")).config.metadata_partitions == partitions
