"""The first files of a metadata table and of its indexes.

`metadata_build` is the decision that lists them, `metadata_first_files` and `record_index_build` make them, and `metadata_staging` stages them.
`asked_metadata_table` makes the table that the options ask for.
"""
