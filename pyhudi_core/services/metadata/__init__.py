"""Services of the metadata table itself: `compaction`, `cleaning` and `archival`. `tables` makes, rebuilds and removes a metadata table."""
