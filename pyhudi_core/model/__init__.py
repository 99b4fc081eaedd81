"""Nouns of the specification, as values."""
