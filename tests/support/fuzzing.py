"""Damaged input for every parser. The same number gives the same case, so that failures can be repeated.

`PYHUDI_FUZZ` is a factor: 1 (the default) makes 500 cases a parser, 100 makes 50,000. A case is a good input with a few places changed: bits, bytes,
numbers of four and eight bytes that are too large or negative, pieces cut out, doubled, or taken from another input.

What a parser may do with it: give a value, or raise one of the package's errors; within a second or so, and within a bound of memory that is measured
as the process's resident set (where the system is Linux; elsewhere it is not measured).
"""

from __future__ import annotations

import os
import random
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pyhudi_core.errors import HudiError

FACTOR = int(os.environ.get("PYHUDI_FUZZ", "1"))
CASES = 500 * FACTOR
MEGABYTE = 1 << 20
_STATUS = Path("/proc/self/status")
_RESET = Path("/proc/self/clear_refs")
_NUMBERS = (0, 1, -1, 127, 128, 255, 65_535, 65_536, 2**31 - 1, -(2**31), 2**24, 2**28)
_LONGS = (*_NUMBERS, 2**32, 2**40, 2**62, 2**63 - 1, -(2**63))


@dataclass
class Memory:
    """The largest growth of the resident set in bytes; 0 if it cannot be measured."""

    grown: int = 0


@contextmanager
def measured_memory() -> Iterator[Memory]:
    """Measure the growth of the resident set inside the block."""
    found = Memory()
    try:
        _RESET.write_text("5")  # the peak starts again from here
        before = _status("VmRSS")
    except OSError:
        yield found
        return
    yield found
    found.grown = max(0, _status("VmHWM") - before)


def _status(name: str) -> int:
    line = next(line for line in _STATUS.read_text().splitlines() if line.startswith(f"{name}:"))
    return int(line.split()[1]) << 10


def damaged(good: Sequence[bytes], number: int, edges: Sequence[slice] = ()) -> bytes:
    """The damaged input with this number. ``edges`` are positions where damage has larger effects; every second change is at one of them."""
    chance = random.Random(number)
    data = bytearray(chance.choice(good))
    for _ in range(chance.choice((1, 1, 1, 2, 3, 4))):
        if not data:
            break
        first, end = 0, len(data)
        if edges and chance.random() < 0.5:
            first, end, _ = chance.choice(edges).indices(len(data))
        at = chance.randrange(first, max(end, first + 1))
        chance.choice(_CHANGES)(data, min(at, len(data) - 1), chance, good)
    return bytes(data)


def _flip(data: bytearray, at: int, chance: random.Random, good: Sequence[bytes]) -> None:
    data[at] ^= 1 << chance.randrange(8)


def _byte(data: bytearray, at: int, chance: random.Random, good: Sequence[bytes]) -> None:
    data[at] = chance.choice((0, 1, 2, 0x7F, 0x80, 0xFE, 0xFF, chance.randrange(256)))


def _number(data: bytearray, at: int, chance: random.Random, good: Sequence[bytes]) -> None:
    wide = chance.random() < 0.5
    order = chance.choice("<>")
    value = struct.pack(f"{order}{'q' if wide else 'i'}", chance.choice(_LONGS if wide else _NUMBERS))
    data[at : at + len(value)] = value


def _varint(data: bytearray, at: int, chance: random.Random, good: Sequence[bytes]) -> None:
    data[at : at + 1] = b"\xff" * chance.randint(1, 9) + b"\x01"


def _cut(data: bytearray, at: int, chance: random.Random, good: Sequence[bytes]) -> None:
    if chance.random() < 0.3:
        del data[at:]
    else:
        del data[at : at + chance.randint(1, 60)]


def _double(data: bytearray, at: int, chance: random.Random, good: Sequence[bytes]) -> None:
    data[at:at] = data[at : at + chance.randint(1, 300)] * chance.choice((1, 1, 2, 50))


def _splice(data: bytearray, at: int, chance: random.Random, good: Sequence[bytes]) -> None:
    other = chance.choice(good)
    start = chance.randrange(len(other) + 1)
    data[at : at + chance.randint(0, 200)] = other[start : start + chance.randint(0, 200)]


def _noise(data: bytearray, at: int, chance: random.Random, good: Sequence[bytes]) -> None:
    data[at:at] = chance.randbytes(chance.randint(1, 20))


_CHANGES = (_flip, _flip, _byte, _byte, _number, _number, _varint, _cut, _double, _splice, _noise)


@dataclass(frozen=True)
class Fuzzed:
    """One parser. ``read`` is called with damaged bytes; ``good`` are inputs that it reads without an error.

    Attributes:
        limit: by how many bytes the resident set may grow over all cases.
        seconds: how much of the processor's time one case may take in this process.
        share: one in so many cases, for parsers that take long.
        file: the path that each error has to name.
    """

    name: str
    read: Callable[[bytes], object]
    good: Sequence[bytes]
    edges: Sequence[slice] = ()
    limit: int = 96 * MEGABYTE
    seconds: float = 5.0
    share: int = 1
    file: str | None = None
    errors: tuple[type[Exception], ...] = field(default=(HudiError,))

    def check(self) -> None:
        """Read every damaged input. Fails at the first that neither returns a value nor raises a typed error."""
        refused = self._all()
        assert refused, "no case was damaged enough to be noticed"
        assert refused < CASES // self.share, "every case was refused, so nothing beyond the first check was reached"

    def check_without_errors(self) -> None:
        """The same for parsers that return nothing for unreadable input instead of an error."""
        assert not self._all()

    def _all(self) -> int:
        for data in self.good:
            self.read(data)
        refused = 0
        with measured_memory() as memory:
            for number in range(0, CASES, self.share):
                refused += self._one(number)
        assert memory.grown <= self.limit, f"{self.name} took {memory.grown / MEGABYTE:.0f} MB"
        return refused

    def _one(self, number: int) -> bool:
        data = damaged(self.good, number, self.edges)
        started = time.process_time()
        refused = False
        try:
            self.read(data)
        except self.errors as error:
            refused = True
            assert str(error), number
            assert self.file is None or getattr(error, "path", None) == self.file, (
                f"case {number} of {self.name}: {error}"
            )
        except Exception as error:
            raise AssertionError(f"case {number} of {self.name} ({len(data)} bytes) raised {error!r}") from error
        took = time.process_time() - started
        assert took < self.seconds, f"case {number} of {self.name} took {took:.1f} s"
        return refused
