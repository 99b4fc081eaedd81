"""Repairs of an open table: rows that must leave every file, duplicate keys, lost completed files."""
