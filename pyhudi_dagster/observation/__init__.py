"""Dagster's view of tables, whoever writes them: the timeline sensor, checks on a schedule, and reconciliation."""
