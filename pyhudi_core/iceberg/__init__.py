"""Iceberg metadata beside the table: the same base files, named by Iceberg's own metadata, for engines that read Iceberg (version 2) and not Hudi.

`sync` is the entry. Read it first, then the others in this order:

- `hudi_commits`: which commits are not there yet, and which instants were undone;
- `file_changes`: the base files that a commit adds and takes away; all files of a state;
- `columns`: the columns with their field ids, as Iceberg's schema and name mapping; `bounds`: values as Iceberg stores them;
- `partition_spec`: how the folder of a file becomes values of Iceberg's partition fields;
- `manifests` (Avro files of entries) and `tree` (manifests in the order of partition and file id: a change rewrites only those that it touches);
- `table_metadata`: the versions of ``metadata/v*.metadata.json``, decided by creating the next one; `retention`: which snapshots stay;
- `catalogs`: the same state in a catalog of pyiceberg.

Invariants
- A state is decided by creating ``metadata/v<n>.metadata.json``, which must not exist. All that it names was written before. Whoever dies before has
  changed nothing, and whoever dies after has finished; ``version-hint.text`` is moved on by the next reader of the versions.
- A snapshot has the id of its Hudi instant, so a commit has one at most.
- A kept snapshot names no file that a clean or a restore of this project deletes: `retention` lets the snapshot go first.
- Metadata that another program has changed is refused, never continued.
"""
