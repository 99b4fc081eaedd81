"""Typed options with Hudi's keys, one source for parsing and documentation.

How to add an option: one `Option` in `definitions`, and a field of its concern in `write_options` (``retry.limit`` is a field of `RetryOptions`).
Options of locks, clustering and other services have entries or concerns in `locks`, `clustering` and `upkeep`. Then run
``python scripts/generate_docs.py``, which writes ``docs/options.md``.
"""

from pyhudi_core.options.definitions import OPTIONS
from pyhudi_core.options.locks import LockOptions, LockServerOptions
from pyhudi_core.options.option import Option, Scope
from pyhudi_core.options.registry import find_option, options_for_open, read_options, render_docs, without_secrets
from pyhudi_core.options.table_options import TableOptions
from pyhudi_core.options.write_options import (
    ArchivalOptions,
    ClockOptions,
    ConflictOptions,
    FileOptions,
    HeartbeatOptions,
    IndexOptions,
    RetryOptions,
    RowOptions,
    WriteOptions,
)

__all__ = [
    "OPTIONS",
    "ArchivalOptions",
    "ClockOptions",
    "ConflictOptions",
    "FileOptions",
    "HeartbeatOptions",
    "IndexOptions",
    "LockOptions",
    "LockServerOptions",
    "Option",
    "RetryOptions",
    "RowOptions",
    "Scope",
    "TableOptions",
    "WriteOptions",
    "find_option",
    "options_for_open",
    "read_options",
    "render_docs",
    "without_secrets",
]
