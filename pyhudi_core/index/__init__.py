"""Indexes: which file group holds a key. `base` is the protocol, and `choice` chooses the index of a write.

`files` is simple and bloom, `table_files` is the same for the whole table, `record_index` is the record index; `bucket` and `consistent` use hashes.
"""
