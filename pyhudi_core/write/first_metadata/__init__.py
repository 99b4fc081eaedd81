"""The first files of a metadata table and of its indexes.

`metadata_build` makes the decision that lists the partitions, `metadata_first_files` and `record_index_build` make the files, and `metadata_staging`
stages the files. `asked_metadata_table` makes the metadata table that the options request.
"""
