"""The program of the process that decodes ORC (see ``isolated``): it needs pyarrow alone, nothing of this package.

In: four bytes with the length of a JSON text (columns, stripes, bytes of address space), the text, the file. Out: an Arrow stream with one
batch for each stripe. What pyarrow refuses goes to standard error, with status 1.
"""

from __future__ import annotations

import json
import resource
import sys
from typing import BinaryIO

import pyarrow as pa
from pyarrow import orc

REFUSED = 1


def decode(given: BinaryIO, out: BinaryIO) -> None:
    """Decode the stripes that are asked for, one after the other."""
    asked = json.loads(given.read(int.from_bytes(given.read(4), "big")))
    resource.setrlimit(resource.RLIMIT_AS, (asked["bytes"], asked["bytes"]))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    file = orc.ORCFile(pa.BufferReader(given.read()))
    writer = None
    for number in asked["stripes"]:
        batch = file.read_stripe(number, columns=asked["columns"])
        batch.validate(full=True)
        writer = writer or pa.ipc.new_stream(out, batch.schema)
        writer.write_batch(batch)
    if writer is not None:
        writer.close()


def main() -> int:
    """Run once; the exit status."""
    try:
        decode(sys.stdin.buffer, sys.stdout.buffer)
    except (pa.ArrowException, OSError, ValueError, MemoryError, OverflowError) as error:
        sys.stderr.write(f"{type(error).__name__}: {error!s:.500}")
        return REFUSED
    return 0


if __name__ == "__main__":
    sys.exit(main())
