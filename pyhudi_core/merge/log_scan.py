"""Read the logs of a file slice: choose the valid blocks, order them, and read their contents.

Specification, "Log Format" and "Reader Expectations", as releases 1.0 to 1.2 read: blocks of instants that did not complete are skipped; a
rollback command removes the blocks of its target; a block that two attempts of a task wrote counts once; and a block of a log compaction takes
the position of the blocks that it replaces.

If every block has the positions of its entries in the slice's base file, entries meet their base rows by position, as in Hudi's reader; otherwise by
record key. A reader by position needs no keys, neither of the logs nor of the base file.

The entries of one slice are held in memory, in the wanted columns only. If the entries are larger than a limit, only the entries of a part of the
keys are held (``merge/key_parts.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from pyhudi_core.errors import CorruptLogBlockError, HudiError, LimitExceededError, UnsupportedTableError
from pyhudi_core.file_groups.slice import LogFile
from pyhudi_core.formats.avro.records import read_all
from pyhudi_core.formats.base_file import BaseFileReader
from pyhudi_core.formats.hfile import HFileReader
from pyhudi_core.formats.log.blocks import (
    DATA_BLOCKS,
    MAX_POSITIONS,
    OLD_VERSION,
    ROLLBACK_COMMAND,
    BlockType,
    Header,
    LogBlock,
    decode_positions,
)
from pyhudi_core.formats.log.contents import count_of, read_joined, read_old_records, read_records
from pyhudi_core.formats.log.delete_columns import read_delete_columns
from pyhudi_core.formats.log.reader import LogReader
from pyhudi_core.merge.key_parts import MOST_PARTS, KeyPart, LogsTooLargeError, parts_for
from pyhudi_core.merge.law import Ints
from pyhudi_core.merge.log_entries import EntryCollector, LogEntries
from pyhudi_core.model.internal_schema import FileNames, in_file
from pyhudi_core.model.meta_fields import RECORD_KEY
from pyhudi_core.model.schema_cast import conform
from pyhudi_core.runtime.base import Executor
from pyhudi_core.runtime.system import SerialExecutor
from pyhudi_core.storage.at_once import each
from pyhudi_core.storage.base import Storage

_MOST_DIGITS = 10
_EMPTY_BYTES = 8
"""The content of an Avro block without records: its version, and their number."""
_ALL = KeyPart()
KeysOf = Callable[[pa.RecordBatch], pa.Array]
NamesAt = Callable[[str], FileNames | None]


def _same_names(_requested_time: str) -> None:
    return None


@dataclass(frozen=True, slots=True)
class LogColumns:
    """The wanted columns of the records.

    Attributes:
        schema: names and types, in the reader's order.
        ordering: the ordering columns.
        keys_of: returns the record keys of a batch.
        names_at: returns the column names at an instant; None if the names were the same as now.
        marked: a column and a word; a row with this word in this column is a delete (`Versions.of_rows`).
        base_time: the requested time of the base file to which positions refer; empty if positions must not be used.
        for_keys: the columns that only the keys need.
    """

    schema: pa.Schema
    ordering: tuple[str, ...]
    keys_of: KeysOf
    names_at: NamesAt = _same_names
    marked: tuple[str, str] = ("", "")
    base_time: str = ""
    for_keys: frozenset[str] = frozenset()

    def without_keys(self) -> LogColumns:
        """Return the columns to read if entries meet their base rows by position."""
        return replace(self, schema=pa.schema([item for item in self.schema if item.name not in self.for_keys]))


_HELD_BYTES = 8 << 20
"""The maximum size of a slice's logs that are held in memory as complete files."""
_JOINED_BYTES = 1 << 20
"""The size up to which Avro blocks are read together."""
_FEW_BYTES = 1 << 20
"""A part of the keys with fewer bytes is always read, even if the limit is lower."""


@dataclass(frozen=True, slots=True)
class _Content:
    """A block, its bytes, the path of its file, and the positions of its entries; None if positions are not used."""

    block: LogBlock
    data: pa.Buffer
    path: str
    positions: Ints | None = None


class _WrongPositionsError(Exception):
    """A block has more or fewer positions than entries. This error is handled inside this module: the entries are read with their keys."""


@dataclass(frozen=True, slots=True)
class LogScan:
    """The logs of one slice. ``counts`` decides by requested time whether a block is read.

    ``executor`` reads several logs of a network storage concurrently. Damage is logged as a warning.
    """

    storage: Storage
    logs: Sequence[LogFile]
    counts: Callable[[str], bool]
    executor: Executor = SerialExecutor()

    def entries(self, columns: LogColumns, part: KeyPart = _ALL, most_bytes: int = 0) -> LogEntries | None:
        """Return all entries of a part of the keys, in the order of their arrival; None if there are no entries.

        Raises `LogsTooLargeError` if the entries are larger than ``most_bytes`` (0: no limit), and `CorruptionError` and its kinds.
        """
        held = self._held(sum(log.size for log in self.logs))
        blocks = self._blocks(held)
        if part.of == 1 and columns.base_time and all(block.has_positions(columns.base_time) for _, block in blocks):
            with suppress(_WrongPositionsError):
                contents = self._contents(blocks, held, by_position=True)
                return self._entries(contents, columns.without_keys(), part, most_bytes)
        return self._entries(self._contents(blocks, held), columns, part, most_bytes)

    def _entries(
        self, contents: Iterator[_Content], columns: LogColumns, part: KeyPart, most_bytes: int
    ) -> LogEntries | None:
        found = EntryCollector(columns.schema, columns.ordering, columns.marked)
        whole, read = sum(log.size for log in self.logs), 0
        for run in _runs((content for content in contents if not _is_empty(content)), columns):
            for size in _add_run(found, run, columns, part):
                read += size
                if most_bytes and found.bytes > most_bytes:
                    if part.of < MOST_PARTS:
                        raise LogsTooLargeError(parts_for(found.bytes, read, whole, most_bytes))
                    _refuse_few(found.bytes, most_bytes, run[-1].path)
        return found.finish()

    def _contents(
        self, found: list[tuple[str, LogBlock]], held: Mapping[str, bytes], *, by_position: bool = False
    ) -> Iterator[_Content]:
        """Yield the contents of these blocks, in their order; with ``by_position`` also the positions of their entries."""
        for path, blocks in _by_file(found):
            with self._opened(path, held) as source:
                reader = LogReader(source, path)
                for block in blocks:
                    data = reader.content(block)
                    yield _Content(block, data, path, _positions_of(block, data, path) if by_position else None)

    def _held(self, whole: int) -> Mapping[str, bytes]:
        """Return the bytes of small logs on a network storage, because each log is read twice: for its blocks, and for their contents."""
        if self.storage.capabilities.parallel_calls <= 1 or whole > _HELD_BYTES:
            return {}
        paths = [log.path for log in self.logs]
        return dict(zip(paths, each(self.storage, self.executor, self.storage.get, paths), strict=True))

    def _opened(self, path: str, held: Mapping[str, bytes]) -> pa.NativeFile:
        data = held.get(path)
        return self.storage.open_input(path) if data is None else pa.BufferReader(pa.py_buffer(data))

    def _blocks(self, held: Mapping[str, bytes]) -> list[tuple[str, LogBlock]]:
        """Return the valid blocks, in the order in which they are read."""
        found: list[tuple[str, LogBlock]] = []
        gone: dict[
            str | None, int
        ] = {}  # by an instant that was rolled back: how many of all blocks were before its last rollback
        for log in self.logs:
            with self._opened(log.path, held) as source:
                reader = LogReader(source, log.path)
                for block in reader.blocks():
                    self._take(found, gone, log.path, block)
                reader.warn_of_damage(self.storage.location)
        return _compacted(_once([item for n, item in enumerate(found) if n >= gone.get(item[1].instant_time, 0)]))

    def _take(self, found: list[tuple[str, LogBlock]], gone: dict[str | None, int], path: str, block: LogBlock) -> None:
        if not self.counts(block.instant_time):
            return
        if block.type is BlockType.COMMAND:
            if block.headers.get(Header.COMMAND_BLOCK_TYPE) != ROLLBACK_COMMAND:
                raise UnsupportedTableError(
                    "A log block holds a command that no release of table version 8 writes",
                    path=path,
                    hint="Compact the file group with the release of Hudi that wrote it.",
                )
            gone[block.headers.get(Header.TARGET_INSTANT_TIME)] = len(found)
        elif block.type in DATA_BLOCKS or block.type is BlockType.DELETE:
            found.append((path, block))


def _refuse_few(seen: int, limit: int, path: str) -> None:
    """Raise `LimitExceededError` for the entries of a part that cannot be divided any more."""
    if seen > max(limit, _FEW_BYTES):
        raise LimitExceededError(
            "The logs of a file group have more bytes for a few keys than the limit",
            limit=limit,
            seen=seen,
            path=path,
            hint="Raise hoodie.memory.merge.max.size, or compact the table on a machine with more memory.",
        )


def _once(found: list[tuple[str, LogBlock]]) -> list[tuple[str, LogBlock]]:
    """Remove blocks that an earlier attempt of the same task wrote. Of blocks with the same number, the block of the latest attempt stays."""
    best: dict[tuple[str, str], tuple[int, int]] = {}
    for number, (_, block) in enumerate(found):
        attempt, sequence = _identifier(block)
        known = best.get((block.instant_time, sequence))
        if sequence and (known is None or attempt >= known[0]):
            best[block.instant_time, sequence] = (attempt, number)
    kept = {number for _, number in best.values()}
    return [item for number, item in enumerate(found) if number in kept or not _identifier(item[1])[1]]


def _identifier(block: LogBlock) -> tuple[int, str]:
    """Return the attempt and the sequence number of a block; an empty sequence if it has no number."""
    attempt, separator, sequence = block.headers.get(Header.BLOCK_IDENTIFIER, "").partition(",")
    number = attempt.strip()
    if not separator or not (number.isascii() and number.isdigit() and len(number) <= _MOST_DIGITS):
        return 0, ""
    return int(number), sequence.strip()


def _compacted(found: list[tuple[str, LogBlock]]) -> list[tuple[str, LogBlock]]:
    """Move each block of a log compaction to the position of the blocks that it replaces, and remove the replaced blocks; later compactions first."""
    of_instant: dict[str, list[int]] = {}
    for number, (_, block) in enumerate(found):
        of_instant.setdefault(block.instant_time, []).append(number)
    places = {number: number for number in range(len(found))}
    for number in reversed(range(len(found))):
        if number in places:
            times = found[number][1].compacted_times
            replaced = [other for time in times for other in of_instant.pop(time, ()) if other in places]
            if replaced:
                places[number] = min(places[other] for other in replaced)
            for other in replaced:
                del places[other]
    return [found[number] for number in sorted(places, key=places.__getitem__)]


def _positions_of(block: LogBlock, content: pa.Buffer, path: str) -> Ints:
    """Return the positions of the entries of a block. Raises `_WrongPositionsError` for damaged positions, and for too many.

    A small text can have millions of positions. An entry takes at least a byte, and an Avro block has the number of its entries.
    """
    text, most = block.headers.get(Header.RECORD_POSITIONS, ""), min(len(content), MAX_POSITIONS)
    try:
        found = decode_positions(text, most).astype(np.int64)
    except CorruptLogBlockError as error:
        raise _WrongPositionsError from error
    if block.type is BlockType.AVRO_DATA and len(found) != count_of(content, path):
        raise _WrongPositionsError
    return found


def _by_file(blocks: list[tuple[str, LogBlock]]) -> Iterator[tuple[str, list[LogBlock]]]:
    """Yield neighbouring blocks of one file together, so that the file is opened once for them."""
    start = 0
    for number in range(1, len(blocks) + 1):
        if number == len(blocks) or blocks[number][0] != blocks[start][0]:
            yield blocks[start][0], [block for _, block in blocks[start:number]]
            start = number


def _is_empty(content: _Content) -> bool:
    """Return whether an Avro block has no records. Each block has a cost for each column, and small files can have many blocks.

    A partial block counts even without records: rows after this block may be partial.
    """
    block = content.block
    whole = block.type is BlockType.AVRO_DATA and block.version != OLD_VERSION and len(content.data) == _EMPTY_BYTES
    return whole and not block.is_partial and count_of(content.data, content.path) == 0


def _runs(contents: Iterable[_Content], columns: LogColumns) -> Iterator[list[_Content]]:
    """Group neighbouring Avro blocks that are read in the same way; other blocks are alone."""
    held: list[_Content] = []
    size = 0
    for content in contents:
        if held and (size >= _JOINED_BYTES or not _is_alike(held[-1].block, content.block, columns)):
            yield held
            held, size = [], 0
        held.append(content)
        size += content.data.size
    if held:
        yield held


def _is_alike(one: LogBlock, other: LogBlock, columns: LogColumns) -> bool:
    """Return whether two blocks are Avro blocks with the same schema and column names, and both have complete rows, or both partial rows."""
    avro = all(block.type is BlockType.AVRO_DATA and block.version != OLD_VERSION for block in (one, other))
    if not avro or one.is_partial != other.is_partial:
        return False
    schema = one.headers.get(Header.SCHEMA)
    if schema is None or schema != other.headers.get(Header.SCHEMA):
        return False
    return one.instant_time == other.instant_time or columns.names_at(one.instant_time) == columns.names_at(
        other.instant_time
    )


def _add_run(found: EntryCollector, run: list[_Content], columns: LogColumns, part: KeyPart) -> Iterator[int]:
    """Add the entries of blocks that are read in the same way, in one call, because each call has a cost for each column. Yields as `_add`.

    After an error, reads the blocks one by one, so that the error names the file.
    """
    if len(run) > 1 and _added_together(found, run, columns, part):
        yield sum(content.data.size for content in run)
        return
    for content in run:
        yield from _add(found, content, columns, part)


def _added_together(found: EntryCollector, run: list[_Content], columns: LogColumns, part: KeyPart) -> bool:
    block = run[0].block
    wanted = in_file(columns.names_at(block.instant_time), columns.schema.names)
    with suppress(HudiError):
        batch = read_joined([content.data for content in run], block.headers[Header.SCHEMA], run[0].path)
        with _handed_out(run) as positions:
            return not _add_records(found, _wanted(batch, wanted), positions(len(batch)), block, columns, part)
    return False


@contextmanager
def _handed_out(run: Sequence[_Content]) -> Iterator[Callable[[int], pa.Array | None]]:
    """Give a function that returns the positions of the next entries. The function returns None if positions are not used.

    Raises `_WrongPositionsError` if there are more entries than positions or, at the end, more positions than entries.
    """
    positions, used = [content.positions for content in run if content.positions is not None], 0
    known = np.concatenate(positions) if positions else None

    def following(count: int) -> pa.Array | None:
        nonlocal used
        if known is None:
            return None
        used += count
        if used > len(known):
            raise _WrongPositionsError
        return pa.array(known[used - count : used])

    yield following
    if known is not None and used < len(known):
        raise _WrongPositionsError


def _add_records(
    found: EntryCollector,
    batch: pa.RecordBatch,
    keys: pa.Array | None,
    block: LogBlock,
    columns: LogColumns,
    part: KeyPart,
) -> int:
    """Add records of one or several blocks; ``block`` is the first. Returns the number of records without a key; if there are any, adds nothing."""
    names = columns.names_at(block.instant_time)
    whole = conform(batch, columns.schema, names, of_log=True)
    own = frozenset(batch.schema.names)
    has = frozenset(n for n in whole.schema.names if (n if names is None else names.of(n)) in own)
    found_keys = columns.keys_of(whole) if keys is None else keys
    if found_keys.null_count:
        return int(found_keys.null_count)
    if part.of > 1:
        held = pa.array(part.holds(found_keys))
        whole, found_keys = whole.filter(held), found_keys.filter(held)
    found.add_records(whole, found_keys, has, block.is_partial)
    return 0


def _add(found: EntryCollector, content: _Content, columns: LogColumns, part: KeyPart) -> Iterator[int]:
    """Add the entries of a block. Yields the number of bytes that were added since the last yield."""
    block, path = content.block, content.path
    with _handed_out([content]) as positions:
        if block.type is BlockType.DELETE:
            for deletes in read_delete_columns(content.data, path):
                if deletes.keys.null_count:
                    raise _without_key(deletes.keys.null_count, block, path)
                held = deletes if part.of == 1 else deletes.filter(part.holds(deletes.keys))
                found.add_deletes(held, positions(len(held)))
                yield deletes.size
            return
        names = columns.names_at(block.instant_time)
        for batch, keys in _records(block, content.data, in_file(names, columns.schema.names), path):
            places = positions(len(batch))
            missing = _add_records(found, batch, keys if places is None else places, block, columns, part)
            if missing:
                raise _without_key(missing, block, path)
    yield len(content.data)


def _without_key(missing: int, block: LogBlock, path: str) -> CorruptLogBlockError:
    return CorruptLogBlockError(
        f"A log block has {missing} entries without a record key",
        path=path,
        offset=block.offset,
        hint="Their rows are unknown; restore the file from a copy, or roll its instant back.",
    )


def _records(
    block: LogBlock, content: pa.Buffer, wanted: list[str], path: str
) -> Iterator[tuple[pa.RecordBatch, pa.Array | None]]:
    """Yield the wanted columns of a data block; and the record keys, if no wanted column holds them."""
    if block.type is BlockType.PARQUET_DATA:
        reader = BaseFileReader(pa.BufferReader(content), path, wanted)
        yield from ((batch, None) for batch in reader.iter_batches())
        return
    if block.type is BlockType.AVRO_DATA and block.version == OLD_VERSION:
        yield _wanted(read_old_records(content, path), wanted), None
        return
    schema = block.headers.get(Header.SCHEMA)
    if schema is None:
        raise CorruptLogBlockError(
            "A log block with records has no schema",
            path=path,
            offset=block.offset,
            hint="Restore the file from a copy.",
        )
    if block.type is BlockType.AVRO_DATA:
        yield _wanted(read_records(content, schema, path), wanted), None
        return
    for part in HFileReader(pa.BufferReader(content), path).scan():
        batch = read_all(schema, part.data, part.value_starts, part.value_ends, path)
        if RECORD_KEY in batch.schema.names and not batch.column(RECORD_KEY).null_count:
            # Java numbers the entries and does not store their keys, unless the records have a field of the metadata table.
            yield _wanted(batch, wanted), None
        else:
            yield _wanted(batch, wanted), part.key_array().cast(pa.string())


def _wanted(batch: pa.RecordBatch, wanted: list[str]) -> pa.RecordBatch:
    return batch.select([name for name in batch.schema.names if name in wanted])
