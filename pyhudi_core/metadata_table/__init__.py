"""Hudi's metadata table: a merge-on-read table below ``.hoodie/metadata``. It lists the data table's files, with their statistics and indexes.

The code of the metadata table has six places, because each layer does its own part:

- here: names, records, files and look-ups;
- ``read/pruning.py`` and ``read/files_to_read.py``: which files a read skips by it;
- ``index/record_index.py``: which file group holds a key;
- ``write/metadata_update.py`` (a commit's part), ``write/metadata_build.py`` and ``write/metadata_first_files.py`` (the first files);
- ``transaction/companion.py`` (one decision for both commits) and ``transaction/metadata_removal.py``;
- ``services/metadata`` (its own compaction, cleaning and archival) and ``services/indexing`` (builds while writers go on).

How to add a kind of record:

1. `names`: its partition. `record_schema`: its fields. `records`: its values (many of them: a module, such as `column_statistics`).
2. `changes`: what a commit changes of it (``KEPT``, and the maker).
3. ``write/metadata_update.py``: its part of a commit. ``write/metadata_first_files.py``, and `makeable` of ``write/metadata_build.py``: its first
   files. ``table.indexing`` builds what is makeable.

A kind that is made from written files is a `FileIndex` (`file_entries`). A kind of index that users define on a column is an `IndexKind` in
`defined_indexes`; builds, commits and SQL find it there.
"""
