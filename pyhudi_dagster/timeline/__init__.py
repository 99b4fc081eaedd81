"""A table's timeline, and Dagster's events about its commits."""
