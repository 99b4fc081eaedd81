"""Indexes of the metadata table: `indexing` builds them in two phases while writers go on.

`indexes` has the calls of users, and `statements` parses SQL.
"""
