"""Observe tables of any writer for Dagster: the timeline sensor, checks on a schedule, and reconciliation."""
