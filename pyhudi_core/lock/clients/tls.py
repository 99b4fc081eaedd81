"""TLS of the clients of lock servers: the server's certificate and its name are always checked."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from pyhudi_core.errors import InvalidOptionError
from pyhudi_core.lazy import lazy

if TYPE_CHECKING:
    import ssl
else:
    ssl = lazy("ssl")


def refuse_missing_file(path: str, key: str) -> None:
    """Raise `InvalidOptionError` if an option names a file that is not there."""
    if path and not os.path.isfile(path):
        raise InvalidOptionError(
            f"{key} is no file: {path}", hint="Give a file in the format PEM, which this process can read."
        )


def checking(ca: str, key: str) -> ssl.SSLContext:
    """Return a TLS context that checks certificate and name against the authorities in a file, or those of this machine.

    ``key``: the option with the file.
    """
    refuse_missing_file(ca, key)
    try:
        return ssl.create_default_context(cafile=ca or None)
    except OSError as error:
        raise InvalidOptionError(
            f"{key} has no certificates: {ca}",
            hint="Give a file with the certificates of the authorities, in the format PEM.",
        ) from error
