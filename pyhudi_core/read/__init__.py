"""Reads of a table: scans of a snapshot, look-ups by key, incremental reads, changes, sizes."""
