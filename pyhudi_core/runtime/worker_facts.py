"""Facts about a worker of Spark, found by a function that runs there.

The function is sent as code, so it also runs on a worker without this package.
"""

from __future__ import annotations


def worker_facts(number: object = None, path: str = "") -> str:
    """Return a JSON object: host, python, the versions of pyarrow and of this package (or why they cannot be imported), the digest of a file."""
    # Imports are in here, because a worker may have nothing but Python.
    import hashlib  # noqa: PLC0415
    import importlib  # noqa: PLC0415
    import json  # noqa: PLC0415
    import os  # noqa: PLC0415
    import socket  # noqa: PLC0415
    import sys  # noqa: PLC0415

    found = {"host": socket.gethostname(), "executable": sys.executable, "python": "%d.%d" % sys.version_info[:2]}  # noqa: UP031
    for name in ("pyarrow", "pyhudi_core"):
        try:
            found[name] = str(importlib.import_module(name).__version__)
        except Exception as error:  # noqa: BLE001  (whatever it is, the package cannot be used)
            found[name + " error"] = f"{type(error).__name__}: {error}"
            sys.modules.pop(name, None)  # a folder of this name, in place of a package
    if path and os.path.isfile(path):
        with open(path, "rb") as file:
            found["digest"] = hashlib.sha256(file.read()).hexdigest()
    return json.dumps(found)
