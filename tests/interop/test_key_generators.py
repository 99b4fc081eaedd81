"""Keys and folders of every key generator: Hudi continues our tables, and gives the same keys and partition paths."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pytest
from support.tables import create_plain

import pyhudi_core as hudi

from .judges import JudgeProcess, assert_same_rows
from .merge_on_read_cases import KEY

KEYGEN = "hoodie.keygen.timebased."
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("name", pa.string()),
        ("day", pa.string()),
        ("at", pa.int64()),
        ("text", pa.string()),
        ("value", pa.int64()),
    ]
)


@dataclass(frozen=True, slots=True)
class Case:
    """A kind of keys; ``told`` is what Hudi's writer is told beyond the columns."""

    key: tuple[str, ...]
    partition: tuple[str, ...] = ()
    options: dict[str, str] = field(default_factory=dict)
    told: dict[str, str] = field(default_factory=dict)


def timed(column: str, **properties: str) -> Case:
    own = {f"{KEYGEN}{key.replace('__', '.')}": value for key, value in properties.items()}
    told = {"hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.TimestampBasedKeyGenerator"}
    return Case(("id",), (column,), {"hoodie.table.keygenerator.type": "TIMESTAMP", **own}, {**own, **told})


CASES = {
    "simple": Case(("id",), ("day",)),
    "complex": Case(("id", "name"), ("day",)),
    "complex, two partitions": Case(("id", "name"), ("day", "text")),
    "not partitioned": Case(("id",)),
    "not partitioned, two keys": Case(("id", "name")),
    "custom": Case(("id",), ("day", "text"), {}, {"hoodie.datasource.write.partitionpath.field": "day:SIMPLE,text:SIMPLE"}),
    "seconds": timed("at", timestamp__type="UNIX_TIMESTAMP", output__dateformat="yyyy-MM-dd"),
    "milliseconds": timed("at", timestamp__type="EPOCHMILLISECONDS", output__dateformat="yyyy/MM/dd HH"),
    "hours": timed("at", timestamp__type="SCALAR", timestamp__scalar__time__unit="hours", output__dateformat="yyyyMM"),
    "text": timed("text", timestamp__type="DATE_STRING", input__dateformat="yyyy-MM-dd HH:mm:ss", output__dateformat="yyyy-MM-dd"),
}  # fmt: skip


def rows(first: int, last: int, value: int) -> pa.Table:
    numbers = range(first, last)
    names = ["", None, "a:b", "c,d", "x"]
    columns = [
        list(numbers), [names[n % 5] for n in numbers], ["ab"[n % 2] for n in numbers], [n * 7_919 for n in numbers],
        [f"2026-01-0{1 + n % 9} 23:59:59" for n in numbers], [value] * len(numbers),
    ]  # fmt: skip
    return pa.table(columns, schema=SCHEMA)


def agree(judge: JudgeProcess, path: Path) -> pa.Table:
    """Both read the same rows. Hudi shows the column that makes formatted folders as text."""
    ours, theirs = hudi.open_table(str(path)).scan().to_arrow(), judge.read(path)
    number = ours.schema.get_field_index("at")
    if pa.types.is_string(theirs.schema.field("at").type):
        ours = ours.set_column(number, "at", ours["at"].cast(pa.string()))
    assert_same_rows(ours, theirs, by=KEY)
    return ours


def relay(judge: JudgeProcess, path: Path, case: Case) -> None:
    table = create_plain(str(path), SCHEMA, list(case.key), list(case.partition), name="keys", options=case.options)
    table.upsert(rows(0, 20, 1))
    agree(judge, path)
    options = {
        "hoodie.table.name": "keys", "hoodie.datasource.write.recordkey.field": ",".join(case.key), "hoodie.metadata.enable": "false",
        "hoodie.datasource.write.hive_style_partitioning": "true", "hoodie.datasource.write.partitionpath.urlencode": "true",
    }  # fmt: skip
    if case.partition:
        options["hoodie.datasource.write.partitionpath.field"] = ",".join(case.partition)
    judge.write(path, rows(10, 30, 2), "upsert", **(options | case.told))
    hudi.open_table(str(path)).upsert(rows(15, 35, 3))
    assert agree(judge, path).num_rows == 35, "a key is there twice, in another encoding or folder"


@pytest.mark.row("J7")
@pytest.mark.parametrize("name", ["seconds"])
def test_hudi_gives_the_keys_and_folders_that_we_give(first_release: JudgeProcess, tmp_path: Path, name: str) -> None:
    relay(first_release, tmp_path / "t", CASES[name])


@pytest.mark.slow
@pytest.mark.row("J7")
@pytest.mark.parametrize("name", [name for name in CASES if name != "seconds"])
def test_hudi_gives_the_keys_and_folders_of_every_generator(
    first_release: JudgeProcess, tmp_path: Path, name: str
) -> None:
    relay(first_release, tmp_path / "t", CASES[name])
