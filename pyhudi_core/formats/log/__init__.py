"""Log files consist of blocks. `blocks` says how a block looks, `reader` reads blocks, and `writer` writes them.

`contents` has the records and the deletes of a block, `deletes` encodes deletes, `delete_columns` decodes them, `positions` encodes row
positions, and `changes` writes change logs.
"""
