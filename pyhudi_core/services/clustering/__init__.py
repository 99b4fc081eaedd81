"""Clustering: `clustering` is the service, `planning` (with `rules`) makes the plan (`plan`), and `execution` executes it.

`row_curve` computes the order of rows by several columns; `buckets` and `rings` are for consistent hashing.
"""
