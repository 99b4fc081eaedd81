"""Find the files that contain a key, in the key columns of base files and in logs (specification, "Indexes").

The footer of a base file has its key range, and its bloom filter excludes most keys that the file does not contain. If no key is left after both, the
file is not read further. The remaining keys are looked up in the key column, so the answer is exact.

In merge-on-read tables a key is in the base file of its file group, because inserts go to base files. Other writers (Flink) may insert into logs;
logs whose commits record inserts are read, too. If a log has deleted a key, the key is still found, so that a new row with the key goes into the same
file group. If another index has put the new row into another file group, the key is found there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi_core.errors import CorruptLogBlockError
from pyhudi_core.file_groups.slice import FileSlice, LogFile
from pyhudi_core.formats.base_file import BaseFileReader
from pyhudi_core.index.base import NOT_FOUND
from pyhudi_core.index.listed_filters import ListedFilters
from pyhudi_core.merge.log_scan import LogColumns, LogScan
from pyhudi_core.merge.merged_slice import LivingRows
from pyhudi_core.model.commit import WriteStat
from pyhudi_core.model.file_names import LogFileName, parse_data_file, split
from pyhudi_core.model.meta_fields import RECORD_KEY
from pyhudi_core.model.properties import TableConfig
from pyhudi_core.model.record_key import key_columns, stored_keys
from pyhudi_core.storage.base import Storage
from pyhudi_core.storage.settled_files import KeyRange, KeyRanges

_FOR_EACH_KEY, _TOGETHER_BYTES = 8, 64 << 20
"""How many stored keys are looked up at once: so many for each wanted key, or so many bytes."""
Numbers = npt.NDArray[np.int32]
Ints = npt.NDArray[np.int64]
LogsOf = Callable[[FileSlice], tuple[LogFile, ...]]
"""Returns the logs of a slice that may contain keys which its base file does not contain."""


def no_logs(_piece: FileSlice) -> tuple[LogFile, ...]:
    """Return no logs, because no log contains new keys."""
    return ()


@dataclass(frozen=True, slots=True)
class IndexedFiles:
    """The files with the keys of one file group: the base file, and the logs that may contain new keys.

    ``piece`` is the slice if it has logs. Its logs may have deleted keys of the base file.
    """

    base: str | None
    logs: tuple[LogFile, ...] = ()
    piece: FileSlice | None = None

    @classmethod
    def of(cls, piece: FileSlice, logs: LogsOf) -> IndexedFiles:
        """Return the files of the newest slice of a file group."""
        base = None if piece.base is None else piece.base.path
        return cls(base, logs(piece), piece if piece.logs else None)


@dataclass(slots=True)
class _Search:
    """The wanted keys, each once; and for each key the number of its files, and its position.

    ``again`` has the keys that were found in further files: the number of the files, the places of keys, and positions.
    """

    keys: pa.Array
    found: Numbers
    positions: Ints
    again: list[tuple[int, Ints, Ints]] = field(default_factory=list)

    @classmethod
    def of(cls, keys: pa.Array) -> _Search:
        return cls(keys, np.full(len(keys), NOT_FOUND, np.int32), np.full(len(keys), NOT_FOUND, np.int64))

    def note(self, number: int, places: Ints, positions: Ints) -> None:
        """Record that keys are in the files of this number."""
        new = (self.found[places] == NOT_FOUND) | (self.found[places] == number)
        self.found[places[new]] = number
        self.positions[places[new]] = positions[new]
        if not new.all():
            self.again.append((number, places[~new], positions[~new]))


@dataclass(frozen=True, slots=True)
class FileLookUp:
    """Looks up keys in files.

    Attributes:
        by_filter: whether the bloom filter of a base file is read before its keys.
        filters: the bloom filters of the metadata table, which are read before any file is opened; None if it has none.
        living: reads the rows of a slice; needed if logs may have deleted keys.
        config: the table's configuration; None for a table with meta columns.
        ranges: the known key ranges of base files, if this process caches them. A file whose range excludes the keys is not opened again.
    """

    by_filter: bool = False
    filters: ListedFilters | None = None
    living: LivingRows | None = None
    config: TableConfig | None = None
    ranges: KeyRanges | None = None

    def find(self, storage: Storage, files: tuple[IndexedFiles, ...], keys: pa.ChunkedArray) -> tuple[Numbers, Ints]:
        """Return for each key the number of the files that contain it, and its position in the base file; `NOT_FOUND` for a key that is not found."""
        encoded = keys.combine_chunks().dictionary_encode()
        search = _Search.of(encoded.dictionary)
        bases = [own.base for own in files if own.base is not None]
        listed = {} if self.filters is None else self.filters.might_contain(storage, bases, search.keys)
        for number, own in enumerate(files):
            if own.base is not None and listed.get(own.base, True):
                by_filter = self.by_filter and own.base not in listed
                self._look_into_base(storage, own.base, search, number, by_filter=by_filter)
            if own.logs:
                known = pc.is_in(search.keys, value_set=keys_in_logs(storage, own.logs))
                places = np.flatnonzero(known.to_numpy(zero_copy_only=False))
                places = places[search.found[places] != number]
                search.note(number, places, np.full(len(places), NOT_FOUND, np.int64))
        for number, places, positions in search.again:
            gone = self._gone(storage, files, search.found[places], search.keys.take(pa.array(places)))
            search.found[places[gone]] = number
            search.positions[places[gone]] = positions[gone]
        places = encoded.indices.to_numpy()
        return search.found[places], search.positions[places]

    def _gone(
        self, storage: Storage, files: tuple[IndexedFiles, ...], numbers: Numbers, keys: pa.Array
    ) -> npt.NDArray[np.bool_]:
        """Return which keys are in their base file, but deleted by its logs."""
        gone = np.zeros(len(keys), bool)
        for number in np.unique(numbers).tolist():
            piece = files[number].piece
            if piece is not None and self.living is not None:
                here = np.flatnonzero(numbers == number)
                asked = keys.take(pa.array(here))
                there = self.living.with_keys(storage, piece, asked, ()).column(RECORD_KEY).combine_chunks()
                gone[here] = ~pc.is_in(asked, value_set=there).to_numpy(zero_copy_only=False)
        return gone

    def _look_into_base(self, storage: Storage, path: str, search: _Search, number: int, *, by_filter: bool) -> None:
        if not len(search.keys):
            return
        low, high = pc.min_max(search.keys).as_py().values()
        known = None if self.ranges is None else self.ranges.get(path)
        if known is not None and _is_outside(known, low, high):
            return
        with storage.open_input(path) as source:
            config = self.config
            columns = [RECORD_KEY] if config is None else list(key_columns(config))
            reader = BaseFileReader(source, path, columns)
            footer = reader.footer()
            lowest, highest = footer.sure_min_key, footer.sure_max_key
            if self.ranges is not None:
                self.ranges.note(path, (lowest, highest))
            if _is_outside((lowest, highest), low, high):
                return
            bloom = footer.bloom() if by_filter else None
            if bloom is not None and not bloom.might_contain(_within(search.keys, lowest, highest)).any():
                return
            first, found, at = 0, [], []
            rows = np.array(reader.row_group_rows, np.int64)
            groups = _row_groups(reader, search.keys) if columns == [RECORD_KEY] else list(range(len(rows)))
            batches = reader.iter_batches(groups)
            stored = (batch.column(0) if config is None else stored_keys(batch, config) for batch in batches)
            for keys in _together(stored, _FOR_EACH_KEY * len(search.keys)):
                here = pc.index_in(keys, value_set=search.keys)
                found.append(here.drop_null().to_numpy().astype(np.int64))
                at.append(first + np.flatnonzero(here.is_valid().to_numpy()))
                first += len(keys)
        if found:
            read = np.cumsum(rows[groups])
            left_out = (np.cumsum(rows) - rows)[groups] - (read - rows[groups])
            places, positions = np.concatenate(found), np.concatenate(at)
            positions += left_out[np.searchsorted(read, positions, side="right")]
            # Where a file has a key twice, a position would say which of its rows is meant. A write means all of them.
            twice = np.bincount(places, minlength=len(search.keys)) > 1
            search.note(number, places, np.where(twice[places], NOT_FOUND, positions))


def _row_groups(reader: BaseFileReader, keys: pa.Array) -> list[int]:
    """Return the row groups that can have one of these keys, by the statistics of the record key."""
    known = [ranges.get(RECORD_KEY) for ranges in reader.row_group_statistics([RECORD_KEY])]
    bounds = [(None, None) if each is None else (each.min, each.max) for each in known]
    return [number for number, (low, high) in enumerate(bounds) if len(_within(keys, low, high))]


def _together(parts: Iterable[pa.Array], enough: int) -> Iterator[pa.ChunkedArray]:
    """Yield columns of at least so many values, or of `_TOGETHER_BYTES`: each search in a set makes a hash table of the set."""
    held: list[pa.Array] = []
    for part in parts:
        held.append(part)
        if sum(map(len, held)) >= enough or sum(each.nbytes for each in held) >= _TOGETHER_BYTES:
            yield pa.chunked_array(held)
            held = []
    if held:
        yield pa.chunked_array(held)


def _is_outside(known: KeyRange, low: str, high: str) -> bool:
    """Return whether a file with these keys contains no key of a range."""
    lowest, highest = known
    return (highest is not None and highest < low) or (lowest is not None and lowest > high)


def _within(keys: pa.Array, lowest: str | None, highest: str | None) -> pa.Array:
    """Return the keys within a range."""
    if lowest is not None:
        keys = keys.filter(pc.greater_equal(keys, lowest))
    return keys if highest is None else keys.filter(pc.less_equal(keys, highest))


def keys_in_log(storage: Storage, stat: WriteStat) -> pa.Array:
    """Return the keys of all rows in the log file of a write stat. Raises `CorruptionError` if the path does not belong to a log."""
    name = parse_data_file(split(stat.path)[1])
    if not isinstance(name, LogFileName):
        raise CorruptLogBlockError("A write stat of a log names another file", path=stat.path)
    return keys_in_logs(storage, (LogFile(stat.partition, name, stat.size),))


def keys_in_logs(storage: Storage, logs: tuple[LogFile, ...]) -> pa.Array:
    """Return the keys of all rows in the logs, including keys that are deleted there."""
    times: frozenset[str] = frozenset().union(*(log.writers for log in logs))
    columns = LogColumns(pa.schema([(RECORD_KEY, pa.string())]), (), lambda batch: batch.column(RECORD_KEY))
    entries = LogScan(storage, logs, times.__contains__).entries(columns)
    return (
        pa.array([], pa.string())
        if entries is None
        else entries.keys.filter(pa.array(~entries.listed)).combine_chunks()
    )
