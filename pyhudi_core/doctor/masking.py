"""Mask secrets in the bytes of a table's files. Masking keeps the length, because Avro counts bytes."""

from __future__ import annotations

from pyhudi_core.errors import HudiError
from pyhudi_core.formats.avro.container import MAGIC, decode_record
from pyhudi_core.model.masking import is_secret, masked

_SHORTEST = 4
"""Shorter values would be masked all over the file."""
_MOST = 100
"""Secrets of one file. The file is read once for each."""


def masked_file(data: bytes) -> bytes:
    """Return bytes of the same length with secrets masked; stars alone if there are too many secrets."""
    if not data.startswith(MAGIC):
        return masked(data)
    secrets = _avro_secrets(data)
    if len(secrets) > _MOST:
        return b"*" * len(data)
    for secret in secrets:
        data = data.replace(secret, b"*" * len(secret))
    # In Avro, names and values of options are not adjacent text; text that looks so is part of a schema.
    return masked(data, options=False)


def _avro_secrets(data: bytes) -> list[bytes]:
    """Return the values in an Avro file's maps whose keys are names of secrets."""
    try:
        waiting: list[object] = [decode_record(data)]
    except HudiError:
        return []
    found: set[bytes] = set()
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            for key, value in item.items():
                if isinstance(value, str) and len(value) >= _SHORTEST and is_secret(str(key)):
                    found.add(value.encode())
                elif not isinstance(value, str):
                    waiting.append(value)
        elif isinstance(item, list):
            waiting.extend(item)
    return sorted(found, key=len, reverse=True)
