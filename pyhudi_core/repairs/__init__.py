"""Repairs of an open table: rows that must leave every file, keys that are there twice, completed files that are lost."""
