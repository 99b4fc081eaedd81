"""Iceberg metadata beside a table, of which somebody changed the files: who brings it to the newest state, cleans or restores gets a typed error."""

from __future__ import annotations

import copy
import io
import json
import random
import shutil
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fastavro
import pytest
from support.fuzzing import MEGABYTE, measured_memory
from support.tables import FAST, make, orders

import pyhudi_core as hudi
from pyhudi_core.errors import CorruptionError, HudiError, LimitExceededError
from pyhudi_core.iceberg import manifests

OPTIONS = {"hoodie.metadata.enable": False, "hoodie.clean.commits.retained": 1, "hoodie.clean.automatic": False}
ODD: list[Any] = [
    None, "", "x", -1, 9**40, 1e308, True, [], {}, [[]], [None], {"a": 1}, "\ud800", "../../outside/x.avro", "/etc/passwd", "s3://b/x",
]  # fmt: skip


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table whose metadata is behind by one commit."""
    place = tmp_path_factory.mktemp("lake") / "table"
    table = make(str(place), options=OPTIONS)
    for price in (1.0, 2.0, 3.0):
        table.upsert(orders((1, "a", price), (2, "b", price)))
        if price < 3:
            table.iceberg.sync()
    return place


@pytest.fixture
def place(good: Path) -> Iterator[Path]:
    """The table at the same place, where its metadata says that it is."""
    kept = good.with_name("kept")
    shutil.copytree(good, kept)
    yield good
    shutil.rmtree(good)
    kept.rename(good)


def _newest(place: Path) -> Path:
    return max(place.glob("metadata/v*.metadata.json"), key=lambda file: int(file.name[1:].partition(".")[0]))


def _use(place: Path) -> list[HudiError]:
    """Bring the metadata to the newest state, clean and restore; the errors. Any other error is a fault."""
    errors = []
    for call in ("sync", "clean", "restore"):
        table = hudi.open_table(str(place), FAST, OPTIONS)
        try:
            if call == "sync":
                table.iceberg.sync()
            elif call == "clean":
                table.cleaning.run()
            else:
                table.restore.run(table.timeline.commits[-2].requested_time)
        except HudiError as error:
            errors.append(error)
    return errors


def _places(value: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths to every value in JSON."""
    for key, inside in (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    ):
        yield (*above, key)
        yield from _places(inside, (*above, key))


def _changed(raw: Any, path: tuple[Any, ...], value: Any) -> Any:
    changed = copy.deepcopy(raw)
    inside = changed
    for key in path[:-1]:
        inside = inside[key]
    if value is ...:
        del inside[path[-1]]
    else:
        inside[path[-1]] = value
    return changed


@pytest.mark.one_in(4)
@pytest.mark.parametrize("seed", range(16))
def test_any_value_of_the_metadata_may_be_another_one(place: Path, seed: int) -> None:
    chance = random.Random(seed)
    file = _newest(place)
    raw = json.loads(file.read_bytes())
    file.write_text(json.dumps(_changed(raw, chance.choice(list(_places(raw))), chance.choice([*ODD, ...]))))
    _use(place)


@pytest.mark.parametrize(
    "text", ["[" * 100_000, "[]", "null", "7", '"x"', "{}", '{"properties": []}', '{"properties": {"pyhudi.synced": 1}}', "9" * 10_000, ""]
)  # fmt: skip
def test_json_that_is_no_metadata_is_refused(place: Path, text: str) -> None:
    _newest(place).write_text(text)
    assert any(isinstance(error, HudiError) for error in _use(place))


@pytest.mark.parametrize("text", ["9" * 5000, "9" * 17, "-1", "²", "\x00"])
def test_a_hint_of_the_version_may_be_any_text(place: Path, text: str) -> None:
    (place / "metadata" / "version-hint.text").write_text(text)
    _use(place)


def _bomb(file: Path) -> bytes:
    """The same Avro file, with a block that inflates to a gigabyte."""
    with file.open("rb") as opened:
        reader = fastavro.reader(opened)
        schema = reader.writer_schema
        header = {name: value for name, value in reader.metadata.items() if not name.startswith("avro.")}
    out = io.BytesIO()
    fastavro.writer(out, schema, [], codec="deflate", metadata=header, sync_marker=bytes(16))
    packer = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    zeros = bytes(MEGABYTE)
    packed = b"".join(packer.compress(zeros) for _ in range(1024)) + packer.flush()
    return out.getvalue() + _number(1 << 20) + _number(len(packed)) + packed + bytes(16)


def _number(value: int) -> bytes:
    out, value = bytearray(), value << 1
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


@pytest.mark.parametrize("which", ["list", "manifest"])
def test_a_manifest_does_not_unfold_without_bounds(place: Path, which: str) -> None:
    raw = json.loads(_newest(place).read_bytes())
    listed = Path(raw["snapshots"][-1]["manifest-list"])
    if which == "manifest":
        listed = Path(manifests.decode(listed.read_bytes(), "")[0][0]["manifest_path"])
    bomb = _bomb(listed)
    assert len(bomb) < 2 * MEGABYTE
    listed.write_bytes(bomb)
    with measured_memory() as memory:
        errors = _use(place)
    assert any(isinstance(error, CorruptionError | LimitExceededError) for error in errors)
    assert memory.grown < 300 * MEGABYTE


@pytest.mark.one_in(4)
@pytest.mark.parametrize("which", ["list", "manifest"])
@pytest.mark.parametrize("seed", range(8))
def test_any_value_of_a_manifest_may_be_another_one(place: Path, which: str, seed: int) -> None:
    """With the schema that fits it: a person who changes a manifest also writes its schema."""
    chance = random.Random(seed)
    raw = json.loads(_newest(place).read_bytes())
    file = Path(raw["snapshots"][-1]["manifest-list"])
    if which == "manifest":
        file = Path(manifests.decode(file.read_bytes(), "")[0][0]["manifest_path"])
    with file.open("rb") as opened:
        reader = fastavro.reader(opened)
        records, schema, header = list(reader), reader.writer_schema, reader.metadata
    fields = schema["fields"] if chance.random() < 0.5 or which == "list" else schema["fields"][-1]["type"]["fields"]
    field = chance.choice(fields)
    inside = records[0] if fields is schema["fields"] else records[0]["data_file"]
    inside[field["name"]], field["type"] = chance.choice(
        [("x", "string"), (None, "null"), (-1, "long"), ([1], {"type": "array", "items": "int"}), (b"\xff", "bytes"),
         ("../../outside/x.parquet", "string"), ({"a": "b"}, {"type": "map", "values": "string"})]
    )  # fmt: skip
    field.pop("default", None)
    for other in records[1:]:
        (other if fields is schema["fields"] else other["data_file"])[field["name"]] = inside[field["name"]]
    own = {name: value for name, value in header.items() if not name.startswith("avro.")}
    with file.open("wb") as out:
        fastavro.writer(out, {**schema, "__fastavro_parsed__": False}, records, metadata=own)
    _use(place)
