"""The first files of a metadata table and of its indexes.

`metadata_build` makes the decision that lists them, `metadata_first_files` and `record_index_build` make the files, and `metadata_staging` stages
them. `asked_metadata_table` makes the metadata table that the options request.
"""
