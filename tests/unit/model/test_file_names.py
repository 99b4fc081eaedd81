"""Names of data files: written and read back."""

from __future__ import annotations

import pytest

from pyhudi_core.model.file_names import BaseFileName, LogFileName, parse_data_file

TIME = "20260101000000000"
NAMES = {
    f"f-0_1-2-3_{TIME}.parquet": BaseFileName("f-0", "1-2-3", TIME),
    f"f-0_1-2-3_{TIME}.orc": BaseFileName("f-0", "1-2-3", TIME, "orc"),
    f".f-0_{TIME}.log.1_1-2-3": LogFileName("f-0", TIME, 1, "1-2-3"),
    f".f-0_{TIME}.log.12_1-2-3.cdc": LogFileName("f-0", TIME, 12, "1-2-3", is_cdc=True),
    f".f-0_{TIME}.log.12": LogFileName("f-0", TIME, 12, ""),
    f".f-0_{TIME}.log.12.cdc": LogFileName("f-0", TIME, 12, "", is_cdc=True),
}


@pytest.mark.parametrize("text", NAMES)
def test_a_name_is_read_and_written_as_it_is(text: str) -> None:
    assert parse_data_file(text) == NAMES[text]
    assert str(NAMES[text]) == text


@pytest.mark.parametrize(
    "text", [f".f_{TIME}.log.12_", f".f_{TIME}.log.1_1-2", f"f_{TIME}.parquet", f"_1-2-3_{TIME}.parquet"]
)
def test_other_names_are_no_data_files(text: str) -> None:
    assert parse_data_file(text) is None
