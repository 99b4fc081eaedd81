"""A table's timeline and Dagster's events of it, as far as they name the same commits."""
