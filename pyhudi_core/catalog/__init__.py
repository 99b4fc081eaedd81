"""A Hudi table in a Hive Metastore or in Glue, so that engines find it by its name. The entries are those of Hudi's HiveSyncTool.

Read in this order:

- `objects`: the objects of a catalog, and the operations of each kind of catalog (`Catalog`);
- `wanted`: the tables that a catalog must have, a pure function of the table's state and the options; `columns`: their types;
- `partitions`: the values of folders, and which folders changed since the last sync;
- `sync`: compare and change, in an order that may be interrupted anywhere;
- `metastore` and `glue`: the two catalogs; `opening`: open the catalog that the options name;
- `manifest`: a list of the newest base files, for engines without a catalog.

Invariants
- A catalog entry of the same name that belongs to another table is never changed.
- The parameters that name the commit of the last sync are written last. So if a sync dies, the next sync does the remaining steps.
- A commit of the Hudi table never depends on a catalog.

To add a catalog: a class with the methods of `Catalog`, a word of ``mode`` in ``options/catalog.py``, and a line in `opening`.
"""
