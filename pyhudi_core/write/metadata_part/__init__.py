"""The metadata table's part of each commit: `metadata_update`, with the record index (`record_index_update`) and what is made of files
(`file_indexes`).
"""
