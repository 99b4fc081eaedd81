"""The metadata table's part of each commit: `metadata_update`, with the record index (`record_index_update`) and the indexes that are made from
files (`file_indexes`).
"""
