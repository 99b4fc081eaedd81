"""Indexes find the file group of a key. `base` has the protocol, and `choice` chooses the index of a write.

`files` has the simple and the bloom index, `table_files` the same for all partitions, and `record_index` the record index. `bucket` and `consistent`
use hashes.

How to add an index for writes: write a module here that follows the protocol of `base`, let `choice` choose it, and make it in ``write/indexing.py``.
`key_files` reads keys and key ranges of base files, `listed_filters` the filters of the metadata table. Tests are in ``tests/unit/index``.
"""
