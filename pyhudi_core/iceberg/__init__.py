"""Iceberg metadata of the table: Iceberg's own metadata names the same base files, for engines that read Iceberg (version 2) and not Hudi.

`sync` is the entry. Read it first, then the others in this order:

- `hudi_commits`: which commits are missing in the metadata, and which instants were undone;
- `file_changes`: the base files that a commit adds and removes; all files of a state;
- `columns`: the columns with their field ids, as Iceberg's schema and name mapping; `bounds`: values as Iceberg stores them;
- `partition_spec`: conversion of a file's folder to values of Iceberg's partition fields;
- `manifests` (Avro files of entries) and `tree` (manifests in the order of partition and file id: a change rewrites only the affected manifests);
- `new_version`: the version that a sync makes, in memory until the sync writes it;
- `table_metadata`: the versions of ``metadata/v*.metadata.json``, decided by creating the next one; `retention`: which snapshots stay;
- `catalogs`: the same state in a catalog of pyiceberg.

Invariants
- The creation of ``metadata/v<n>.metadata.json``, which must not exist, decides a state. All files that it names are already written. A crash before
  this step changes nothing; after this step the sync is finished. The next reader of the versions updates ``version-hint.text``.
- A snapshot has the id of its Hudi instant, so a commit has at most one snapshot.
- A kept snapshot names no file that a clean or a restore of this project deletes: `retention` removes the snapshot first.
- Metadata that another program has changed is refused, never continued.
"""
