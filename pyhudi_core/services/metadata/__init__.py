"""Services of the metadata table itself: its compaction, cleaning and archival, and how it is made, rebuilt and removed (`tables`)."""
