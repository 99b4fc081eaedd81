"""Signals of processes that tests start."""

from __future__ import annotations

import signal


def default_signals() -> None:
    """For ``preexec_fn``: the process ends by Ctrl-C and by SIGTERM.

    A shell's background job ignores Ctrl-C, and its children inherit that. Dagster gives SIGTERM the handler of Ctrl-C, so ``dagster dev`` then ignores both.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
