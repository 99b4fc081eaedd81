"""Estimate how long a plan would take, from its bytes, files and instants. The estimate is for limits and for waiting users; it is not a promise.

Auto mode (``upkeep_run.py``) corrects the estimates by the measured times of its run. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping

BYTES_PER_SECOND = 48 << 20
"""The assumed speed of rewriting rows, until a run of the service has shown the real one."""

SECONDS_PER_RUN = 0.1
"""The minimum duration of a run."""

SECONDS = "estimated_seconds"
"""The name of the estimate among the figures of a plan."""

_SECONDS_PER_FILE = 0.002
_SECONDS_PER_INSTANT = 0.01


def with_seconds(
    figures: Mapping[str, int | float], *, rewritten: int = 0, files: int = 0, instants: int = 0
) -> dict[str, int | float]:
    """Return the figures of a plan, with the estimated seconds added; 0 for a plan without work.

    Args:
        figures: the figures of the plan.
        rewritten: number of bytes that are read and written again. Deleted bytes take no time.
        files: number of files that are written, read or deleted.
        instants: number of instants that are made, moved or removed.
    """
    work = rewritten / BYTES_PER_SECOND + files * _SECONDS_PER_FILE + instants * _SECONDS_PER_INSTANT
    return {**figures, SECONDS: round(SECONDS_PER_RUN + work, 3) if work else 0.0}
