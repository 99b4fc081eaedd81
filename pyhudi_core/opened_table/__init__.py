"""A table that this process has opened: what stays between calls (`opened_table`), and the table as one call finds it (`table_context`)."""
