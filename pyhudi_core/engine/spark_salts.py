"""Integers that Spark's hash partitioning sends to given tasks."""

from __future__ import annotations

from functools import cache


@cache
def salts_for(tasks: int) -> tuple[int, ...]:
    """Return for each task an integer that Spark's hash partitioning sends to it."""
    found: dict[int, int] = {}
    candidate = 0
    while len(found) < tasks:
        found.setdefault(_spark_hash(candidate) % tasks, candidate)
        candidate += 1
    return tuple(found[task] for task in range(tasks))


def _spark_hash(value: int) -> int:
    """Spark's Murmur3 of one 32-bit integer with seed 42, as a signed integer (``org.apache.spark.sql.catalyst.expressions.Murmur3Hash``)."""
    mask = 0xFFFFFFFF
    k = (value * 0xCC9E2D51) & mask
    k = ((k << 15) | (k >> 17)) & mask
    k = (k * 0x1B873593) & mask
    h = 42 ^ k
    h = ((h << 13) | (h >> 19)) & mask
    h = (h * 5 + 0xE6546B64) & mask
    h ^= 4
    h ^= h >> 16
    h = (h * 0x85EBCA6B) & mask
    h ^= h >> 13
    h = (h * 0xC2B2AE35) & mask
    h ^= h >> 16
    return h - (1 << 32) if h >= 1 << 31 else h
