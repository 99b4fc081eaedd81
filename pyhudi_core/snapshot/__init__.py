"""Snapshots: one state of a table."""
