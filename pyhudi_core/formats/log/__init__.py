"""Log files consist of blocks. `blocks` describes a block, `reader` reads blocks, and `writer` writes them.

`contents` has the records and the deletes of a block, `deletes` encodes deletes, `delete_columns` decodes them, `positions` encodes row
positions, and `changes` writes change logs.

How to add a type of block: its number is in `BlockType` of `blocks`, its bytes are in `writer` and `contents`, and ``merge/log_scan.py`` says how a
read uses it. Add damaged blocks to ``tests/hostile``.
"""
