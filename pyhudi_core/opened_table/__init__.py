"""A table that this process has opened: the part that stays between calls (`opened_table`), and the table as one call reads it (`table_context`)."""
