"""How long a plan would take, estimated from its bytes, files and instants. Meant for limits and for people who wait; no promise.

Auto mode (``upkeep_run.py``) corrects the estimates by what the services of its run have taken. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping

BYTES_PER_SECOND = 48 << 20
"""How fast rows are assumed to be rewritten, before a run of the service has shown it."""

SECONDS_PER_RUN = 0.1
"""What a run takes in any case."""

SECONDS = "estimated_seconds"
"""The name of the estimate among the figures of a plan."""

_SECONDS_PER_FILE = 0.002
_SECONDS_PER_INSTANT = 0.01


def with_seconds(
    figures: Mapping[str, int | float], *, rewritten: int = 0, files: int = 0, instants: int = 0
) -> dict[str, int | float]:
    """Return the figures of a plan with the estimate in seconds; 0 for a plan without work.

    Args:
        figures: of the plan.
        rewritten: bytes that are read and written again. Bytes that are only deleted take no time.
        files: that are written, read or deleted.
        instants: that are made, moved or removed.
    """
    work = rewritten / BYTES_PER_SECOND + files * _SECONDS_PER_FILE + instants * _SECONDS_PER_INSTANT
    return {**figures, SECONDS: round(SECONDS_PER_RUN + work, 3) if work else 0.0}
