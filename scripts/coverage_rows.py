"""The rows of docs/coverage.md: the capabilities of Hudi tables of version 8, the part of each that exists, and the part that comes later.

Letters group the rows: A to J the files and the queries, K to O writers and services, P properties, Q other versions, R the stories of a published
critique, T the mechanisms of an article on optimistic concurrency, X the configurations of a published model, U capabilities that no other table
format has. ``scripts/coverage_table.py`` finds the tests of each row.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Row:
    """One row.

    Attributes:
        promise: the part that exists; a row with a promise needs a test. Empty: no part exists.
        later: the part that comes later; empty if the capability is complete.
    """

    promise: str
    later: str = ""


ROWS: dict[str, dict[str, Row]] = {
    "Storage layout": {
        "A1": Row("Base path with the reserved folder `.hoodie`, which is never a partition"),
        "A2": Row("Nested partition folders, hive-style or plain values"),
        "A3": Row("Random prefixes: partitions at any depth, found by their metafile; written if an option is set"),
        "A4": Row("Tables without partitions"),
        "A5": Row("Partition columns stay in the data files; tables without them are refused"),
        "A6": Row("`.hoodie_partition_metadata` in every partition"),
        "A7": Row("Partition values become safe and reversible folder names, or raise an error"),
        "A8": Row("`hoodie.properties` with checksum, and a backup during updates"),
    },
    "Timeline": {
        "B1": Row("Active timeline in `.hoodie/timeline`"),
        "B2": Row("Names of instants in every state and action"),
        "B3": Row("A requested time and a completion time on every action"),
        "B4": Row("Monotonic times, also with wrong clocks"),
        "B5": Row("Timeline files are published with put-if-absent"),
        "B6": Row("Avro metadata for each action"),
        "B7": Row("Archived timeline: `_version_`, manifests, Parquet files by level"),
        "B8": Row("Rows of the archived timeline with the same six columns as in Hudi"),
        "B9": Row("Limits of archival, and the compaction of levels"),
        "B10": Row("Cheap refresh; reads pin a snapshot"),
    },
    "Actions": {
        "C1": Row("commit"),
        "C2": Row("deltacommit, as Hudi writes it; written"),
        "C3": Row("replacecommit (insert_overwrite, insert_overwrite_table, delete_partitions)"),
        "C4": Row("clean, planned and executed here or by Hudi"),
        "C5": Row("compaction, planned and executed here or by Hudi"),
        "C6": Row("logcompaction, planned and executed as Hudi does"),
        "C7": Row("indexing: plan and completed instant, read and written as Hudi does", ""),
        "C8": Row("rollback"),
        "C9": Row("savepoint, as Hudi writes it; made and deleted"),
        "C10": Row("restore, as Hudi writes it, and by this package"),
        "C11": Row("clustering, planned and executed here or by Hudi"),
    },
    "Tables and queries": {
        "D1": Row("Copy-on-write tables"),
        "D2": Row("Merge-on-read tables, read, written and compacted, including file groups without base files"),
        "D3": Row("Snapshot query"),
        "D4": Row("Time travel, by completion time; snapshot tokens"),
        "D5": Row("Incremental query: changed rows in their latest state"),
        "D6": Row("Change data capture, in the three logging modes; change logs are written"),
        "D7": Row("Read-optimized query; it reports what it omits"),
        "D8": Row("Structured Streaming source and sink, and a sink for foreachBatch"),
        "D9": Row(
            "Updates by key, and deletes by key, by condition and by partition, as Python calls",
            "updates by condition, MERGE with clauses, SQL",
        ),
        "D10": Row(
            "Schema evolution: columns are added, dropped, renamed, retyped and reordered; Hudi reads them by their numbers"
        ),
        "D11": Row(
            "File sizes as typed options: `max_file_size`, `small_file_limit`",
            "the trigger of compaction, advice on the table type",
        ),
        "D12": Row(
            "A key is in one file group; writers of different file groups do not conflict; the size of file groups can be set",
            "the chance of a conflict in `explain`, logs by rows",
        ),
    },
    "Data files": {
        "E1": Row("Parquet base files with Hudi's names and footers"),
        "E2": Row("ORC base files are read"),
        "E3": Row("HFile base files are read", "written"),
        "E4": Row("File groups of mixed extensions are read"),
        "E5": Row("Other base file formats are refused with an error that names them"),
        "E6": Row("Names of log files"),
        "E7": Row("A write token for each attempt, salted"),
        "E8": Row(
            "Timeline and properties rebuilt from file names and footers; what they do not say is asked for or reported"
        ),
        "E9": Row("The five meta columns, and `_hoodie_operation`"),
        "E10": Row("Tables without meta columns are read, and take new rows and overwrites"),
    },
    "Log files": {
        "F1": Row("The magic bytes, also inside a record"),
        "F2": Row("Block length, checked before memory is allocated"),
        "F3": Row("Log version"),
        "F4": Row("Block types, as ordinals"),
        "F5": Row("Headers; unknown ones are kept"),
        "F6": Row("Content length"),
        "F7": Row("Footers"),
        "F8": Row("The total length at a block's end"),
        "G0": Row("Command blocks"),
        "G1": Row("Delete blocks; written"),
        "G2": Row("Damaged blocks are skipped, counted and reported"),
        "G3": Row("Avro data blocks; written"),
        "G4": Row("HFile data blocks; written"),
        "G5": Row("Parquet data blocks; written"),
        "G6": Row("Change blocks, read and written"),
        "H0": Row("INSTANT_TIME"),
        "H1": Row("TARGET_INSTANT_TIME"),
        "H2": Row("SCHEMA"),
        "H3": Row("COMMAND_BLOCK_TYPE"),
        "H4": Row("COMPACTED_BLOCK_TIMES"),
        "H5": Row("RECORD_POSITIONS"),
        "H6": Row("BLOCK_IDENTIFIER: repeated blocks count once"),
        "H7": Row("IS_PARTIAL, read and written"),
        "H8": Row("BASE_FILE_INSTANT_TIME_OF_RECORD_POSITIONS"),
    },
    "Table properties": {
        "P1": Row("`hoodie.database.name`"),
        "P2": Row("`hoodie.table.name`"),
        "P3": Row("`hoodie.table.type`"),
        "P4": Row("`hoodie.table.version`: 8 and no other, checked at every commit"),
        "P5": Row("`hoodie.table.recordkey.fields`, one or several"),
        "P6": Row("`hoodie.table.partition.fields`"),
        "P7": Row("`hoodie.table.precombine.field` and `hoodie.table.ordering.fields`, one or several"),
        "P8": Row("`hoodie.timeline.layout.version`"),
        "P9": Row("`hoodie.table.checksum`"),
        "P10": Row("`hoodie.table.metadata.partitions` and `.inflight`, read and written"),
        "P11": Row("`hoodie.table.index.defs.path`, read and written"),
        "P12": Row("`hoodie.record.merge.mode` and `.strategy.id`"),
        "P13": Row("`hoodie.table.timeline.timezone`: UTC is written, LOCAL is read"),
        "P14": Row("The meaning of record key, partition and ordering"),
    },
    "Metadata table and indexes": {
        "I1": Row("Partition `files`, read, made and kept"),
        "I2": Row("Partition `column_stats`, read, made and kept"),
        "I3": Row("Partition `partition_stats`, read, made and kept"),
        "I4": Row("Partition `bloom_filters`, read, made and kept, also to find the keys of a write"),
        "I5": Row("Partition `record_index`, read, made and kept, also to find the keys of a write"),
        "I6": Row(
            "Record index by partition (release 1.2), read",
            "written; until then the writes of such a table are refused",
        ),
        "I7": Row("Secondary indexes on texts and integers, read, made and kept", "on other types"),
        "I8": Row("Expression indexes of seven functions, read, made and kept", "of bloom filters; of other functions"),
        "I9": Row("Index definitions, read and written"),
        "I10": Row(
            "Writer-side indexes SIMPLE and GLOBAL_SIMPLE: a key is found in the keys of a partition's, or of all files"
        ),
        "I11": Row(
            "Writer-side indexes BLOOM and GLOBAL_BLOOM: filters and key ranges of footers, checked in the files"
        ),
        "I12": Row(
            "Bucket index with Hudi's hash, simple and with consistent hashing",
            "Numbers of buckets by partition",
        ),
        "I13": Row("HBASE, INMEMORY and FLINK_STATE indexes are refused with an error that names them"),
        "I14": Row(
            "Partitions of the metadata table are built while our writers write", "beside writers of other programs"
        ),
        "I15": Row("", "VECTOR, VARIANT and BLOB columns"),
    },
    "Merging and keys": {
        "J1": Row("Commit-time ordering"),
        "J2": Row("Event-time ordering, several columns, null lowest"),
        "J3": Row(
            "Custom merging: record mergers in Python, checked when they are registered; in reads, writes and compactions"
        ),
        "J4": Row("Hudi's payload classes"),
        "J5": Row("Partial updates, read and written"),
        "J6": Row("`_hoodie_is_deleted`"),
        "J7": Row("Key generators: simple, complex, timestamp-based, custom, non-partitioned; generated keys"),
        "J8": Row("", "Indexing functions of RFC-63"),
    },
    "Concurrent writers": {
        "K1": Row("A requested time above all times that were read; the write keeps the state that it read"),
        "K2": Row("The index assigns rows to file groups in this state"),
        "K3": Row(
            "A lock during the commit of every write, on by default; pessimistic writes hold it during the complete write"
        ),
        "K4": Row("Completion times decide which writes were concurrent"),
        "K5": Row("The same file group: one of the two writes is planned again"),
        "K6": Row("Planned compactions and clusterings are checked for conflicts"),
        "K7": Row("The same key in two file groups: one of the two writes is planned again, by default"),
        "K8": Row("All files of a commit are published by one decision, in a fixed order, the metadata table's first"),
        "K9": Row("Plans are made under the lock"),
        "K10": Row("Early detection through markers"),
        "K11": Row("An aborted write's files are removed; lazy and eager policies with heartbeats"),
        "K12": Row("Automatic retries with jitter and a limit"),
        "K13": Row("A durable commit is never reported as failed"),
        "K14": Row(
            "A key that moves to another partition: a delete in the old group and an insert in the new one, by one commit; as an option for all"
            " updates of copy-on-write tables",
            "the option for merge-on-read tables",
        ),
    },
    "Table services during writes, and readers": {
        "L1": Row("Cleaning and archival conflict with no writer"),
        "L2": Row("Clustering and an update of its file groups: the update is refused, or the clustering is given up"),
        "L3": Row("Compaction and clustering omit the file groups of each other's plans"),
        "L4": Row("Compaction does not block writers"),
        "L5": Row(
            "Indexing runs while our writers write", "beside writers of other programs it may have to begin again"
        ),
        "L6": Row(
            "Any process can execute a planned compaction, log compaction, clustering, clean or indexing, and finish a restore; each once"
        ),
        "L7": Row("Snapshot isolation for readers; documented isolation levels for writers"),
        "L8": Row("Files of commits that did not complete are not read"),
        "L9": Row("Replaced file groups are not read"),
        "L10": Row("File slices are ordered by completion time"),
        "L11": Row("Listing by the metadata table; the storage is listed if the metadata table cannot be used"),
        "L12": Row("Incremental reads and streams never miss a commit that completes late"),
        "L13": Row("A snapshot lists each folder at most once"),
    },
    "Streaming": {
        "M1": Row("Merges by event time, independent of the order of the versions, also in written logs"),
        "M2": Row("Writers that do not block each other (NBCC): merge-on-read, event time, simple buckets"),
        "M3": Row("Compaction planned while writers run"),
        "M4": Row("Record mergers as a Python protocol"),
    },
    "Table services": {
        "N1": Row(
            "Compaction and clustering inline, or by any process: schedule, execute, or both",
            "in the background of a writer",
        ),
        "N2": Row("Triggers of compaction"),
        "N3": Row("Strategies of compaction"),
        "N4": Row(
            "Log compaction, on demand or after commits",
            "logs with partial updates, and tables with mergers (both are left alone, with the reason)",
        ),
        "N5": Row(
            "Plans of clustering: by size and partition, single files, by commit, buckets split and merged; sorted by columns or "
            "along a curve (Z-order, Hilbert)",
            "row groups copied without decoding (stream copy): such plans are executed by an ordinary rewrite",
        ),
        "N6": Row("Clustering: updates are rejected or allowed; a plan is cancelled, or expires"),
        "N7": Row("Cleaning that keeps the latest commits"),
        "N8": Row("Cleaning that keeps the latest versions of files"),
        "N9": Row(
            "Cleaning by hours, in steps, by partition, after commits; empty cleans; holds of the files of a snapshot token"
        ),
        "N10": Row(
            "The index service: plan, schedule, execute, run, take over, cancel; half-built indexes; Hudi executes our plans, and we execute its"
        ),
        "N11": Row(
            "Failed writes are rolled back by policy (eager, lazy or never); heartbeats show who is alive; the newest commit can be undone"
        ),
        "N12": Row("Partitions expire, by their last write or their creation"),
        "N13": Row(
            "Import of existing Parquet files: as a full copy, exactly once, continued after a crash; or with the rows left where they are"
        ),
        "N14": Row("Validators before a commit: Python callables, and ready-made rules"),
        "N15": Row("Savepoints and restores as calls, and as commands"),
        "N16": Row(
            "Auto mode: the services that are due in a table or a lake, by statistics, within limits, and in parts if they are larger"
        ),
    },
    "Locks and strategies": {
        "O1": Row("In-process lock"),
        "O2": Row("ZooKeeper lock, with the nodes of Hudi's two providers"),
        "O3": Row("DynamoDB lock, with the items of Hudi's two providers"),
        "O4": Row("Hive Metastore lock, with the request of Hudi's provider; both exclude each other"),
        "O5": Row("File-system lock, with the file of Hudi's provider"),
        "O6": Row(
            "Storage-based lock with conditional writes and the file of Hudi's provider, measured on a real server with S3's protocol",
        ),
        "O7": Row("Audit of lock holdings"),
        "O8": Row("Conflict strategies"),
        "O9": Row("No commit is lost if a lock expires; writers with another lock are refused"),
        "O10": Row("Lost responses to the writes of the lock file"),
    },
    "Versions and other software": {
        "Q1": Row("The check of the table's version"),
        "Q2": Row(
            "Tables of version 9 are read, and not written; no version is upgraded or downgraded: the error names Hudi's option or command for it"
        ),
        "Q3": Row(
            "Tables of Hudi 1.0, 1.1 and 1.2 are read; these releases read tables of this project and write to them, also "
            "merge-on-read tables and those with a metadata table"
        ),
        "Q4": Row("", "Registration of tables in catalogs"),
    },
    "The critique's stories": {
        "R1": Row("Two writers with the same instant"),
        "R2": Row("Leaked files of an instant stay invisible"),
        "R3": Row("One instant with two actions"),
        "R4": Row("Commits, metadata table and listing disagree: commits are trusted first, and the doctor reports it"),
        "R5": Row("Locking is on by default"),
        "R6": Row("Concurrent inserts never duplicate a key"),
        "R7": Row("Commits that complete out of order do not change an earlier state"),
        "R8": Row("An incremental consumer misses no commit"),
        "R9": Row("A crashed writer blocks nobody"),
        "R10": Row("A repeated time travel query returns the same rows"),
        "R11": Row(
            "A consumer stores its position, a completion time, in its own commit; so does Dagster's sensor in its cursor"
        ),
        "R12": Row("The read-optimized query reports what it omits, and can refuse if logs contain deletes"),
        "R13": Row("A pause between check and commit loses no data"),
        "R14": Row("The checks under the lock are documented and tested"),
    },
    "The article's mechanisms": {
        "T1": Row("The loop of optimistic concurrency control"),
        "T2": Row("A compare-and-swap decides"),
        "T3": Row("Unique paths; orphaned files are harmless and are removed"),
        "T4": Row("Two processes, a thousand commits each, nothing lost"),
        "T5": Row("Jitter prevents livelock"),
        "T6": Row("A write that lost is planned again; its swap is not repeated"),
        "T7": Row("Short writes cannot delay a long write forever"),
        "T8": Row("A stale listing loses nothing"),
        "T9": Row("Commits per second are measured and published"),
        "T10": Row(
            "Writers on several machines exclude each other through a server: an SQL database", "a commit coordinator"
        ),
        "T11": Row("Requirements of a commit"),
        "T12": Row("", "Commits batched inside one process"),
        "T13": Row("Conflicts are by file group"),
        "T14": Row("", "Transactions over several tables"),
        "T15": Row("Retries are reported, and an asset check turns red above 5"),
    },
    "The model's eleven configurations": {
        "X1": Row("Optimistic, increasing times, key check: safe"),
        "X2": Row("The same without the key check: a duplicate key"),
        "X3": Row("Pessimistic, key check: safe"),
        "X4": Row("The same without the key check: a duplicate key"),
        "X5": Row("No lock: a lost write"),
        "X6": Row("Optimistic, a duplicate time without protection: a lost write"),
        "X7": Row("Pessimistic, a duplicate time without protection: a lost write"),
        "X8": Row("Optimistic, a duplicate time, put-if-absent: safe"),
        "X9": Row("Pessimistic, the same: safe"),
        "X10": Row("Optimistic, a duplicate time, salted names: safe"),
        "X11": Row("Pessimistic, the same: safe"),
    },
    "Capabilities that no other table format has": {
        "U1": Row("Commits are safe if their lock expires"),
        "U2": Row(
            "A public simulator: every order and every crash, conformance suites for storages and locks (`pyhudi.testing`)"
        ),
        "U3": Row("Concurrent inserts create no duplicate key, by default"),
        "U4": Row("A commit is acknowledged once: its token returns its outcome, and a repeated step finds its commit"),
        "U5": Row("Record mergers in Python; their laws are checked, and the error contains a counterexample"),
        "U6": Row("A write that lost several times reserves its file groups, and other writers wait"),
        "U7": Row("Conflicts are explained, and a commit can be tried without committing"),
        "U8": Row("A read-optimized query that reports its age and what it omits, or refuses"),
        "U9": Row(
            "Verified erasure: delete, compact, clean, then search for the bytes; a report with digests",
            "tables with change logs; timestamps as keys, and keys of other generators",
        ),
        "U10": Row("A Dagster sensor by completion times, which reports every commit once"),
        "U11": Row(
            "Table services as Dagster jobs, schedules and a sensor: dry runs, a reason for every no, one executor of a plan; "
            "a compaction as the materialization of a read-optimized asset"
        ),
        "U12": Row(
            "Asset checks for tables: stuck instants, lag of compaction, freshness, retries, readable timelines",
            "checks of keys, indexes and listings",
        ),
        "U13": Row("A read-only doctor: timeline, files, metadata table, indexes, locks"),
        "U14": Row("One commit path for Spark and for Arrow in one process"),
        "U15": Row("A backfill of many partitions is one run and one commit"),
        "U16": Row(
            "A delayed compaction, clustering or clean cannot complete what another process finished",
            "the other services",
        ),
        "U17": Row("Writers with another lock are detected and refused"),
        "U18": Row(
            "A table that another release upgraded to version 9 gets no commit; the error explains how to prevent the upgrade"
        ),
        "U19": Row("Recorded incidents are replayed in the simulator"),
        "U20": Row("A page with reliability figures, all from runs"),
    },
}
