"""Find where the items of a list of deletes begin and end; numpy does the work, for all items of a window at once.

Specification, "Log Format"; the schema is that of ``model/delete_records.py``: a key, a partition path, and an ordering value in a wrapper, whose
number determines the length of the value. Nothing in the file says where an item begins. So each byte that can begin an item (a key that is not null
begins with byte 2) is tried as its beginning. Most bytes inside of an item fail this test. Of the remaining bytes, only a byte that directly follows
the previous item counts.

Invariants: the result is a chain of items from the given position, without a gap; it may be empty. Memory depends on the window, not on the bytes.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pyhudi_core.formats.avro.cursor import Ints

Bytes = npt.NDArray[np.uint8]

PADDING = 32
"""The number of bytes that must follow the list."""
WINDOW = 1 << 18
_MOST_ORDERINGS = 16
_PRESENT = 2
_NULL = 0
_NUMBER, _BYTES, _SEVERAL, _NONE = 16, 17, 18, 19


def _shapes(twelfth: int) -> Bytes:
    """Return, by the byte that names a wrapper, the number of bytes of its value (up to 8), or the form of the value."""
    found = np.full(256, _NONE, np.uint8)
    branches = (0, 1, _NUMBER, _NUMBER, 4, 8, _BYTES, _BYTES, _NUMBER, _BYTES, _NUMBER, _NUMBER, twelfth)
    found[0 : 2 * len(branches) : 2] = branches
    return found


_OF_DELETE, _OF_ITEM = _shapes(_SEVERAL), _shapes(_NUMBER)


def find_items(data: Bytes, size: int, first: int, most: int) -> tuple[Ints, Ints]:
    """Return begin and end of consecutive items from ``first`` on, at most ``most``, in a list that ends at ``size``.

    All items begin in one window. None is found if there is no item with a key at ``first``, or if its form is not supported here.
    """
    starts = first + np.flatnonzero(data[first : min(first + WINDOW, size)] == _PRESENT)
    at = _behind_bytes(data, size, starts + 1)
    starts, at = _inside(size, starts, at)
    partition = data[at]
    at = np.where(
        partition == _PRESENT, _behind_bytes(data, size, at + 1), np.where(partition == _NULL, at + 1, size + 1)
    )
    starts, at = _inside(size, starts, at)
    starts, ends = _inside(size, starts, _behind_ordering(data, size, at, _OF_DELETE))
    chain = _chain(starts, ends, first)[:most]
    return starts[chain], ends[chain]


def _inside(size: int, starts: Ints, at: Ints) -> tuple[Ints, Ints]:
    inside = at <= size
    return starts[inside], at[inside]


def _chain(starts: Ints, ends: Ints, first: int) -> Ints:
    """Return the numbers of the items that follow one another from ``first``."""
    count = len(starts)
    if not count or starts[0] != first:
        return np.zeros(0, np.int64)
    if (ends[:-1] == starts[1:]).all():
        return np.arange(count)
    follower = np.searchsorted(starts, ends)
    known = follower < count
    known[known] = starts[follower[known]] == ends[known]
    # In each round the chain doubles: ``jump`` leads as many items on as the chain has. ``count`` is the end.
    jump = np.append(np.where(known, follower, count), count)
    chain = np.zeros(1, np.int64)
    while chain[-1] != count:
        chain = np.concatenate([chain, jump[chain]])
        jump = jump[jump]
    return chain[chain != count]


def _number(data: Bytes, size: int, at: Ints) -> tuple[Ints, Ints]:
    """Return numbers in their encoded form (twice the value, or an odd number for a negative value), and their end positions."""
    first = data[at]
    value = (first & 0x7F).astype(np.int64)
    behind = at + 1
    going = np.flatnonzero(first >= 0x80)
    for number in range(1, 10):
        if not len(going):
            break
        byte = data[at[going] + number]
        value[going] |= (byte & 0x7F).astype(np.int64) << (7 * number)
        behind[going] += 1
        going = going[byte >= 0x80]
    behind[going] = size + 1
    return value, behind


def _behind_bytes(data: Bytes, size: int, at: Ints) -> Ints:
    """Return the end of bytes that follow their length; ``size + 1`` if there are none."""
    value, behind = _number(data, size, at)
    length = value >> 1
    fits = (value & 1 == 0) & (length >= 0) & (length <= size - behind)
    return np.where(fits, behind + length, size + 1)


def _behind_ordering(data: Bytes, size: int, at: Ints, shapes: Bytes) -> Ints:
    """Return the end of a wrapper and its value; a position behind ``size`` if there is no wrapper."""
    shape = shapes[data[at]]
    behind = at + 1 + np.where(shape <= 8, shape, 0)
    behind[shape == _NONE] = size + 1
    for kind in (_NUMBER, _BYTES, _SEVERAL):
        which = np.flatnonzero(shape == kind)
        if not len(which):
            continue
        here = at[which] + 1
        if kind == _NUMBER:
            behind[which] = _number(data, size, here)[1]
        else:
            behind[which] = (_behind_bytes if kind == _BYTES else _behind_several)(data, size, here)
    return behind


def _behind_several(data: Bytes, size: int, at: Ints) -> Ints:
    """Return the end of the array of ordering values: null, or a count, the values, and a 0."""
    present, written = data[at], data[at + 1]
    behind = np.where(present == _NULL, at + 1, size + 1)
    listed = np.flatnonzero((present == _PRESENT) & (written & 1 == 0) & (written <= 2 * _MOST_ORDERINGS))
    here, counts = at[listed] + 2, written[listed] >> 1
    for number in range(int(counts.max(initial=0))):
        which = np.flatnonzero((counts > number) & (here <= size))
        here[which] = _behind_ordering(data, size, here[which], _OF_ITEM)
    closed = np.flatnonzero((here <= size) & (counts > 0))
    here[closed] = np.where(data[here[closed]] == 0, here[closed] + 1, size + 1)
    behind[listed] = here
    return behind
