"""Services of the metadata table itself: `metadata_upkeep` (their base, cleaning, archival) and `metadata_compaction`. `metadata_tables` makes,
rebuilds and removes a metadata table.
"""
