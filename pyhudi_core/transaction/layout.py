"""Paths of a transaction's own files under ``.hoodie``."""

from __future__ import annotations

HEARTBEATS = ".hoodie/.heartbeat"
MARKERS = ".hoodie/.temp"
PRIVATE = ".hoodie/.aux/.pyhudi"
COMMIT_RECORD = f"{PRIVATE}/commit_record"
STAGED = f"{PRIVATE}/staged"
CLAIMS = f"{PRIVATE}/claims"
BATCHES = f"{PRIVATE}/batches"
"""Rows of small writers, which one of these writers commits (``batches/``)."""
UNSWEPT = f"{PRIVATE}/unswept"
EXECUTIONS = f"{PRIVATE}/executions"
RESTORES = f"{PRIVATE}/restores"
ROWS = f"{PRIVATE}/sink"
"""Rows of writes that are not in memory; each write has its own folder, which it removes at its end."""
GROUPS = f"{PRIVATE}/groups"
"""Decisions over several tables: one object each, written once, in the first of the tables."""
HOLDS = f"{PRIVATE}/holds"
"""Holds: who keeps the files of a state from being cleaned, and until when."""
INITIAL_INSTANTS = "00000000000000"
"""The first digits of instants of a metadata table that build a partition for the first time."""


def heartbeat(requested_time: str) -> str:
    """Return the path of the heartbeat of a pending instant. It is also the reservation of the requested time."""
    return f"{HEARTBEATS}/{requested_time}"


def markers(requested_time: str) -> str:
    """Return the folder whose files name the files of a write."""
    return f"{MARKERS}/{requested_time}"


def staged(requested_time: str, nonce: str) -> str:
    """Return the path of the staged bytes of a completed file."""
    return f"{STAGED}/{requested_time}-{nonce}"


def executions(requested_time: str) -> str:
    """Return the folder of a plan's executors: one numbered file for each registered process."""
    return f"{EXECUTIONS}/{requested_time}"


def restore(requested_time: str) -> str:
    """Return the path of the list of files that a restore will delete. Its first executor wrote the list."""
    return f"{RESTORES}/{requested_time}"
