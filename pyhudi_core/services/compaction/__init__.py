"""Compaction: `compaction` is the service, `slices_to_compact` (with `compaction_rules`) makes the plan (`compaction_plan`), and
`compaction_execution` executes it.

Log compaction is `log_compaction` and `logs_to_compact`.
"""
