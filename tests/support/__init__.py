"""Helpers for tests of several packages: small tables, listings of disks, storages that fail on purpose."""
