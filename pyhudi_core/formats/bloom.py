"""Bloom filters of record keys, as stored in the footers of base files.

The bytes are those of Hudi's ``SimpleBloomFilter`` and ``HoodieDynamicBoundedBloomFilter`` (the specification,
"Base Files", only names the footer keys; the layout was compared byte for byte with files of Hudi 1.0.2 and 1.2.0),
big endian:

    row      int -1, int hashes, byte 1 (Murmur), int bits, then the bits, the first one lowest in the first byte
    SIMPLE   one row
    DYNAMIC  int -1, int hashes, byte 1, int bits; int entries a row, int keys in the last row, int rows; rows

Invariant: an added key is always contained. A key that was not added may be reported as contained, too, with about the filter's error rate, while
the filter holds no more keys than its size is made for.

Hudi sizes every filter for the same number of keys (430 KB by default, even in a file with one row). `BloomBuilder` sizes the filter of a
small file for about twice its keys; all releases of Hudi read it, since the bytes contain the size. `BloomBuilder` also makes a small filter for a
file with so many keys that Hudi's filter would report nine of ten keys of any other file as contained: that file gets a few bits, which contain
every key, and no key is hashed for it.
"""

from __future__ import annotations

import base64
import binascii
import math
import struct
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pyhudi_core.errors import CorruptBaseFileError
from pyhudi_core.formats.key_hash import KeyBlock, Keys, blocks, chains, key_chunks, refuse_null

DYNAMIC = "DYNAMIC_V0"
SIMPLE = "SIMPLE"

_HEADER = struct.Struct(">iibi")
_DYNAMIC = struct.Struct(">iii")
_VERSION = -1
_MURMUR = 1
_MAX_HASHES = 1024
_LEAST_ENTRIES = 128
_LEAST_BITS = 64

# Up to this number, keys of one length are hashed one by one: each step over an array costs as much as some hundred numbers.
_SINGLY = 12
# A filter is not unpacked to look up at most this number of keys.
_FEW_KEYS = 1_000
# A filter that contains this share of absent keys is not worth its bytes and its hashes.
_USELESS = 0.9
# Keys wait, up to this number of bytes, until their number is known.
_WAITING_BYTES = 32 << 20
_COUNTER_MOST = 2**31 - 1

Bits = npt.NDArray[np.bool_]
Packed = npt.NDArray[np.uint8]


class BloomFilter:
    """A set of record keys, which may also report a key that was not added. Created by `empty` or `from_footer`."""

    __slots__ = (
        "_bits",
        "_full",
        "_hashes",
        "_max_entries",
        "_next_row",
        "_packed",
        "_row_entries",
        "_row_keys",
        "_unpacked",
    )

    def __init__(
        self,
        bits: int,
        hashes: int,
        rows: list[Bits],
        *,
        row_entries: int | None,
        max_entries: int,
        packed: list[Packed] | None = None,
    ) -> None:
        self._bits = bits
        self._hashes = hashes
        self._unpacked = rows
        # The rows as they were read, until it pays to unpack each bit to a byte.
        self._packed = packed
        self._row_entries = row_entries
        self._max_entries = max_entries
        self._row_keys = 0
        self._full = False
        self._next_row = 0

    @classmethod
    def empty(
        cls, entries: int = 60_000, fpp: float = 1e-9, max_entries: int = 100_000, *, type_code: str = DYNAMIC
    ) -> BloomFilter:
        """Return a filter without keys.

        Args:
            entries: the number of keys for which one row of bits is sized.
            fpp: the share of absent keys that are reported as contained, at that number of keys.
            max_entries: a dynamic filter gets more rows of bits, up to the size for this number of keys.
            type_code: `DYNAMIC`, or `SIMPLE` with one row of bits for all keys.
        """
        if entries < 1 or not 0 < fpp < 1 or type_code not in (DYNAMIC, SIMPLE):
            raise ValueError(f"no bloom filter for {entries} entries, fpp {fpp}, type {type_code}")
        bits, hashes = _size(entries, fpp)
        rows = [_no_bits(bits)]
        row_entries = entries if type_code == DYNAMIC else None
        return cls(bits, hashes, rows, row_entries=row_entries, max_entries=max_entries)

    @classmethod
    def of_every_key(cls, sizing: BloomSizing, keys: int) -> BloomFilter:
        """Return the small filter for a file with too many keys: it contains every key."""
        row = np.ones(_LEAST_BITS, np.bool_)
        made = cls(_LEAST_BITS, 1, [row], row_entries=sizing.entries, max_entries=sizing.max_entries)
        made._row_keys, made._full = min(keys, _COUNTER_MOST), True
        return made

    @classmethod
    def from_footer(
        cls, text: str, type_code: str | None, *, max_entries: int = 100_000, path: str | None = None
    ) -> BloomFilter:
        """Return the filter of a footer.

        Args:
            text: value of ``org.apache.hudi.bloomfilter``.
            type_code: value of ``hoodie_bloom_filter_type_code``; missing for SIMPLE.
            max_entries: as in `empty`; the footer does not have it.
            path: the file, for errors.

        Raises:
            CorruptBaseFileError: the text is not such a filter.
        """
        try:
            data = base64.b64decode(text, validate=True)
            if type_code == DYNAMIC:
                return _read_dynamic(data, max_entries)
            if type_code not in (None, SIMPLE):
                raise ValueError(f"type {type_code!r:.50} is not known")
            bits, hashes, row, end = _read_row(data, 0)
            if end != len(data):
                raise ValueError("there are bytes after the filter")
            return cls(bits, hashes, [], row_entries=None, max_entries=max_entries, packed=[row])
        except (ValueError, struct.error, binascii.Error) as error:
            raise CorruptBaseFileError(
                f"The bloom filter cannot be read: {error}",
                path=path,
                detail=str(error),
                hint="Rows are intact; the file can be read without the filter, and clustering writes a new one",
            ) from error

    def to_footer(self) -> tuple[str, str | None]:
        """Return the values of ``org.apache.hudi.bloomfilter`` and of ``hoodie_bloom_filter_type_code`` (None: omit it)."""
        header = _HEADER.pack(_VERSION, self._hashes, _MURMUR, self._bits)
        size = _byte_size(self._bits)
        rows = [header + np.packbits(row, bitorder="little")[:size].tobytes() for row in self._rows]
        if self._row_entries is None:
            return base64.b64encode(rows[0]).decode(), None
        counts = _DYNAMIC.pack(self._row_entries, self._row_keys, len(rows))
        return base64.b64encode(b"".join((header, counts, *rows))).decode(), DYNAMIC

    @property
    def row_entries(self) -> int | None:
        """Return the number of keys for which one row is sized; None for a simple filter, whose bytes do not contain it."""
        return self._row_entries

    @property
    def keys(self) -> int:
        """Return the number of added keys; 0 for a simple filter, where it is unknown."""
        return 0 if self._row_entries is None else (self._row_count - 1) * self._row_entries + self._row_keys

    @property
    def _row_count(self) -> int:
        return len(self._unpacked if self._packed is None else self._packed)

    def copy(self) -> BloomFilter:
        """Return a copy; adding keys to it does not change this filter."""
        made = BloomFilter(
            self._bits,
            self._hashes,
            [row.copy() for row in self._rows],
            row_entries=self._row_entries,
            max_entries=self._max_entries,
        )
        made._row_keys, made._full, made._next_row = self._row_keys, self._full, self._next_row
        return made

    def add(self, keys: pa.Array | pa.ChunkedArray) -> None:
        """Add record keys (strings or binary). Raises `InvalidRecordKeyError` for null."""
        for chunk in key_chunks(keys):
            if self._row_entries is None:
                self._set(chunk, self._rows[0])
            else:
                self._add_dynamic(chunk, self._row_entries)

    def might_contain(self, keys: pa.Array | pa.ChunkedArray) -> npt.NDArray[np.bool_]:
        """Return for each key False if it was certainly not added. Raises `InvalidRecordKeyError` for null."""
        found = [self._find(chunk) for chunk in key_chunks(keys)]
        return np.concatenate(found) if found else np.zeros(0, np.bool_)

    def _add_dynamic(self, keys: Keys, row_entries: int) -> None:
        while len(keys) and not self._full:
            space = row_entries - self._row_keys
            if space <= 0 and len(self._rows) * row_entries < self._max_entries:
                self._rows.append(_no_bits(self._bits))
                self._row_keys = 0
                continue
            if space <= 0:
                # Java puts the key that finds the filter full into the first row, and reuses rows in turn only
                # afterwards.
                self._full, space = True, 1
            row = self._rows[0] if self._full else self._rows[-1]
            taken = min(space, len(keys))
            self._set(keys.pick(slice(0, taken)), row)
            self._row_keys += taken
            keys = keys.pick(slice(taken, None))
        self._add_around(keys)

    def _add_around(self, keys: Keys) -> None:
        count = len(self._rows)
        for number in range(min(count, len(keys))):
            row = self._rows[(self._next_row + number) % count]
            self._set(keys.pick(slice(number, None, count)), row)
        self._next_row = (self._next_row + len(keys)) % count
        # Java's counter is a signed 32-bit number; readers only check whether the row is full.
        self._row_keys = min(self._row_keys + len(keys), _COUNTER_MOST)

    def _set(self, keys: Keys, row: Bits) -> None:
        if len(keys) <= _SINGLY:
            row[chains(keys, self._hashes, self._bits)] = True
            return
        for block in blocks(keys):
            if len(block.state) <= _SINGLY:
                self._set(keys.pick(block.index), row)
                continue
            for _ in range(self._hashes):
                block.advance()
                row[block.positions(self._bits)] = True

    @property
    def _rows(self) -> list[Bits]:
        """Return the rows, with a byte for each bit; the caller may change them."""
        if self._packed is not None:
            self._unpacked = [np.unpackbits(row, bitorder="little").view(np.bool_) for row in self._packed]
            self._packed = None
        return self._unpacked

    def _find(self, keys: Keys) -> npt.NDArray[np.bool_]:
        found = np.zeros(len(keys), np.bool_)
        rows = self._packed if self._packed is not None and len(keys) <= _FEW_KEYS else self._rows
        for row in rows:
            left = np.flatnonzero(~found)
            for block in blocks(keys.pick(left)):
                found[left[self._survivors(block, row).index]] = True
        return found

    def _survivors(self, block: KeyBlock, row: Bits | Packed) -> KeyBlock:
        """Return the keys of the block whose positions are all set in the row."""
        for _ in range(self._hashes):
            block.advance()
            at = block.positions(self._bits)
            hits = (row[at] if row.dtype == np.bool_ else (row[at >> 3] >> (at & 7)) & 1).astype(np.bool_, copy=False)
            if not hits.all():
                block = block.keep(hits)
                if len(block.state) == 0:
                    break
        return block


@dataclass(frozen=True, slots=True)
class BloomSizing:
    """The size of the filters of new files.

    Attributes:
        entries: the maximum number of keys for which a row is sized (``hoodie.index.bloom.num_entries``).
        fpp: the share of absent keys that are reported as contained.
        max_entries: a filter grows by rows up to the size for this many keys.
    """

    entries: int = 60_000
    fpp: float = 1e-9
    max_entries: int = 100_000

    def entries_for(self, keys: int) -> int:
        """Return the number of keys for which a file's filter is sized: the next power of two above twice the number of its keys."""
        return min(self.entries, max(_LEAST_ENTRIES, 1 << max(0, 2 * keys - 1).bit_length()))

    @property
    def most_keys(self) -> int:
        """The number of keys beyond which a filter of full size is `_USELESS`."""
        bits, hashes = _size(self.entries, self.fpp)
        rows = max(1, math.ceil(self.max_entries / self.entries))
        of_a_row = 1 - (1 - _USELESS) ** (1 / rows)
        set_bits = of_a_row ** (1 / hashes)
        return int(-rows * bits / hashes * math.log(1 - set_bits))

    def outgrown(self, bloom: BloomFilter, keys: int) -> bool:
        """Say whether a file with this number of keys needs a new filter, instead of the filter of its last version."""
        return bloom.row_entries is not None and bloom.row_entries < min(self.entries, keys)


class BloomBuilder:
    """Builds the filter of one file. Keys are collected until their number is known, or until they have many bytes.

    Args:
        sizing: the size of filters.
        known: the filter of the file's last version, to which new keys are added; None for a new filter.
    """

    __slots__ = ("_bytes", "_count", "_filter", "_most", "_sizing", "_waiting")

    def __init__(self, sizing: BloomSizing, known: BloomFilter | None = None) -> None:
        self._sizing = sizing
        self._filter = known
        self._waiting: list[pa.Array | pa.ChunkedArray] = []
        self._count = 0 if known is None else known.keys
        self._most = sizing.most_keys
        self._bytes = 0

    def add(self, keys: pa.Array | pa.ChunkedArray) -> None:
        """Add record keys (strings or binary). Raises `InvalidRecordKeyError` for null, here or in `build`."""
        self._count += len(keys)
        if self._count > self._most:
            refuse_null(keys)
            self._filter, self._waiting = None, []
            return
        self._waiting.append(keys)
        self._bytes += keys.nbytes
        if self._filter is not None or self._bytes > _WAITING_BYTES:
            self._take(self._sizing.entries)

    def build(self) -> BloomFilter:
        """Return the filter of all keys so far."""
        if self._count > self._most:
            return BloomFilter.of_every_key(self._sizing, self._count)
        return self._take(self._sizing.entries_for(self._count))

    def _take(self, entries: int) -> BloomFilter:
        """Add the collected keys to the filter; a new filter is sized for ``entries`` keys."""
        found = self._filter or BloomFilter.empty(entries, self._sizing.fpp, self._sizing.max_entries)
        for keys in self._waiting:
            found.add(keys)
        self._filter, self._waiting, self._bytes = found, [], 0
        return found


def _size(entries: int, fpp: float) -> tuple[int, int]:
    """Return the number of bits of a row for this many keys, and the number of bits that each key sets."""
    bits = math.ceil(entries * (-math.log(fpp) / math.log(2) ** 2))
    return bits, math.ceil(math.log(2) * bits / entries)


def _no_bits(bits: int) -> Bits:
    return np.zeros(8 * _byte_size(bits), np.bool_)


def _byte_size(bits: int) -> int:
    return (bits + 7) // 8


def _read_row(data: bytes, at: int) -> tuple[int, int, Packed, int]:
    """Return bits, hashes and content of the row at an offset, and the offset behind it."""
    bits, hashes = _read_header(data, at)
    start = at + _HEADER.size
    end = start + _byte_size(bits)
    if end > len(data):
        raise ValueError(f"a row of {bits} bits does not fit into what is left")
    packed = np.frombuffer(data, np.uint8, end - start, start)
    return bits, hashes, packed, end


def _read_header(data: bytes, at: int) -> tuple[int, int]:
    version, hashes, kind, bits = _HEADER.unpack_from(data, at)
    if version != _VERSION or kind != _MURMUR:
        raise ValueError(f"version {version} with hash type {kind} is not known")
    if not 0 < hashes <= _MAX_HASHES or not 0 < bits <= 8 * len(data):
        raise ValueError(f"{hashes} hashes into {bits} bits cannot be")
    return bits, hashes


def _read_dynamic(data: bytes, max_entries: int) -> BloomFilter:
    bits, hashes = _read_header(data, 0)
    row_entries, row_keys, count = _DYNAMIC.unpack_from(data, _HEADER.size)
    at = _HEADER.size + _DYNAMIC.size
    if row_entries < 1 or row_keys < 0 or count < 1 or at + count * (_HEADER.size + _byte_size(bits)) != len(data):
        raise ValueError(f"{count} rows of {bits} bits do not make up its {len(data)} bytes")
    rows = []
    for _ in range(count):
        own_bits, own_hashes, row, at = _read_row(data, at)
        if (own_bits, own_hashes) != (bits, hashes):
            raise ValueError("its rows differ in size")
        rows.append(row)
    made = BloomFilter(bits, hashes, [], row_entries=row_entries, max_entries=max_entries, packed=rows)
    made._row_keys = row_keys
    return made
