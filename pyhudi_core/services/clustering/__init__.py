"""Clustering: `clustering` is the service, `groups_to_cluster` makes the plan (`clustering_plan`), and
`clustering_execution` executes it.

`row_curve` computes the order of rows by several columns; `buckets` and `rings` are for consistent hashing.
"""
