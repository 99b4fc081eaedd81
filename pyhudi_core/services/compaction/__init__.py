"""Compaction: `compaction` is the service, `planning` (with `rules`) makes the plan (`plan`), and `execution` executes it.

Log compaction is `log_compaction`, `log_planning` and `log_execution`.
"""
