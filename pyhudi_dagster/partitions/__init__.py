"""Dagster's partition keys and a table's partition values."""
