"""Hudi's metadata table: a merge-on-read table below ``.hoodie/metadata``. It lists the data table's files, with their statistics and indexes.

Read these modules in this order: `names` (its partitions), `record_schema` and `records` (its rows), `slices` and `file_groups` (where the row of a
key is; for version 6 `older_slices`), `reader` (look-ups). Each layer has its own use of the metadata table:

1. A read skips files: the listing in ``snapshot/snapshot.py``, `statistics` for ``read/pruning.py``, and ``read/files_to_read.py``.
2. A write looks up keys: ``index/record_index.py`` and ``index/listed_filters.py``.
3. A commit adds its part: `changes`, then ``write/metadata_part/``. ``transaction/companion.py`` publishes both commits by one decision.
4. A metadata table is made, or gets an index: `new_metadata_table` and `first_records`, then ``write/first_metadata/``; while writers write, by
``services/indexing/``.
5. Its own services: `compacting`, then ``services/metadata/``, where `metadata_tables` has the calls of its owner.
6. The metadata table, or one of its indexes, is removed: ``transaction/metadata_removal.py``.

How to add a kind of record:

1. `names`: its partition. `record_schema`: its fields. `records`: its values (many of them: a module, such as `column_statistics`).
2. `changes`: what a commit changes in the partition (``KEPT``, and the function that makes the records).
3. ``write/metadata_part/metadata_update.py``: its part of a commit. ``write/first_metadata/metadata_first_files.py``, and `makeable` of
   ``metadata_build.py`` in the same folder: its first files. ``table.indexing`` builds every makeable partition.

A kind that is made from written files is a `FileIndex` (`file_entries`). A kind of index that users define on a column is an `IndexKind` in
`defined_indexes`; builds, commits and SQL find it there.
"""
