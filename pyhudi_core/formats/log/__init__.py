"""Log files: their blocks (`blocks`), a reader (`reader`) and a writer (`writer`) of blocks, and what is in blocks.

Records and deletes are in `contents` and `deletes`, positions in `positions`.
"""
