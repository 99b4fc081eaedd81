"""Services of the metadata table itself: `metadata_compaction`, `metadata_cleaning` and `metadata_archival`.

`metadata_tables` makes, rebuilds and removes a metadata table.
"""
