"""A process that holds a lock: `python -m locks.holding LOCATION OPTIONS`. Says `held`, and for each line of input whether it still holds the lock."""

from __future__ import annotations

import json
import sys

from pyhudi_core.lock.kind import LockRequest
from pyhudi_core.lock.kinds import open_lock
from pyhudi_core.options import WriteOptions
from pyhudi_core.runtime.system import system_runtime
from pyhudi_core.storage import open_storage


def main() -> None:
    """Hold the lock until the input ends."""
    location, given = sys.argv[1], json.loads(sys.argv[2])
    options = WriteOptions.parse(given)
    request = LockRequest(open_storage(location), system_runtime(1), "orders", options.lock)
    session = open_lock(request).acquire(60, "another process")
    print("held", flush=True)
    for _ in sys.stdin:
        print(session.still_held(), flush=True)
    session.release()


if __name__ == "__main__":
    main()
