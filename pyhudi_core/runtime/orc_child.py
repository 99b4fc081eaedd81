"""The program of the child process that decodes ORC (see ``isolated``). It needs pyarrow, but nothing of this package.

Input: four bytes with the length of a JSON text (columns, stripes, limits of address space in bytes and of processor time in seconds), the text, the
file. Output: an Arrow stream with the rows of the stripes, in batches of bounded bytes. No batch has rows of two stripes. If pyarrow refuses the
file, its error goes to standard error, and the exit status is 1.
"""

from __future__ import annotations

import json
import resource
import sys
from collections.abc import Iterator
from typing import BinaryIO

import pyarrow as pa
from pyarrow import orc

REFUSED = 1
PART_BYTES = 64 << 20


def decode(given: BinaryIO, out: BinaryIO) -> None:
    """Decode the requested stripes, one after the other."""
    asked = json.loads(given.read(int.from_bytes(given.read(4), "big")))
    limit(resource.RLIMIT_AS, asked["bytes"])
    limit(resource.RLIMIT_CPU, asked["seconds"])
    limit(resource.RLIMIT_FSIZE, 0)
    limit(resource.RLIMIT_CORE, 0)
    file = orc.ORCFile(pa.BufferReader(given.read()))
    writer = None
    for number in asked["stripes"]:
        batch = file.read_stripe(number, columns=asked["columns"])
        batch.validate(full=True)
        writer = writer or pa.ipc.new_stream(out, batch.schema)
        for part in parts(batch):
            writer.write_batch(part)
    if writer is not None:
        writer.close()


def parts(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a batch in batches of at most `PART_BYTES`, or of one row; none without rows."""
    if batch.num_rows <= 1 or batch.nbytes <= PART_BYTES:
        if batch.num_rows:
            yield batch
        return
    middle = batch.num_rows // 2
    yield from parts(batch.slice(0, middle))
    yield from parts(batch.slice(middle))


def limit(kind: int, most: int) -> None:
    """Lower a limit of this process. A lower limit of the machine does not change."""
    hard = resource.getrlimit(kind)[1]
    lowest = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(kind, (lowest, lowest))


def main() -> int:
    """Decode one file; return the exit status."""
    try:
        decode(sys.stdin.buffer, sys.stdout.buffer)
    except (pa.ArrowException, OSError, ValueError, MemoryError, OverflowError) as error:
        sys.stderr.write(f"{type(error).__name__}: {error!s:.500}")
        return REFUSED
    return 0


if __name__ == "__main__":
    sys.exit(main())
