"""Indexes of the metadata table: `indexing` builds them beside writers, in two phases; `indexes` are the calls, `statements` is the SQL."""
