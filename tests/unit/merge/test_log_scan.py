"""Which blocks of a slice's logs count: rollback commands, blocks written twice, blocks of a log compaction."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

from pyhudi_core.errors import CorruptLogBlockError, LimitExceededError, UnsupportedTableError
from pyhudi_core.file_groups.slice import LogFile
from pyhudi_core.formats.log.blocks import BlockType, Header, encode_block
from pyhudi_core.formats.log.contents import DeleteRecord, write_deletes, write_records
from pyhudi_core.formats.log.deletes import Deletes
from pyhudi_core.merge.key_parts import MOST_PARTS, KeyPart, LogsTooLargeError
from pyhudi_core.merge.log_scan import LogColumns, LogScan
from pyhudi_core.model.file_names import LogFileName
from pyhudi_core.runtime import SystemClock
from pyhudi_core.storage.memory import MemoryBucket, MemoryStorage

AVRO = '{"type":"record","name":"r","fields":[{"name":"k","type":"string"},{"name":"v","type":["null","long"]}]}'
SCHEMA = pa.schema([("k", pa.string()), ("v", pa.int64())])
T1, T2, T3, T4 = (f"2026010100000{n}000" for n in range(4))


def data(time: str, *rows: tuple[str, int], identifier: str = "", replaces: tuple[str, ...] = ()) -> bytes:
    """A block with rows (k, v)."""
    headers = {Header.INSTANT_TIME: time, Header.SCHEMA: AVRO}
    if identifier:
        headers[Header.BLOCK_IDENTIFIER] = identifier
    if replaces:
        headers[Header.COMPACTED_BLOCK_TIMES] = ",".join(replaces)
    return encode_block(BlockType.AVRO_DATA, headers, write_records(AVRO, [{"k": k, "v": v} for k, v in rows]))


def command(time: str, target: str, what: str = "0") -> bytes:
    """A command block; 0 is a rollback."""
    headers = {Header.INSTANT_TIME: time, Header.TARGET_INSTANT_TIME: target, Header.COMMAND_BLOCK_TYPE: what}
    return encode_block(BlockType.COMMAND, headers, b"")


def values(*files: bytes, counts: Callable[[str], bool] = lambda _time: True) -> list[int]:
    """The values of all entries that count, in their order."""
    storage = MemoryStorage("memory://logs/slice", MemoryBucket(), SystemClock())
    logs = []
    for number, content in enumerate(files, 1):
        name = LogFileName("f", T1, number, "1-0-1")
        storage.put(str(name), content)
        logs.append(LogFile("", name, len(content)))
    found = LogScan(storage, logs, counts).entries(LogColumns(SCHEMA, (), lambda batch: batch.column("k")))
    return [] if found is None else found.rows.column("v").to_pylist()


@pytest.mark.parametrize("identifier", ["\u00b2,1", "9" * 5_000 + ",1", "-1,1", ",", "1"])
def test_an_identifier_that_is_none_is_passed_over(identifier: str) -> None:
    block = data(T1, ("a", 1), identifier=identifier)
    assert values(block + block) == [1, 1]


def test_blocks_without_entries_are_nothing() -> None:
    empty = encode_block(BlockType.DELETE, {Header.INSTANT_TIME: T1}, bytes.fromhex("000000030000000100"))
    assert values(empty + data(T1)) == []
    assert values(empty, data(T2, ("a", 1))) == [1]


@pytest.mark.row("N1")
def test_a_block_of_deletes_that_is_too_large_is_refused_before_all_of_it_is_read() -> None:
    storage = MemoryStorage("memory://logs/slice", MemoryBucket(), SystemClock())
    keys = pa.array([f"key {number:06}" for number in range(100_000)])
    content = encode_block(
        BlockType.DELETE, {Header.INSTANT_TIME: T1}, Deletes(keys, "", pa.table({"v": np.arange(100_000)})).encode()
    )
    name = LogFileName("f", T1, 1, "1-0-1")
    storage.put(str(name), content)
    scan = LogScan(storage, [LogFile("", name, len(content))], lambda _time: True)
    columns = LogColumns(SCHEMA, ("v",), lambda batch: batch.column("k"))
    every = scan.entries(columns, most_bytes=100 << 20)
    assert every is not None
    assert len(every) == 100_000
    limit = (every.rows.nbytes + every.keys.nbytes + every.orderings.nbytes) // 10
    with pytest.raises(LogsTooLargeError) as raised:
        scan.entries(columns, most_bytes=limit)
    assert raised.value.parts == 16, "as many as all of the block needs, although a part of it was read"
    parts = [scan.entries(columns, part, most_bytes=limit) for part in KeyPart().cut(raised.value.parts)]
    assert sum(len(part) for part in parts if part is not None) == 100_000


def of_one_key(rows: int) -> tuple[LogScan, LogColumns, KeyPart]:
    """Logs with so many entries of one key, and the smallest part of the keys that has it."""
    key = "k" * 80
    content = data(T1, *((key, number) for number in range(rows)))
    storage = MemoryStorage("memory://logs/slice", MemoryBucket(), SystemClock())
    name = LogFileName("f", T1, 1, "1-0-1")
    storage.put(str(name), content)
    scan = LogScan(storage, [LogFile("", name, len(content))], lambda _time: True)
    part = KeyPart()
    while part.of < MOST_PARTS:
        part = next(one for one in part.cut(8) if one.holds(pa.array([key]))[0])
    return scan, LogColumns(SCHEMA, (), lambda batch: batch.column("k")), part


def test_entries_of_one_key_that_are_larger_than_the_limit_are_refused_and_other_keys_are_read() -> None:
    """All entries of a key are merged at once, so no cut makes them fewer."""
    scan, columns, part = of_one_key(7_000)
    with pytest.raises(LimitExceededError, match="for a few keys") as raised:
        scan.entries(columns, part, most_bytes=1 << 20)
    assert raised.value.limit == 1 << 20
    assert raised.value.path == scan.logs[0].path
    assert "hoodie.memory.merge.max.size" in str(raised.value)
    with pytest.raises(LimitExceededError):
        scan.entries(columns, part, most_bytes=raised.value.seen - 1)
    entries = scan.entries(columns, part, most_bytes=raised.value.seen)
    assert entries is not None
    assert len(entries) == 7_000
    assert scan.entries(columns, KeyPart((part.number + 1) % MOST_PARTS, MOST_PARTS), most_bytes=1) is None


def test_less_than_a_mebibyte_of_one_key_is_read_however_low_the_limit_is() -> None:
    scan, columns, part = of_one_key(5_000)
    entries = scan.entries(columns, part, most_bytes=1)
    assert entries is not None
    assert len(entries) == 5_000


NULLABLE = AVRO.replace('"k","type":"string"', '"k","type":["null","string"]')
KEYLESS = {Header.INSTANT_TIME: T1, Header.SCHEMA: NULLABLE}


@pytest.mark.parametrize(
    "block",
    [
        encode_block(BlockType.AVRO_DATA, KEYLESS, write_records(NULLABLE, [{"k": None, "v": 1}, {"k": "a", "v": 2}])),
        encode_block(BlockType.DELETE, KEYLESS, write_deletes([DeleteRecord("a", ""), DeleteRecord(None, "")])),
    ],
)
def test_an_entry_without_a_key_is_a_typed_error(block: bytes) -> None:
    with pytest.raises(CorruptLogBlockError, match="1 entries without a record key"):
        values(block)


def test_a_damaged_block_among_others_of_its_schema_is_named_by_its_file() -> None:
    damaged = encode_block(BlockType.AVRO_DATA, {Header.INSTANT_TIME: T2, Header.SCHEMA: AVRO}, bytes(7) + b"\1")
    with pytest.raises(CorruptLogBlockError, match=r"log\.2_"):
        values(data(T1, ("a", 1)), damaged, data(T3, ("b", 2)))
    without = encode_block(
        BlockType.AVRO_DATA, {**KEYLESS, Header.INSTANT_TIME: T2}, write_records(NULLABLE, [{"k": None, "v": 1}])
    )
    other = encode_block(BlockType.AVRO_DATA, KEYLESS, write_records(NULLABLE, [{"k": "a", "v": 2}]))
    with pytest.raises(CorruptLogBlockError, match=r"1 entries .*log\.2_"):
        values(other, without)


def test_neighbours_of_one_schema_and_others_keep_their_order() -> None:
    wide = AVRO.replace('"fields":[', '"fields":[{"name":"w","type":"long"},')
    rows = write_records(wide, [{"w": 7, "k": "a", "v": 3}])
    other = encode_block(BlockType.AVRO_DATA, {Header.INSTANT_TIME: T3, Header.SCHEMA: wide}, rows)
    deletes = encode_block(BlockType.DELETE, {Header.INSTANT_TIME: T3}, write_deletes([DeleteRecord("a", "")]))
    one, two, last = data(T1, ("a", 1)), data(T2, ("a", 2), ("b", 2)), data(T4, ("b", 4))
    assert values(one, two, other, last) == [1, 2, 2, 3, 4]
    assert values(one, two, deletes, last, last) == [1, 2, 2, None, 4, 4]


@pytest.mark.row("G0", "H1", "H3")
def test_a_rollback_command_takes_back_the_blocks_of_its_target_and_no_others() -> None:
    assert values(data(T1, ("a", 1)) + data(T2, ("a", 2)), command(T3, T2) + data(T4, ("b", 4))) == [1, 4]
    assert values(command(T3, T2) + data(T2, ("a", 2))) == [2], "what comes after the command was written anew"


@pytest.mark.row("G0")
def test_a_command_that_nobody_knows_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedTableError, match="command"):
        values(data(T1, ("a", 1)) + command(T3, T1, what="7"))


@pytest.mark.row("H6")
def test_a_block_that_two_attempts_of_a_task_wrote_counts_once() -> None:
    first, second = data(T1, ("a", 1), identifier="0,0"), data(T1, ("a", 2), identifier="1,0")
    assert values(first + second) == [2], "the later attempt's"
    assert values(second + first) == [2], "wherever it stands"
    assert values(first + data(T1, ("b", 3), identifier="0,1")) == [1, 3], "other numbers are other blocks"
    assert values(first + data(T2, ("a", 5), identifier="0,0")) == [1, 5], "and so are other instants"


@pytest.mark.row("H4")
def test_a_block_of_a_log_compaction_stands_where_the_blocks_stood_that_it_replaces() -> None:
    logs = data(T1, ("a", 1)), data(T2, ("b", 2)), data(T3, ("a", 3)), data(T4, ("a", 9), ("b", 2), replaces=(T1, T2))
    assert values(*logs) == [9, 2, 3]
    assert values(*logs, counts=lambda time: time != T4) == [1, 2, 3], "one that has not completed replaces nothing"


@pytest.mark.row("L8", "H0")
def test_blocks_of_instants_that_do_not_count_are_passed_over() -> None:
    assert values(data(T1, ("a", 1)) + data(T2, ("a", 2)), counts=lambda time: time == T1) == [1]


def test_a_partial_block_counts_even_without_rows() -> None:
    def block(time: str, rows: list[tuple[str, int]], **headers: str) -> bytes:
        written = write_records(AVRO, [{"k": key, "v": value} for key, value in rows])
        marks = {Header[name]: text for name, text in headers.items()}
        return encode_block(BlockType.AVRO_DATA, {Header.INSTANT_TIME: time, Header.SCHEMA: AVRO, **marks}, written)

    content = block(T1, [("a", 1)]) + block(T2, [], IS_PARTIAL="true") + block(T3, [("a", 2)])
    name = LogFileName("f", T1, 1, "1-0-1")
    storage = MemoryStorage("memory://logs/slice", MemoryBucket(), SystemClock())
    storage.put(str(name), content)
    scan = LogScan(storage, [LogFile("", name, len(content))], lambda _time: True)
    found = scan.entries(LogColumns(SCHEMA, (), lambda batch: batch.column("k")))
    assert found is not None
    assert found.first_partial == 1
