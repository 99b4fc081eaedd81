"""The columns of one row group of a Parquet file: their bytes, and the number of rows that may be decoded at once.

The bytes are read once, with neighbouring columns together; the headers of their pages are checked; then Arrow decodes them from memory. So Arrow
allocates only memory for checked pages, whatever the footer says.

Invariants
- Arrow gets the bytes of the checked columns, and no others;
- one decoding step makes at most `_BATCH_BYTES`, and a few pages of each column, which `MOST_BYTES` bounds.
"""

from __future__ import annotations

import io
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from pyhudi_core.errors import LimitExceededError
from pyhudi_core.formats.base_file.parquet_pages import (
    Chunk,
    Leaf,
    Pages,
    chunks,
    leaves,
    longest_entry,
    numbered_columns,
    read_pages,
)
from pyhudi_core.runtime.system import PAGE_BYTES, page_bytes

MOST_BYTES = 128 << 20
"""Inflated bytes that pages of all columns, or lists of any length, may have at once; larger files may have more (`_FOR_EACH_BYTE`)."""
_FOR_EACH_BYTE = 4
_BATCH_BYTES = 128 << 20
_NEIGHBOURS_BYTES = 8 << 10
_READ_BYTES = 32 << 20
_LEVEL_BYTES = 4
_NUMBER_BYTES = 4
_PADDING_BYTES = 100
"""An old writer stored a wrong length in its files. Arrow reads up to this number of additional bytes of these files."""


class RowGroups:
    """The columns of an open file. ``metadata``: the footer, by the numbers of the fields. Raises ValueError for an invalid footer.

    Attributes:
        file: the columns that were read, as a file for Arrow.
        numbered: the columns that Arrow must read as numbers of dictionary entries, with their complete names.
    """

    def __init__(self, source: pa.NativeFile, metadata: dict[int, Any]) -> None:
        self._source = source
        self._size: int = source.size()
        self._metadata = metadata
        self._leaves = leaves(metadata)
        self._held = _Held(source, self._size)
        self.file = pa.PythonFile(self._held, mode="r")
        names = [".".join(leaf.path) for leaf in self._leaves]
        texts = numbered_columns(metadata, self._leaves) if len(set(names)) == len(names) else set()
        self.numbered = [names[place] for place in sorted(texts)]
        self._late = texts

    @contextmanager
    def read(self, number: int, rows: int, columns: Collection[str] | None, batch_rows: int) -> Iterator[int]:
        """Read the bytes of these top-level columns of a row group with ``rows`` rows; yield the number of rows that may be decoded at once.

        Raises:
            ValueError: the bytes are not pages.
            LimitExceededError: the decompressed bytes exceed `MOST_BYTES`.
        """
        found = chunks(self._metadata, number, self._size)
        if len(found) != len(self._leaves):
            raise ValueError("a row group has other columns than the file")
        chosen = [place for place, leaf in enumerate(self._leaves) if _is_wanted(leaf, columns)]
        costs, inflated, compressed = [], 0, 0
        held: dict[int, memoryview] = {}
        for data, at, place in read_columns(self._source, found, chosen):
            chunk = found[place]
            held[chunk.start] = memoryview(data)[at : at + chunk.length]
            pages = read_pages(data, at, at + chunk.length) if chunk.has_values else Pages()
            inflated += pages.inflated
            compressed += chunk.length
            costs.append(_Cost(self._leaves[place], pages, place in self._late, data, chunk.codec))
        nested = sum(cost.of_lists() for cost in costs)
        _refuse_large(inflated, nested, compressed)
        while (
            batch_rows > 1
            and sum(cost.of(batch_rows) for cost in costs) + nested * batch_rows // max(rows, 1) > _BATCH_BYTES
        ):
            batch_rows //= 2
        self._held.columns.update(held)
        try:
            yield batch_rows
        finally:
            for start in held:
                self._held.columns.pop(start, None)


def _refuse_large(inflated: int, nested: int, compressed: int) -> None:
    most = page_bytes() or max(MOST_BYTES, _FOR_EACH_BYTE * compressed)
    for what, seen in (("pages", inflated), ("lists", nested)):
        if seen > most:
            raise LimitExceededError(
                f"The {what} of a row group of a Parquet file inflate to more bytes than the limit",
                limit=most,
                seen=seen,
                hint=f"If the file is to be trusted, set the environment variable {PAGE_BYTES} to a larger number, or read fewer columns.",
            )


@dataclass(slots=True)
class _Cost:
    """The memory for decoded values of a column. ``late``: the values are numbers of dictionary entries."""

    leaf: Leaf
    pages: Pages
    late: bool
    data: bytes
    codec: int
    longest: int | None = None

    def of(self, rows: int) -> int:
        """Return the bytes of ``rows`` rows of a column without lists."""
        if self.leaf.nested:
            return 0
        if self.leaf.width:
            return rows * self.leaf.width
        plain = rows * self.pages.each
        plain = plain if self.pages.plain is None else min(plain, self.pages.plain)
        return plain + (rows * _NUMBER_BYTES if self.late else self._of_entries(rows))

    def of_lists(self) -> int:
        """Return the bytes of all values of a column with lists: one row may have all of them."""
        if not self.leaf.nested:
            return 0
        values, pages = self.pages.values, self.pages
        if self.leaf.width:
            return values * (self.leaf.width + _LEVEL_BYTES)
        plain = values * pages.each if pages.plain is None else pages.plain
        return values * (_NUMBER_BYTES + _LEVEL_BYTES) + plain + (0 if self.late else self._of_entries(values))

    def _of_entries(self, values: int) -> int:
        """Return the bytes of values that are numbers of dictionary entries and become texts while they are decoded."""
        values = min(values, self.pages.numbers)
        if values * self.pages.dictionary[2] <= _BATCH_BYTES >> 5:
            return values * self.pages.dictionary[2]
        if self.longest is None:
            self.longest = longest_entry(self.data, self.pages, self.codec)
        return values * self.longest


class _Held(io.RawIOBase):
    """The columns that were read, as a file. Other positions of the file cannot be read."""

    def __init__(self, source: pa.NativeFile, size: int) -> None:
        super().__init__()
        self._source = source
        self._size = size
        self._at = 0
        self.columns: dict[int, memoryview] = {}

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence] + offset
        return self._at

    def read(self, size: int = -1) -> memoryview | bytes:
        found = self.columns.get(self._at)
        if found is None or not len(found) <= size <= len(found) + _PADDING_BYTES:
            raise ValueError("its columns are elsewhere than its footer says")
        at, self._at = self._at, self._at + size
        return found if size == len(found) else bytes(self._source.read_at(size, at))


def _is_wanted(leaf: Leaf, columns: Collection[str] | None) -> bool:
    """Say whether Arrow may read a value column for one of these columns. The name of a column may contain points."""
    return columns is None or any(".".join(leaf.path[:depth]) in columns for depth in range(1, len(leaf.path) + 1))


def read_columns(
    source: pa.NativeFile, found: Sequence[Chunk], chosen: Sequence[int]
) -> Iterator[tuple[bytes, int, int]]:
    """Read columns, neighbours together; yield the bytes that were read, the position of a column in them, and its number."""
    together: list[int] = []
    start = end = 0
    for place in sorted(chosen, key=lambda place: found[place].start):
        chunk = found[place]
        after = chunk.start + chunk.length
        if together and (chunk.start > end + _NEIGHBOURS_BYTES or max(end, after) - start > _READ_BYTES):
            yield from _columns(source, found, together, start, end)
            together = []
        if not together:
            start = end = chunk.start
        together.append(place)
        end = max(end, after)
    if together:
        yield from _columns(source, found, together, start, end)


def _columns(
    source: pa.NativeFile, found: Sequence[Chunk], together: Sequence[int], start: int, end: int
) -> Iterator[tuple[bytes, int, int]]:
    data = source.read_at(end - start, start)
    if len(data) < end - start:
        raise ValueError("it ended while it was read")
    for place in together:
        yield data, found[place].start - start, place
