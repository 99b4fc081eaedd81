"""What a commit is in Dagster: events, metadata, columns, check results."""
