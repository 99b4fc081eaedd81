"""Snapshots: one immutable state of a table."""
