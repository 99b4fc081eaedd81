"""Recovery of a table without its timeline, from the names and footers of its files."""
