"""Changes are told rightly by tables whose way of logging them was changed later."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from support.golden import unpack

import pyhudi_core as hudi


def told(table: hudi.HudiTable) -> list[str]:
    found: pa.Table = table.changes().to_arrow()
    return sorted(map(str, found.to_pylist()))


@pytest.mark.parametrize("name", ["hudi-1.0.2/cow_cdc_op_key_only", "hudi-1.2.0/mor_cdc_data_before"])
def test_logs_of_a_poorer_mode_are_not_taken_for_both_images(tmp_path: Path, name: str) -> None:
    location = unpack(name, tmp_path / "table")
    before = told(hudi.open_table(location))
    properties = Path(location, ".hoodie", "hoodie.properties")
    lines = properties.read_text().splitlines()
    mode = "hoodie.table.cdc.supplemental.logging.mode"
    kept = [line for line in lines if not line.startswith(mode)]
    assert len(kept) < len(lines)
    properties.write_text("\n".join([*kept, f"{mode}=DATA_BEFORE_AFTER"]))
    assert told(hudi.open_table(location)) == before
