"""Decode ORC in a child process, because the decoder can crash the process.

pyarrow's ORC reader (Apache ORC's C++ library) crashes on some damaged files instead of refusing them: about one in ten thousand when
fuzzed. The child also has limits on its address space and its processor time, so a file that expands without end is refused like any other damage.
"""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from types import ModuleType

import pyarrow as pa

from pyhudi_core.runtime import orc_child

_ADDRESS_SPACE = 2 << 30
_FOR_EACH_BYTE = 40
_SECONDS = 60
_BYTES_FOR_A_SECOND = 1 << 20
_MESSAGE_BYTES = 4096
_KEPT = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "TZDIR")
"""The environment variables that a child gets: paths of libraries and of time zones."""


def orc_stripes(data: pa.Buffer, columns: Sequence[str], stripes: Sequence[int]) -> Iterator[pa.RecordBatch]:
    """Iterate over the rows of stripes of an ORC file, in the order of ``stripes``, in batches of bounded bytes.

    Raises:
        ValueError: the file cannot be decoded.
    """
    asked = {
        "columns": list(columns),
        "stripes": list(stripes),
        "bytes": _ADDRESS_SPACE + _FOR_EACH_BYTE * data.size,
        "seconds": _SECONDS + data.size // _BYTES_FOR_A_SECOND,
    }
    head = json.dumps(asked).encode()
    with python_child(orc_child, pa) as child:
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


def python_child(program: ModuleType, *packages: ModuleType) -> subprocess.Popen[bytes]:
    """Start a Python process that runs a program's source, with pipes for input, output and errors. All child processes are started here.

    The child does not depend on this process's environment. Its folder is the root of the disk. It imports the standard library and ``packages`` from
    the paths of this process, and no module of the working folder, of PYTHONPATH, of the user's site or of a ``.pth`` file. Its environment has no
    secret, because it gets only `_KEPT`. No file of this process is open in the child. The program sets its own limits of time and memory
    (`orc_child`).
    """
    # The program is passed as text: this package may be inside an archive, and the child needs none of it.
    homes = sorted({os.path.dirname(os.path.dirname(os.path.abspath(package.__file__ or ""))) for package in packages})
    text = f"import sys\nsys.path += {homes!r}\nexec({inspect.getsource(program)!r})\n"
    environment = {name: os.environ[name] for name in _KEPT if name in os.environ}
    pipe = subprocess.PIPE
    command = [sys.executable, "-I", "-S", "-c", text]
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, cwd="/", env=environment)  # noqa: S603  (our own program)
