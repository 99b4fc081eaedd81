"""File groups and their slices: which files exist, and which of them a reader may see."""
