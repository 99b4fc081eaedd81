"""Log files: their blocks (`blocks`), a reader of blocks (`reader`), the records and deletes in blocks (`contents`, `positions`)."""
