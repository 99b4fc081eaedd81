"""Indexes: which file group holds a key. `base` is the protocol, and `choice` chooses the index of a write.

`files` is simple and bloom, `table_files` is the same for the whole table, `record_index` is the record index; `bucket` and `consistent` use hashes.

How to add an index for writes: write a module here that follows the protocol of `base`, let `choice` choose it, and make it in ``write/indexing.py``.
`key_files` reads keys and key ranges of base files, `listed_filters` the filters of the metadata table. Tests are in ``tests/unit/index``.
"""
