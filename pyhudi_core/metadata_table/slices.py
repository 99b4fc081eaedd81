"""File slices of the metadata table's partitions, and their entries for given keys.

The metadata table is a merge-on-read table, but the data table decides which of its blocks count. A block whose instant is pending in the data table
does not count, although the metadata table's own commit has completed. So one decision publishes both commits. An instant that has left the metadata
table's active timeline counts if its archived timeline has it. The entries of a key are returned in the order of their arrival, base file first;
``merging`` merges them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from pyhudi_core.errors import (
    CorruptHFileError,
    CorruptionError,
    ObjectNotFoundError,
    SnapshotExpiredError,
    at_file,
)
from pyhudi_core.file_groups.slice import BaseFile, LogFile, SlicePiece, slices_of
from pyhudi_core.formats.hfile import Entries, HFileReader
from pyhudi_core.formats.log.blocks import BlockType, Header, LogBlock
from pyhudi_core.formats.log.delete_columns import read_delete_columns
from pyhudi_core.formats.log.reader import LogReader
from pyhudi_core.metadata_table.committed_files import CommittedFiles
from pyhudi_core.metadata_table.names import FILES, FOLDER, INITIAL_INSTANTS, REBUILD
from pyhudi_core.model.file_names import PARTITION_METAFILE, BaseFileName, LogFileName, parse_data_file
from pyhudi_core.model.instant import DATA_ACTIONS, Action, Instant
from pyhudi_core.runtime.base import Executor
from pyhudi_core.runtime.system import SerialExecutor
from pyhudi_core.storage.at_once import all_of, each
from pyhudi_core.storage.base import ObjectInfo, Storage
from pyhudi_core.timeline.active import Timeline, TimelineFolder
from pyhudi_core.timeline.history import ArchivedTimeline

_TIMELINE = f"{FOLDER}/.hoodie/timeline"
_JOINED_BYTES = 16 << 20
_SMALL = 1 << 20
"""On a network storage, a file of at most this size is read at once."""
_FETCHED = 32
"""At most so many small files are read before it is certain that all of them are needed."""
_AT_ONCE = 64 << 10
"""The same limit for other storages: reading some parts of such a file costs more than reading all of it."""
FEW = 32
"""Up to this number, keys and records are looked up and decoded one by one: a step over a column costs as much as some records."""
Find = Callable[[HFileReader], Iterator[Entries]]


@dataclass(frozen=True, slots=True)
class Arrival:
    """Entries that arrived together: Avro values, or the keys of deletes (``entries`` is None)."""

    schema: str
    entries: Entries | None
    deleted: pa.StringArray = field(default_factory=lambda: pa.array([], pa.string()))


def together(arrivals: Iterable[Arrival]) -> Iterator[Arrival]:
    """Yield the arrivals, with the entries of consecutive arrivals combined. Columnar readers pay for each call, not for each entry."""
    held: list[Entries] = []
    schema, size = "", 0
    for arrival in arrivals:
        if held and (arrival.entries is None or arrival.schema != schema or size >= _JOINED_BYTES):
            yield Arrival(schema, Entries.joined(held))
            held, size = [], 0
        if arrival.entries is None:
            yield arrival
        else:
            held.append(arrival.entries)
            schema, size = arrival.schema, size + len(arrival.entries.data)
    if held:
        yield Arrival(schema, Entries.joined(held))


@dataclass(slots=True)
class MetadataSlices:
    """The newest slices of the metadata table, as a reader of the data table's timeline sees them. ``blocks_read`` counts HFile blocks;
    ``unmarked`` has the partitions whose folders have no ``.hoodie_partition_metadata``.

    Timelines are immutable, so results derived from them are cached: all partitions have log files of the same instants. ``refuses_lost``: a lost
    file is an error; otherwise the reader does not use the metadata table.
    """

    refuses_lost: ClassVar[bool] = True
    storage: Storage
    own: Timeline
    data: Timeline
    blocks_read: int = 0
    unmarked: set[str] = field(default_factory=set)
    committed: CommittedFiles | None = None
    executor: Executor = SerialExecutor()
    _slices: dict[str, tuple[SlicePiece, ...]] = field(default_factory=dict)
    _history: ArchivedTimeline | None = None
    _asked: set[str] = field(default_factory=set)
    _counting: dict[str, bool] = field(default_factory=dict)
    _counted: Timeline | None = None
    _completions: dict[str, str] = field(default_factory=dict)
    _listed: dict[str, tuple[ObjectInfo, ...]] = field(default_factory=dict)
    _early: set[str] = field(default_factory=set)
    _kept: dict[str, bytes] = field(default_factory=dict)
    _tags: dict[str, str] = field(default_factory=dict)

    @classmethod
    def load(
        cls, data: Timeline, folder: TimelineFolder, *, whole: bool = False, own: Timeline | None = None
    ) -> MetadataSlices:
        """Read the metadata table's timeline once, unless the caller passes it (``own``).

        ``folder``: the timeline of the data table; ``whole`` as in `CommittedFiles`.
        """
        place = folder.below(FOLDER)
        listed = place.load() if own is None else own
        committed = CommittedFiles(place, folder, whole)
        return cls(folder.storage, listed, data, committed=committed, executor=folder.executor)

    def prepare(self, partitions: Iterable[str]) -> None:
        """Announce that `pieces` will be called for these partitions: on a network storage their folders are listed together."""
        unknown = sorted({*partitions} - self._slices.keys() - self._listed.keys())
        if self.storage.capabilities.parallel_calls > 1 and len(unknown) > 1:
            found = each(self.storage, self.executor, self._list, unknown)
            self._listed |= dict(zip(unknown, found, strict=True))

    def take(self, partition: str, listed: tuple[ObjectInfo, ...]) -> None:
        """Use a folder of a partition that was listed at the same time as the timelines.

        If the listing is older than the timelines, the folder is listed again.
        """
        self._listed[partition] = listed
        self._early.add(partition)

    def read_ahead(self, partitions: Iterable[str] = ()) -> None:
        """On a network storage, list the folders of these partitions and of the list of files, and read the small files of the list of files.

        A lost file raises no error here; the later read raises it.
        """
        if self.storage.capabilities.parallel_calls > 1:
            self.prepare([FILES, *partitions])
            with suppress(CorruptionError, ObjectNotFoundError, SnapshotExpiredError):
                self._assembled(FILES, reads=True)

    def fetch(self, partitions: Sequence[str]) -> None:
        """On a network storage, read the small files of these partitions together, if they are few, and keep them for the reads that follow."""
        if self.storage.capabilities.parallel_calls <= 1 or not partitions:
            return
        self.prepare(partitions)
        pieces = [piece for partition in partitions for piece in self.pieces(partition)]
        files = [file for piece in pieces for file in (piece.base, *piece.logs) if file is not None]
        small = [file.path for file in files if file.size <= _SMALL and file.path not in self._kept]
        if len(small) <= _FETCHED and sum(file.size for file in files) <= _JOINED_BYTES:
            got = each(self.storage, self.executor, self.storage.get, small)
            self._kept |= dict(zip(small, got, strict=True))

    def _list(self, partition: str) -> tuple[ObjectInfo, ...]:
        return self.storage.list_folder(f"{FOLDER}/{partition}").objects

    def pieces(self, partition: str) -> tuple[SlicePiece, ...]:
        """Return the newest slice of each file group of a partition, in the order of the groups' numbers."""
        self._asked.add(partition)
        return self._assembled(partition)

    def pieces_to_write(self, partition: str) -> tuple[SlicePiece, ...]:
        """Return the slices as `pieces`, for a writer that adds to the file groups but does not use their entries. They are not in `used`."""
        return self._assembled(partition)

    def _assembled(self, partition: str, *, reads: bool = False) -> tuple[SlicePiece, ...]:
        """Return the slices of a partition. ``reads``: small files are read during the check for lost files."""
        if partition not in self._slices:
            listed = self._listed.pop(partition, None)
            early, listed = partition in self._early, self._list(partition) if listed is None else listed
            self._early.discard(partition)
            try:
                found = self._assemble(partition, listed, reads=reads)
            except CorruptionError:
                if not early:
                    raise
                found = self._assemble(partition, self._list(partition), reads=reads)
            self._slices[partition] = found
        return self._slices[partition]

    @property
    def used(self) -> frozenset[str]:
        """The partitions whose files were listed, including those with lost files."""
        return frozenset(self._asked)

    def arrivals(self, piece: SlicePiece, find: Find) -> Iterator[Arrival]:
        """Return the entries of a slice that ``find`` finds, and all deletes, in the order of their arrival."""
        held = self._read_small(piece)
        if piece.base is not None:
            with at_file(piece.base.path), self._opened(piece.base, held) as source:
                yield from self._found(HFileReader(source, piece.base.path), find)
        for log in piece.logs:
            with at_file(log.path), self._opened(log, held) as source:
                reader = LogReader(source, log.path)
                for block in reader.blocks():
                    if self.counts(block.instant_time):
                        yield from self._block(reader, block, find, log.path)
                # If older statistics replaced lost ones, pruning would omit files with matching rows.
                reader.refuse_damage(REBUILD)

    def _read_small(self, piece: SlicePiece) -> Mapping[str, bytes]:
        """Return the bytes of a slice's small files, by path. On a network storage they are read together.

        The small files of the list of files are read only once, although the list is read for partitions and then for files.
        """
        if self.storage.capabilities.parallel_calls <= 1:
            return {}
        files: list[BaseFile | LogFile] = [] if piece.base is None else [piece.base]
        files += piece.logs
        small = [file.path for file in files if file.size <= _SMALL]
        of_list = any(path.startswith(f"{FOLDER}/{FILES}/") for path in small)
        known = self._read_before(small) if of_list else {}
        unknown = [path for path in small if path not in self._kept and path not in known]
        got = each(self.storage, self.executor, self.storage.get_tagged, unknown)
        read = {path: found for path, found in zip(unknown, got, strict=True) if found is not None}
        found = known | {path: data for path, (_, data) in read.items()}
        if of_list:
            self._kept |= found
            self._remember(known, read)
        return {**self._kept, **found}

    def _read_before(self, paths: Iterable[str]) -> dict[str, bytes]:
        """Return the files that this handle has read before and whose tags are unchanged."""
        before = {} if self.committed is None else self.committed.folder.small_files
        held = {path: before[path] for path in paths if path in before}
        return {path: data for path, (tag, data) in held.items() if tag and tag == self._tags.get(path)}

    def _remember(self, known: Mapping[str, bytes], read: Mapping[str, tuple[ObjectInfo, bytes]]) -> None:
        """Remember only the files of this slice. After a compaction, the files before it are forgotten."""
        if self.committed is not None and read:
            now = {path: (info.etag, data) for path, (info, data) in read.items()}
            self.committed.folder.small_files = {path: (self._tags[path], data) for path, data in known.items()} | now

    def _opened(self, file: BaseFile | LogFile, held: Mapping[str, bytes]) -> pa.NativeFile:
        data = held.get(file.path)
        if data is None and file.size <= _AT_ONCE:
            data = self.storage.get(file.path)
        return self.storage.open_input(file.path) if data is None else pa.BufferReader(pa.py_buffer(data))

    def counts(self, requested_time: str) -> bool:
        """Say whether blocks of this instant are read."""
        known = self._counting.get(requested_time)
        if known is None:
            known = self._counting[requested_time] = self._counts(requested_time)
        return known

    def _counts(self, requested_time: str) -> bool:
        if requested_time.startswith(INITIAL_INSTANTS):
            return True
        there = self.data.find(requested_time)
        if there is not None and there.is_pending:
            return False
        own = self.own.find(requested_time)
        if own is not None:
            return own.is_completed
        return (there is not None and there.is_completed) or self._is_older(requested_time)

    def knows(self, commits: Iterable[Instant]) -> bool:
        """Say whether the metadata table has every completed commit of the data table. Otherwise commits of a writer that ignores the metadata table
        would be invisible.

        Commits completed before the metadata table was first built are included in that first build.
        """
        oldest = min((i.requested_time for i in self.own if i.is_completed), default="~")
        known = {i.requested_time for i in self.own if i.is_completed}
        unknown = [i for i in commits if i.requested_time >= oldest and i.requested_time not in known]
        if not unknown:
            return True  # the first build may be archived, so it is searched only if it matters
        built = min((i.completion_time or "" for i in self.builds() if i.is_completed), default="")
        return all((i.completion_time or "") <= built for i in unknown)

    def of_state(self) -> MetadataSlices:
        """Return the slices as they were when the data table's timeline was read."""
        newest = max((i.completion_time or "" for i in self.data), default="")
        known = tuple(
            i
            for i in self.own
            if (i.completion_time or "") <= newest
            or self.data.find(i.requested_time) is not None
            or i.requested_time.startswith(INITIAL_INSTANTS)
        )
        return type(self)(self.storage, replace(self.own, instants=known), self.data, committed=self.committed)

    def as_planned(self) -> MetadataSlices:
        """Return the slices without commits that completed after the metadata table's timeline was read.

        A compaction that is planned now must leave their logs to the next slices, where readers look for them.
        """
        known = tuple(i for i in self.data if i.is_pending or self.own.find(i.requested_time) is not None)
        return type(self)(self.storage, self.own, replace(self.data, instants=known), committed=self.committed)

    @property
    def is_ahead(self) -> bool:
        """Whether the metadata table has a commit that began and completed after the data table's timeline was read.

        Its statistics and key index then describe a later state: a row that the commit deleted or moved would not be found.
        """
        newest = max((i.completion_time or "" for i in self.data), default="")
        return any(
            (i.completion_time or "") > newest and self.data.find(i.requested_time) is None
            for i in self.own
            if i.action is Action.DELTACOMMIT and not i.requested_time.startswith(INITIAL_INSTANTS)
        )

    def builds(self) -> tuple[Instant, ...]:
        """Return the instants that built partitions for the first time. The first such instant is also found in the archived timeline."""
        active = tuple(i for i in self.own if i.requested_time.startswith(INITIAL_INSTANTS))
        if active or not self.own.has_history:
            return active
        return tuple(filter(None, [self.history.find(f"{INITIAL_INSTANTS}000", Action.DELTACOMMIT)]))

    @property
    def history(self) -> ArchivedTimeline:
        """The archived timeline of the metadata table."""
        if self._history is None:
            folder = TimelineFolder(self.storage, _TIMELINE) if self.committed is None else self.committed.folder
            self._history = folder.history
        return self._history

    def _is_older(self, requested_time: str) -> bool:
        """Say whether the instant has left the active timeline, and so is completed."""
        # A partition that was built late also has one of the first times, independent of archival.
        later = (i for i in self.own if not i.requested_time.startswith(INITIAL_INSTANTS))
        writes = [i.requested_time for i in later if i.action in DATA_ACTIONS or i.is_pending]
        if not writes or requested_time >= min(writes):
            return False
        return not self.own.has_history or self.history.find(requested_time) is not None

    def _assemble(
        self, partition: str, listed: tuple[ObjectInfo, ...], *, reads: bool = False
    ) -> tuple[SlicePiece, ...]:
        folder = f"{FOLDER}/{partition}"
        bases: dict[str, list[BaseFile]] = {}
        logs: dict[str, list[LogFile]] = {}
        found = {info.path.rpartition("/")[2]: info for info in listed}
        if partition == FILES:
            self._tags = {info.path: info.etag for info in listed}
        if not any(name.startswith(PARTITION_METAFILE) for name in found):
            self.unmarked.add(partition)
        for file_name, info in found.items():
            name = parse_data_file(file_name)
            if isinstance(name, BaseFileName):
                bases.setdefault(name.file_id, []).append(BaseFile(folder, name, info.size))
            elif isinstance(name, LogFileName) and not name.is_cdc:
                logs.setdefault(name.file_id, []).append(LogFile(folder, name, info.size))
        pieces = [
            piece
            for file_id in sorted({*bases, *logs})
            for piece in self._newest(bases.get(file_id, []), logs.get(file_id, []))
        ]
        steps: list[Callable[[], object]] = []
        if pieces and self.committed is not None:
            sizes = {name: info.size for name, info in found.items()}
            steps.append(
                partial(self.committed.refuse_lost, self._own_that_counts(), self.data, partition, sizes, pieces)
            )
        if reads:
            steps += [partial(self._read_small, piece) for piece in pieces]
        all_of(self.storage, self.executor, *steps)
        return tuple(pieces)

    def _own_that_counts(self) -> Timeline:
        """Return the metadata table's timeline without instants whose blocks are not read."""
        if self._counted is None:
            counting = tuple(i for i in self.own if self.counts(i.requested_time))
            self._counted = replace(self.own, instants=counting)
        return self._counted

    def base_times(self, partition: str) -> dict[str, int]:
        """Return the number of file groups of a partition by the requested time of their base file; the empty text means no base file."""
        pieces = self.pieces_to_write(partition)
        return Counter("" if piece.base is None else piece.base.name.requested_time for piece in pieces)

    def _newest(self, bases: list[BaseFile], logs: list[LogFile]) -> Iterable[SlicePiece]:
        """Return the newest slice of a file group, if it has valid files. Older files are not checked, because their instants may be archived."""
        times = sorted({base.name.requested_time for base in bases}, reverse=True)
        newest = next(filter(self.counts, times), "")
        kept = [base for base in bases if base.name.requested_time == newest]
        later = [log for log in logs if self._completed(log.name.requested_time) >= newest]
        found = slices_of(kept, [log for log in later if self.counts(log.name.requested_time)], self._completed)
        yield from found[-1:]

    def _completed(self, requested_time: str) -> str:
        known = self._completions.get(requested_time)
        if known is None:
            found = self.own.find(requested_time)
            known = requested_time if found is None else found.completion_time or requested_time
            self._completions[requested_time] = known
        return known

    def _block(self, reader: LogReader, block: LogBlock, find: Find, path: str) -> Iterator[Arrival]:
        if block.type is BlockType.DELETE:
            for deletes in read_delete_columns(reader.content(block), path):
                yield Arrival("", None, pc.fill_null(deletes.keys, ""))
        elif block.type is BlockType.HFILE_DATA:
            found = HFileReader.of_bytes(reader.content(block), path)
            yield from self._found(found, find, block.headers.get(Header.SCHEMA))
        elif block.type is not BlockType.COMMAND:
            raise CorruptHFileError(
                f"The metadata table has a log block of type {block.type.name}",
                path=path,
                hint=REBUILD,
            )

    def _found(self, reader: HFileReader, find: Find, schema: str | None = None) -> Iterator[Arrival]:
        before = reader.blocks_read
        for entries in find(reader):
            yield Arrival(reader.schema or schema or "", entries)
        self.blocks_read += reader.blocks_read - before


def everything(reader: HFileReader) -> Iterator[Entries]:
    """Return all entries."""
    return reader.scan()


def with_keys(keys: Sequence[str]) -> Find:
    """Return the entries with these keys."""
    wanted = [key.encode("utf-8") for key in keys]
    return lambda reader: reader.lookup(wanted)


def with_key_column(keys: pa.StringArray) -> Find:
    """Return the entries that have one of these keys. With many keys, no key becomes a Python object; keys are sorted if a file must be searched."""
    if len(keys) <= FEW:
        return with_keys(keys.to_pylist())

    @cache
    def wanted() -> pa.Array:
        unique = pc.unique(keys.cast(pa.binary()))
        return unique.take(pc.sort_indices(unique))

    return lambda reader: reader.lookup_column(wanted())


def with_prefixes(prefixes: Sequence[str]) -> Find:
    """Return the entries whose keys have one of these prefixes."""
    wanted = [prefix.encode("utf-8") for prefix in prefixes]
    return lambda reader: reader.lookup_prefixes(wanted)
