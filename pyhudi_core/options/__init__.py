"""Typed options with Hudi's keys, one source for parsing and documentation.

How to add an option: one of compaction or clustering is one field of `CompactionOptions` (`compaction`) or `ClusteringOptions` (`clustering`),
made by `declared`. A lock declares its own options in the same way in its module (``lock/__init__.py``). Every other option is an `Option` in
`definitions`, and a field of its concern (``retry.limit`` is a field of `RetryOptions` in `write_options`). Then run ``python
scripts/generate_docs.py``, which writes ``docs/options.md`` and the tables of ``docs/locks.md``.
"""

from pyhudi_core.model.option import Option, Scope
from pyhudi_core.options.registry import (
    every_option,
    find_option,
    options_for_open,
    read_options,
    render_docs,
    without_secrets,
)
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
    "ArchivalOptions",
    "ClockOptions",
    "ConflictOptions",
    "FileOptions",
    "HeartbeatOptions",
    "IndexOptions",
    "Option",
    "RetryOptions",
    "RowOptions",
    "Scope",
    "TableOptions",
    "WriteOptions",
    "every_option",
    "find_option",
    "options_for_open",
    "read_options",
    "render_docs",
    "without_secrets",
]
