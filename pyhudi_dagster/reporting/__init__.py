"""The view of a commit in Dagster: events, metadata, columns, check results."""
