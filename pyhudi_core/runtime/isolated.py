"""Decode ORC in a child process, because the decoder can crash the process.

pyarrow's ORC reader (Apache ORC's C++ library) crashes on some damaged files instead of refusing them: about one in ten thousand when
fuzzed. The child also has a limit on its address space, so a file that expands without end is refused like any other damage.
"""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence

import pyarrow as pa

from pyhudi_core.runtime import orc_child

_ADDRESS_SPACE = 4 << 30
_FOR_EACH_BYTE = 40
_MESSAGE_BYTES = 4096


def orc_stripes(data: pa.Buffer, columns: Sequence[str], stripes: Sequence[int]) -> Iterator[pa.RecordBatch]:
    """Iterate over the stripes of an ORC file, in the order of ``stripes``.

    Raises:
        ValueError: the file cannot be decoded.
    """
    asked = {"columns": list(columns), "stripes": list(stripes), "bytes": _ADDRESS_SPACE + _FOR_EACH_BYTE * data.size}
    head = json.dumps(asked).encode()
    # The program is passed as text: this package may be inside an archive, and the child needs none of it.
    command = [sys.executable, "-c", inspect.getsource(orc_child)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe) as child:  # noqa: S603  (our own program)
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stderr is not None
        try:
            try:
                child.stdin.write(len(head).to_bytes(4, "big") + head)
                child.stdin.write(memoryview(data))
                child.stdin.close()
                yield from pa.ipc.open_stream(child.stdout)
            except (pa.ArrowInvalid, OSError) as error:
                reason = child.stderr.read(_MESSAGE_BYTES).decode("utf-8", "replace")
                raise ValueError(reason or f"its decoder ended with status {child.wait()}") from error
            if child.wait():
                reason = child.stderr.read(_MESSAGE_BYTES).decode("utf-8", "replace")
                raise ValueError(reason or f"its decoder ended with status {child.returncode}")
        finally:
            child.kill()
