"""Reading snapshots of a table."""
