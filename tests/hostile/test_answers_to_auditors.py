"""What SECURITY.md answers an auditor: what is signed, what an attacker with write access can do unseen, and what is logged."""

from __future__ import annotations

from getpass import getuser
from pathlib import Path

import pyarrow as pa
import pytest

import pyhudi_core as hudi
from pyhudi_core.errors import CorruptPropertiesError

ROWS = pa.table({"id": [1, 2, 3], "v": ["aa", "mmmm-2", "zz"]})


@pytest.fixture
def table(tmp_path: Path) -> hudi.HudiTable:
    made = hudi.create_table(str(tmp_path / "orders"), ROWS.schema, record_key="id")
    made.upsert(ROWS)
    return made


def test_the_checksum_of_the_properties_is_that_of_the_name_alone(table: hudi.HudiTable) -> None:
    file = Path(table.location, ".hoodie", "hoodie.properties")
    good = file.read_text()
    file.write_text(good.replace("hoodie.table.name=orders", "hoodie.table.name=others"))
    with pytest.raises(CorruptPropertiesError, match="checksum"):
        hudi.open_table(table.location)
    file.write_text(good.replace("hoodie.table.recordkey.fields=id", "hoodie.table.recordkey.fields=v"))
    assert hudi.open_table(table.location).config.record_key_fields == ("v",)


def test_a_consistent_forgery_of_rows_is_not_noticed_by_the_table(table: hudi.HudiTable) -> None:
    file = next(Path(table.location).glob("*.parquet"))
    good = file.read_bytes()
    forged = good.replace(b"mmmm-2", b"nnnn-2")
    assert forged != good
    file.write_bytes(forged)
    again = hudi.open_table(table.location)
    assert again.to_arrow()["v"].to_pylist() == ["aa", "nnnn-2", "zz"]
    assert again.check().findings == ()


def test_a_commit_names_the_user_the_machine_and_the_program_that_wrote_it(table: hudi.HudiTable) -> None:
    (commit,) = table.history()
    assert (commit["operation"], commit["rows_inserted"], commit["user"]) == ("UPSERT", 3, getuser())
    assert commit["host"] and commit["program"] and commit["completed"]
