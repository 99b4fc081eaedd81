"""The files of a table name the other tables of its transactions: nobody opens one elsewhere unasked, and nothing is written there."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from support.watching import untouched

import pyhudi as hudi
from pyhudi_core.errors import HudiError, InvalidOptionError, UnsafePathError
from pyhudi_core.storage.local import LocalStorage
from pyhudi_core.transaction.group import TRANSACTION_KEY, Group
from pyhudi_core.transaction.layout import COMMIT_RECORD, GROUPS, HEARTBEATS

SCHEMA = pa.schema([("id", pa.int64()), ("value", pa.int64())])
OPTIONS = {"hoodie.metadata.enable": False, "pyhudi.sweep.min.age.minutes": 0, "hoodie.write.lock.wait_time_ms": 100}
NAMES = ("lines", "orders")
LAKE = "company/lake"


def rows(value: int) -> pa.Table:
    return pa.table({"id": [1], "value": [value]}, SCHEMA)


class Stopped(BaseException):
    """Ends the coordinator before its decision."""


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables that a coordinator left prepared, in a lake, and a table of somebody else."""
    base = tmp_path_factory.mktemp("image")
    tables = [hudi.create_table(str(base / LAKE / name), SCHEMA, "id", options=OPTIONS) for name in NAMES]
    hudi.create_table(str(base / "others" / "victim"), SCHEMA, "id", options=OPTIONS).upsert(rows(9))

    def killed(self: Group) -> bool:
        shutil.copytree(base / LAKE, base / "left")
        raise Stopped

    def change() -> None:
        with hudi.transaction(tables) as changes:
            for table in tables:
                changes.upsert(table, rows(2))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Group, "commit", killed)
        with pytest.raises(Stopped):
            change()
    shutil.rmtree(base / LAKE)
    return base


@pytest.fixture
def place(image: Path, tmp_path: Path) -> Path:
    """A folder with ``company/lake/lines``, whose files name ``company/lake/orders``, and ``others/victim``."""
    shutil.copytree(image / "others", tmp_path / "others")
    shutil.copytree(image / "left", tmp_path / LAKE)
    for file in (tmp_path / LAKE).rglob("*"):
        if file.is_file() and str(image).encode() in (body := file.read_bytes()):
            file.write_bytes(body.replace(str(image).encode(), str(tmp_path).encode()))
    for beat in (tmp_path / LAKE).glob(f"*/{HEARTBEATS}/*"):
        os.utime(beat, (0, 0))
    for lock in (tmp_path / LAKE).glob("*/.hoodie/lock"):
        lock.unlink()
    return tmp_path


def _record(place: Path, other: str) -> None:
    """Let the commit record name another table in place of its own second one, and as the one that has the decision."""
    for file in place.glob(f"{LAKE}/lines/{COMMIT_RECORD}*"):
        body = json.loads(file.read_bytes())
        name, _, texts = json.loads(body["intent"]["group"])
        body["intent"]["group"] = json.dumps([name, other, [[other, *text[1:]] for text in texts]])
        file.write_text(json.dumps(body))


def _decision(place: Path, other: str) -> None:
    """Leave a decision that names the table among its parts."""
    file = place / LAKE / "lines" / GROUPS / "left"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"decision": "commit", "nonce": "x", "parts": [[other, "20260101000000000", "commit"]]}))


def _note(place: Path, other: str) -> None:
    """Let a commit say that it is part of a transaction with the table."""
    shutil.rmtree(place / LAKE)
    tables = [hudi.create_table(str(place / LAKE / name), SCHEMA, "id", options=OPTIONS) for name in NAMES]

    def note(group: Group) -> dict[str, str]:
        named = {
            other if part.location.endswith("orders") else part.location: part.requested_time for part in group.parts
        }
        return {TRANSACTION_KEY: json.dumps({"id": group.name, "tables": named})}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Group, "note", property(note))
        with hudi.transaction(tables) as changes:
            for table in tables:
                changes.upsert(table, rows(2))


DOORS: dict[str, Callable[[str], object]] = {
    "read": lambda location: hudi.open_table(location).to_arrow(),
    "check": lambda location: hudi.open_table(location).check(),
    "write": lambda location: hudi.open_table(location, options=OPTIONS).upsert(rows(3)),
    "sweep": lambda location: hudi.open_table(location, options=OPTIONS).sweep.run(),
    "snapshot": lambda location: hudi.snapshot([hudi.open_table(location)]),
}
OTHERS = {
    "elsewhere": "{place}/others/victim",
    "by a scheme": "file://{place}/others/victim",
    "by dots": "{place}/company/lake/../../others/victim",
    "by a link": "{place}/company/lake/link",
    "in a bucket": "s3://other-bucket/table",
    "in Azure": "abfss://c@other.dfs.core.windows.net/table",
    "no location": "nothing://",
    "a surrogate": "{place}/others/victim\ud800",
}


@pytest.mark.one_in(5)
@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("way", OTHERS)
@pytest.mark.parametrize("carrier", [_record, _decision, _note])
def test_another_table_of_a_transaction_is_not_opened_elsewhere(
    place: Path, carrier: Callable[[Path, str], None], way: str, door: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    carrier(place, OTHERS[way].format(place=place))
    (place / LAKE / "link").symlink_to(place / "others" / "victim")
    reached: list[str] = []
    resolved = LocalStorage._resolve

    def recorded(storage: LocalStorage, path: str, **how: bool) -> str:
        reached.append(os.path.realpath(resolved(storage, path, **how)))
        return reached[-1]

    monkeypatch.setattr(LocalStorage, "_resolve", recorded)
    monkeypatch.setattr("boto3.client", None)
    with untouched(place / "others"):
        try:
            DOORS[door](str(place / LAKE / "lines"))
        except HudiError as error:
            assert error.hint, error
    assert reached
    assert not [path for path in reached if not path.startswith(f"{os.path.realpath(place / LAKE)}/")]


def test_a_transaction_over_tables_that_nobody_could_find_again_is_refused_and_allowed_if_both_name_the_other(
    tmp_path: Path,
) -> None:
    places = [str(tmp_path / "bronze" / "raw" / "lines"), str(tmp_path / "silver" / "shop" / "orders")]
    for place in places:
        hudi.create_table(place, SCHEMA, "id", options=OPTIONS)
    one, two = map(hudi.open_table, places)
    with pytest.raises(InvalidOptionError, match="outside of the lake") as caught:
        hudi.transaction([one, two])
    assert "allow_sources" in (caught.value.hint or "")
    allowed = [hudi.open_table(place, allow_sources=[str(tmp_path)]) for place in places]
    with hudi.transaction(allowed) as changes:
        for table in allowed:
            changes.upsert(table, rows(5))
    assert [table.to_arrow()["value"].to_pylist() for table in (one, two)] == [[5], [5]]
    lake = hudi.lake(str(tmp_path))
    named = [lake.table(name) for name in ("bronze/raw/lines", "silver/shop/orders")]
    with hudi.transaction(named) as changes:
        for table in named:
            changes.upsert(table, rows(6))
    assert [table.to_arrow()["value"].to_pylist() for table in (one, two)] == [[6], [6]]


def test_layers_of_one_lake_change_together(tmp_path: Path) -> None:
    places = [str(tmp_path / name) for name in ("lake/silver/orders", "lake/gold/days")]
    tables = [hudi.create_table(place, SCHEMA, "id", options=OPTIONS) for place in places]
    with hudi.transaction(tables) as changes:
        for table in tables:
            changes.upsert(table, rows(5))
    assert [hudi.open_table(place).to_arrow()["value"].to_pylist() for place in places] == [[5], [5]]


def test_an_unfinished_transaction_of_a_table_elsewhere_says_how_it_is_allowed(place: Path) -> None:
    other = str(place / "others" / "victim")
    _record(place, other)
    with pytest.raises(UnsafePathError, match="a transaction also changed") as caught:
        hudi.open_table(str(place / LAKE / "lines"), options=OPTIONS).upsert(rows(3))
    assert f"allow_sources': '{other}'" in (caught.value.hint or "")
