"""Indexes: which file group holds a key."""
