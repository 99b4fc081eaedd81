"""Indexes: which file group holds a key. `base` is the protocol; each kind of index is a module of its own."""
