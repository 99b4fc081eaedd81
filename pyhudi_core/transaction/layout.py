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
"""Rows of writes that do not keep their rows in memory. Each write has its own folder, and removes the folder at the end of the write."""
GROUPS = f"{PRIVATE}/groups"
"""Decisions over several tables. Each decision is one object, which is written once, in the first of the tables."""
HOLDS = f"{PRIVATE}/holds"
"""Holds on states of the table. A hold says who keeps the files of a state from being cleaned, and until when."""
INITIAL_INSTANTS = "00000000000000"
"""The first digits of instants of a metadata table that build a partition for the first time."""


def heartbeat(requested_time: str) -> str:
    """Return the path of the heartbeat of a pending instant. The heartbeat file is also the reservation of the requested time."""
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
    """Return the path of the list of files that a restore will delete. The first executor of the restore wrote the list."""
    return f"{RESTORES}/{requested_time}"
