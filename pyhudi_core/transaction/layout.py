"""Paths of a transaction's own files under ``.hoodie``."""

from __future__ import annotations

HEARTBEATS = ".hoodie/.heartbeat"
MARKERS = ".hoodie/.temp"
PRIVATE = ".hoodie/.aux/.pyhudi"
COMMIT_RECORD = f"{PRIVATE}/commit_record"
STAGED = f"{PRIVATE}/staged"
CLAIMS = f"{PRIVATE}/claims"
BATCHES = f"{PRIVATE}/batches"
"""Rows that small writers handed in, which one of them commits (``batches/``)."""
UNSWEPT = f"{PRIVATE}/unswept"
EXECUTIONS = f"{PRIVATE}/executions"
RESTORES = f"{PRIVATE}/restores"
ROWS = f"{PRIVATE}/sink"
"""Rows of writes that are not in memory; each write has a folder of its own, which it removes at its end."""
HOLDS = f"{PRIVATE}/holds"
"""Who holds the files of a state back from cleaning, and until when."""
INITIAL_INSTANTS = "00000000000000"
"""How the instants of a metadata table begin that build a partition for the first time."""


def heartbeat(requested_time: str) -> str:
    """Return the heartbeat of a pending instant, which is also the reservation of its requested time."""
    return f"{HEARTBEATS}/{requested_time}"


def markers(requested_time: str) -> str:
    """Return the folder that names the files of a write."""
    return f"{MARKERS}/{requested_time}"


def staged(requested_time: str, nonce: str) -> str:
    """Return the bytes of a completed file that waits for its name."""
    return f"{STAGED}/{requested_time}-{nonce}"


def executions(requested_time: str) -> str:
    """Return the folder of a plan's executors: one numbered file for each process that registered."""
    return f"{EXECUTIONS}/{requested_time}"


def restore(requested_time: str) -> str:
    """Return what a restore is going to delete, as its first executor found it."""
    return f"{RESTORES}/{requested_time}"
