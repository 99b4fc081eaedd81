"""Hashes that are equal in every process, so that explorations can be repeated."""

from __future__ import annotations

from hashlib import blake2b

_hashes: dict[str, int] = {}


def stable_hash(text: str) -> int:
    """Return a hash that is the same in every process, unlike Python's own for texts."""
    found = _hashes.get(text)
    if found is None:
        if len(_hashes) > 200_000:
            _hashes.clear()
        found = _hashes[text] = hash_bytes(text.encode("utf-8", "surrogatepass"))
    return found


def hash_bytes(data: bytes) -> int:
    """Return a 60-bit hash of bytes that is the same in every process."""
    return int.from_bytes(blake2b(data, digest_size=8).digest()) >> 4
