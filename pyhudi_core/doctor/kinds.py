"""The possible findings of the doctor: areas of a table, severities, and every kind of finding with its advice.

One table for code, report and docs/doctor.md: a kind belongs to one area, and has one severity unless the examination sets another.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """The severity of a finding. ``info``: nothing to do. ``repairable``: readers see the correct rows, and the next write repairs the table.
    ``warning``: a person should check it. ``error``: readers or writers fail, or read wrong rows.
    """

    INFO = "info"
    REPAIRABLE = "repairable"
    WARNING = "warning"
    ERROR = "error"

    @property
    def rank(self) -> int:
        """A number that is higher for worse findings."""
        return list(Severity).index(self)


class Area(StrEnum):
    """The parts of a table, in the order of the examination."""

    PROPERTIES = "properties"
    TIMELINE = "timeline"
    COMMIT_RECORD = "commit record"
    HISTORY = "history"
    FILES = "files"
    LEFTOVERS = "leftovers"
    LOCKS = "locks"
    HEARTBEATS = "heartbeats"
    METADATA_TABLE = "metadata table"
    SCHEMA = "schema"
    KEYS = "keys"
    CLOCK = "clock"


class FindingKind(StrEnum):
    """Kinds of findings; their names have the same meaning in every release."""

    NO_TABLE = "no_table"
    PROPERTIES_DAMAGED = "properties_damaged"
    HALF_DROPPED = "half_dropped"
    PROPERTIES_FROM_BACKUP = "properties_from_backup"
    PROPERTIES_BACKUP_LEFT = "properties_backup_left"
    PROPERTIES_INCONSISTENT = "properties_inconsistent"
    UNKNOWN_PROPERTY = "unknown_property"
    OTHER_VERSION = "other_version"
    UNSUPPORTED_TABLE = "unsupported_table"
    NOT_AN_INSTANT = "not_an_instant"
    ODD_TIME = "odd_time"
    NO_COMPLETION_TIME = "no_completion_time"
    COMPLETED_BEFORE_BEGUN = "completed_before_begun"
    TWO_COMPLETIONS = "two_completions"
    TIME_USED_TWICE = "time_used_twice"
    INFLIGHT_WITHOUT_REQUESTED = "inflight_without_requested"
    METADATA_UNREADABLE = "metadata_unreadable"
    COMPLETED_FILE_LOST = "completed_file_lost"
    PLAN_UNREADABLE = "plan_unreadable"
    PLAN_NAMES_OTHER_PLACE = "plan_names_other_place"
    UNSAFE_PATH = "unsafe_path"
    PENDING_ALIVE = "pending_alive"
    PENDING_DEAD = "pending_dead"
    PENDING_FOREIGN = "pending_foreign"
    PENDING_PLAN = "pending_plan"
    ROLLED_BACK_NOT_FORGOTTEN = "rolled_back_not_forgotten"
    UNDONE_COMMIT_IS_BACK = "undone_commit_is_back"
    DECIDED_NOT_PUBLISHED = "decided_not_published"
    COMMIT_RECORD_DAMAGED = "commit_record_damaged"
    COMMIT_RECORD_UNSAFE = "commit_record_unsafe"
    STAGED_LEFT = "staged_left"
    TRANSACTION_TORN = "transaction_torn"
    DECISION_LEFT = "decision_left"
    HISTORY_DAMAGED = "history_damaged"
    HISTORY_LEFTOVER = "history_leftover"
    NAMES_OF_VERSION_6 = "names_of_version_6"
    WRITTEN_BY_OLD_RELEASE = "written_by_old_release"
    OLD_TIMELINE_LEFT = "old_timeline_left"
    ROWS_HIDDEN_BY_UPGRADE = "rows_hidden_by_upgrade"
    FILE_MISSING = "file_missing"
    OLD_FILE_MISSING = "old_file_missing"
    FILE_SIZE_DIFFERS = "file_size_differs"
    FILE_EMPTY = "file_empty"
    FILE_DAMAGED = "file_damaged"
    LOG_DAMAGED = "log_damaged"
    BOOTSTRAP_SOURCE_DIFFERS = "bootstrap_source_differs"
    FILE_OF_LIVING_WRITE = "file_of_living_write"
    FILE_OF_DEAD_WRITE = "file_of_dead_write"
    LEAKED_FILE = "leaked_file"
    LEAKED_FILE_VISIBLE = "leaked_file_visible"
    UNKNOWN_FILE = "unknown_file"
    ICEBERG_DAMAGED = "iceberg_damaged"
    ICEBERG_FOREIGN = "iceberg_foreign"
    PARTITION_WITHOUT_METAFILE = "partition_without_metafile"
    WRITTEN_TO_REPLACED_GROUP = "written_to_replaced_group"
    REPLACED_GROUP_KEPT = "replaced_group_kept"
    HASH_RANGES_DIFFER = "hash_ranges_differ"
    HASH_RANGES_LEFT = "hash_ranges_left"
    MARKERS_LEFT = "markers_left"
    HOLD_UNREADABLE = "hold_unreadable"
    TEMPORARY_FILE_LEFT = "temporary_file_left"
    STALE_CHECKSUM = "stale_checksum"
    CHECKSUM_WITHOUT_FILE = "checksum_without_file"
    LOCK_HELD = "lock_held"
    LOCK_LEFT = "lock_left"
    LOCK_OLD = "lock_old"
    LOCK_UNREADABLE = "lock_unreadable"
    OTHER_LOCK_IDENTITY = "other_lock_identity"
    LOCK_AUDIT = "lock_audit"
    HEARTBEAT_WITHOUT_INSTANT = "heartbeat_without_instant"
    HEARTBEAT_LEFT = "heartbeat_left"
    METADATA_TABLE_MISSING = "metadata_table_missing"
    METADATA_TABLE_UNLISTED = "metadata_table_unlisted"
    METADATA_TABLE_DAMAGED = "metadata_table_damaged"
    METADATA_TABLE_BEHIND = "metadata_table_behind"
    METADATA_PARTITION_MISSING = "metadata_partition_missing"
    METADATA_FILE_MISSING = "metadata_file_missing"
    METADATA_FILE_GONE = "metadata_file_gone"
    METADATA_FILE_UNNAMED = "metadata_file_unnamed"
    METADATA_SIZE_DIFFERS = "metadata_size_differs"
    METADATA_STATISTICS_DIFFER = "metadata_statistics_differ"
    METADATA_INDEX_DIFFERS = "metadata_index_differs"
    SECONDARY_INDEX_DIFFERS = "secondary_index_differs"
    SCHEMA_UNREADABLE = "schema_unreadable"
    SCHEMA_MISSING = "schema_missing"
    SCHEMA_DIFFERS = "schema_differs"
    ROWS_DIFFER = "rows_differ"
    DUPLICATE_KEY = "duplicate_key"
    KEY_MISSING = "key_missing"
    TIME_IN_FUTURE = "time_in_future"
    CLOCK_SKEW = "clock_skew"
    NOT_EXAMINED = "not_examined"
    STORAGE_FAILED = "storage_failed"
    EXAMINATION_FAILED = "examination_failed"

    @property
    def usual(self) -> Usual:
        """Area, severity and advice."""
        return USUAL[self]


@dataclass(frozen=True, slots=True)
class Usual:
    """The default severity, area and advice of a kind; an examination may set others."""

    area: Area
    severity: Severity
    what_to_do: str


_INFO, _REPAIRABLE, _WARNING, _ERROR = Severity
_NOTHING = "No action is needed."
AT_WORK = "No action is needed: its writer is active."
_NEXT_WRITE = "No action is needed: the next write repairs it."
_RESTORE = "Restore the file from a copy of the table; readers fail or see other rows until then."
_PUBLISH_AGAIN = "Run `pyhudi recover LOCATION`. If the commit record does not have the file, restore it from a copy."
_ANEW = "rebuild it with `pyhudi metadata LOCATION repair` (with --plan first), or remove it with `drop`."

USUAL: dict[FindingKind, Usual] = {
    FindingKind.NO_TABLE: Usual(
        Area.PROPERTIES, _ERROR, "Check the location, or create a table there with create_table."
    ),
    FindingKind.PROPERTIES_DAMAGED: Usual(
        Area.PROPERTIES,
        _ERROR,
        "Restore .hoodie/hoodie.properties from a copy; no reader or writer opens the table without it.",
    ),
    FindingKind.HALF_DROPPED: Usual(
        Area.PROPERTIES,
        _ERROR,
        "If the process of the drop is gone, `pyhudi drop LOCATION` finishes it; nothing brings the table back.",
    ),
    FindingKind.PROPERTIES_FROM_BACKUP: Usual(
        Area.PROPERTIES, _WARNING, "Copy hoodie.properties.backup to hoodie.properties while no writer runs."
    ),
    FindingKind.PROPERTIES_BACKUP_LEFT: Usual(Area.PROPERTIES, _INFO, "The next change of the properties removes it."),
    FindingKind.PROPERTIES_INCONSISTENT: Usual(
        Area.PROPERTIES, _WARNING, "Set the properties to consistent values; Hudi's writers refuse these."
    ),
    FindingKind.UNKNOWN_PROPERTY: Usual(Area.PROPERTIES, _INFO, "It is kept unchanged; check that it is not misspelt."),
    FindingKind.OTHER_VERSION: Usual(
        Area.PROPERTIES,
        _ERROR,
        "Versions 8 and 9 are written, 3 to 6 are read. Give Hudi's writers hoodie.write.auto.upgrade=false and hoodie.write.table.version=8, and"
        " change the version of this table with Hudi's command line.",
    ),
    FindingKind.UNSUPPORTED_TABLE: Usual(Area.PROPERTIES, _WARNING, "Use Apache Hudi for this table."),
    FindingKind.NOT_AN_INSTANT: Usual(Area.TIMELINE, _WARNING, "Readers ignore it; remove it if no program needs it."),
    FindingKind.ODD_TIME: Usual(
        Area.TIMELINE,
        _WARNING,
        "Find the program that writes such times; every new time must be greater than this one.",
    ),
    FindingKind.NO_COMPLETION_TIME: Usual(
        Area.TIMELINE, _ERROR, "Upgrade the table to version 8 with Hudi's own tools."
    ),
    FindingKind.COMPLETED_BEFORE_BEGUN: Usual(
        Area.TIMELINE,
        _ERROR,
        "Find the writer whose clock was wrong; time travel and incremental reads may skip this instant.",
    ),
    FindingKind.TWO_COMPLETIONS: Usual(
        Area.TIMELINE, _ERROR, "Keep the completed file whose files are in use, and give all writers one lock provider."
    ),
    FindingKind.TIME_USED_TWICE: Usual(
        Area.TIMELINE, _ERROR, "Give all writers of the table one lock provider and one clock."
    ),
    FindingKind.INFLIGHT_WITHOUT_REQUESTED: Usual(
        Area.TIMELINE, _WARNING, "Roll it back with table.rollback(instant) when its writer has certainly ended."
    ),
    FindingKind.METADATA_UNREADABLE: Usual(Area.TIMELINE, _ERROR, _PUBLISH_AGAIN),
    FindingKind.COMPLETED_FILE_LOST: Usual(Area.TIMELINE, _ERROR, _PUBLISH_AGAIN),
    FindingKind.PLAN_UNREADABLE: Usual(
        Area.TIMELINE,
        _WARNING,
        "No service can execute the plan. Remove a clustering with table.rollback(instant), a restore with table.restore.cancel(instant). Of any "
        "other plan remove the files from the timeline while nothing runs.",
    ),
    FindingKind.PLAN_NAMES_OTHER_PLACE: Usual(
        Area.TIMELINE,
        _INFO,
        "The table was copied or moved after the plan was made. This package never follows such a path.",
    ),
    FindingKind.UNSAFE_PATH: Usual(
        Area.TIMELINE,
        _ERROR,
        "The file that names it is damaged or hostile; the path was not opened. Check who may write to the table.",
    ),
    FindingKind.PENDING_ALIVE: Usual(Area.TIMELINE, _INFO, AT_WORK),
    FindingKind.PENDING_DEAD: Usual(Area.TIMELINE, _REPAIRABLE, "No action is needed: the next write rolls it back."),
    FindingKind.PENDING_FOREIGN: Usual(
        Area.TIMELINE,
        _WARNING,
        "Its writer may be alive or dead. If it has ended, roll a write back with table.rollback(instant); of a plan the finding says how to execute "
        "or to remove it.",
    ),
    FindingKind.PENDING_PLAN: Usual(Area.TIMELINE, _INFO, "A table service may execute the plan at any time."),
    FindingKind.UNDONE_COMMIT_IS_BACK: Usual(
        Area.TIMELINE,
        _WARNING,
        "Remove it with table.restore.take_over(). Readers of this package leave it out; Hudi's readers show a commit whose files are gone.",
    ),
    FindingKind.ROLLED_BACK_NOT_FORGOTTEN: Usual(Area.TIMELINE, _REPAIRABLE, _NEXT_WRITE),
    FindingKind.DECIDED_NOT_PUBLISHED: Usual(
        Area.COMMIT_RECORD,
        _REPAIRABLE,
        "No action is needed: the next write, or commit_status, publishes the decided commit.",
    ),
    FindingKind.COMMIT_RECORD_DAMAGED: Usual(
        Area.COMMIT_RECORD, _ERROR, "No commit is possible: restore the file, or remove it while no writer runs."
    ),
    FindingKind.COMMIT_RECORD_UNSAFE: Usual(
        Area.COMMIT_RECORD,
        _ERROR,
        "Stop all writers and remove the record: its author has write access to the table's folder.",
    ),
    FindingKind.STAGED_LEFT: Usual(
        Area.COMMIT_RECORD,
        _INFO,
        "No action is needed: its commit is decided or rolled back, and a later archival removes it.",
    ),
    FindingKind.TRANSACTION_TORN: Usual(
        Area.COMMIT_RECORD,
        _WARNING,
        "The other table was restored, or a program that does not know the commit record rolled the commit back. Write its rows again, or restore "
        "this table to before the transaction.",
    ),
    FindingKind.DECISION_LEFT: Usual(
        Area.COMMIT_RECORD,
        _INFO,
        "No action is needed: when the transaction is published or rolled back in every table, archival or `pyhudi sweep` removes it.",
    ),
    FindingKind.HISTORY_DAMAGED: Usual(
        Area.HISTORY,
        _ERROR,
        "Restore the timeline history from a copy; times of archived instants cannot be found until then.",
    ),
    FindingKind.HISTORY_LEFTOVER: Usual(Area.HISTORY, _INFO, "No manifest names it; the next archival may remove it."),
    FindingKind.NAMES_OF_VERSION_6: Usual(
        Area.FILES, _INFO, "This package reads them; let Hudi run pending compactions."
    ),
    FindingKind.WRITTEN_BY_OLD_RELEASE: Usual(
        Area.HISTORY,
        _ERROR,
        "Its rows are in files that nobody reads: end the writer, and run `pyhudi upgrade LOCATION`, which takes the commit over, or says why not"
        " (--plan: only says it); then write its rows again with a release that knows the new version.",
    ),
    FindingKind.OLD_TIMELINE_LEFT: Usual(
        Area.HISTORY, _INFO, "It is the way back until there is a newer commit; then `pyhudi upgrade` removes it."
    ),
    FindingKind.ROWS_HIDDEN_BY_UPGRADE: Usual(
        Area.FILES, _WARNING, "Run the pending compaction: `pyhudi compact LOCATION`, or table.compaction.execute()."
    ),
    FindingKind.FILE_MISSING: Usual(Area.FILES, _ERROR, _RESTORE),
    FindingKind.OLD_FILE_MISSING: Usual(
        Area.FILES,
        _WARNING,
        "Reads of the newest state are correct; time travel to times before its replacement fails.",
    ),
    FindingKind.FILE_SIZE_DIFFERS: Usual(Area.FILES, _ERROR, _RESTORE),
    FindingKind.FILE_EMPTY: Usual(Area.FILES, _ERROR, _RESTORE),
    FindingKind.FILE_DAMAGED: Usual(Area.FILES, _ERROR, _RESTORE),
    FindingKind.LOG_DAMAGED: Usual(Area.FILES, _ERROR, _RESTORE),
    FindingKind.BOOTSTRAP_SOURCE_DIFFERS: Usual(
        Area.FILES,
        _ERROR,
        "Reads of its rows fail: put the file back as it was, with its modification time, or bootstrap a new table.",
    ),
    FindingKind.FILE_OF_LIVING_WRITE: Usual(Area.FILES, _INFO, AT_WORK),
    FindingKind.FILE_OF_DEAD_WRITE: Usual(Area.FILES, _REPAIRABLE, "No action is needed: the next write removes it."),
    FindingKind.LEAKED_FILE: Usual(
        Area.FILES, _WARNING, "No commit names it, and this package never reads it. `pyhudi sweep` removes it."
    ),
    FindingKind.LEAKED_FILE_VISIBLE: Usual(
        Area.FILES,
        _ERROR,
        "Readers treat it as a file of an archived commit. Remove it if its instant never completed.",
    ),
    FindingKind.UNKNOWN_FILE: Usual(Area.FILES, _INFO, "Readers ignore it."),
    FindingKind.ICEBERG_DAMAGED: Usual(
        Area.FILES,
        _ERROR,
        "Readers of Iceberg fail, and cleans and syncs are refused: delete the files *.metadata.json, *.avro and version-hint.text in"
        " metadata/ and nothing else, and run `pyhudi iceberg LOCATION`. No data is lost.",
    ),
    FindingKind.ICEBERG_FOREIGN: Usual(
        Area.FILES,
        _WARNING,
        "A sync takes nothing over from there. If v*.metadata.json is changed, move *.metadata.json, *.avro and version-hint.text in metadata/ away;"
        " in a catalog, take the name out without a purge."
        " Then sync again.",
    ),
    FindingKind.PARTITION_WITHOUT_METAFILE: Usual(
        Area.FILES,
        _ERROR,
        "Its rows are invisible to Spark: copy .hoodie_partition_metadata from a sibling partition.",
    ),
    FindingKind.WRITTEN_TO_REPLACED_GROUP: Usual(
        Area.FILES, _ERROR, "Its rows are invisible: write them again, and give all writers one lock provider."
    ),
    FindingKind.REPLACED_GROUP_KEPT: Usual(Area.FILES, _INFO, "Cleaning removes its files when they are old enough."),
    FindingKind.HASH_RANGES_DIFFER: Usual(
        Area.FILES,
        _ERROR,
        "Restore the metadata of consistent hashing from a copy. Writes to the partition are refused, because rows would be lost or doubled.",
    ),
    FindingKind.HASH_RANGES_LEFT: Usual(
        Area.FILES,
        _WARNING,
        "Delete the file while no clustering runs. This package ignores it; Hudi's writers may use it.",
    ),
    FindingKind.MARKERS_LEFT: Usual(Area.LEFTOVERS, _INFO, "Its instant is not pending; `pyhudi sweep` removes them."),
    FindingKind.HOLD_UNREADABLE: Usual(
        Area.LEFTOVERS,
        _WARNING,
        "No data file is cleaned or swept while it is there: delete it with `pyhudi hold LOCATION delete --name NAME` if no reader needs it.",
    ),
    FindingKind.TEMPORARY_FILE_LEFT: Usual(
        Area.LEFTOVERS, _INFO, "A process was killed while it wrote the file. `pyhudi sweep` removes it."
    ),
    FindingKind.STALE_CHECKSUM: Usual(
        Area.LEFTOVERS,
        _ERROR,
        "Hudi refuses the file that the .crc file belongs to. Remove the .crc file; the file itself is unchanged.",
    ),
    FindingKind.CHECKSUM_WITHOUT_FILE: Usual(Area.LEFTOVERS, _INFO, "You may remove it."),
    FindingKind.LOCK_HELD: Usual(Area.LOCKS, _INFO, _NOTHING),
    FindingKind.LOCK_LEFT: Usual(Area.LOCKS, _REPAIRABLE, "No action is needed: the next writer takes it over."),
    FindingKind.LOCK_OLD: Usual(
        Area.LOCKS,
        _WARNING,
        "If that writer has certainly ended, delete the lock file, and set hoodie.write.lock.filesystem.expire (minutes).",
    ),
    FindingKind.LOCK_UNREADABLE: Usual(Area.LOCKS, _WARNING, "Delete the lock file if no writer runs."),
    FindingKind.OTHER_LOCK_IDENTITY: Usual(
        Area.LOCKS,
        _WARNING,
        "Writers with different locks do not exclude each other: give all of them one lock provider.",
    ),
    FindingKind.LOCK_AUDIT: Usual(Area.LOCKS, _INFO, _NOTHING),
    FindingKind.HEARTBEAT_WITHOUT_INSTANT: Usual(
        Area.HEARTBEATS, _INFO, "A writer is about to begin; the next check shows its instant."
    ),
    FindingKind.HEARTBEAT_LEFT: Usual(Area.HEARTBEATS, _REPAIRABLE, "No action is needed: the next write removes it."),
    FindingKind.METADATA_TABLE_MISSING: Usual(
        Area.METADATA_TABLE,
        _ERROR,
        "Readers that use the list fail: rebuild it with `pyhudi metadata LOCATION repair` (with --plan first), or remove it with `drop`.",
    ),
    FindingKind.METADATA_TABLE_UNLISTED: Usual(
        Area.METADATA_TABLE, _INFO, "No reader uses it; Hudi's next writer rebuilds it."
    ),
    FindingKind.METADATA_TABLE_DAMAGED: Usual(Area.METADATA_TABLE, _ERROR, f"Readers that use it fail: {_ANEW}"),
    FindingKind.METADATA_TABLE_BEHIND: Usual(
        Area.METADATA_TABLE,
        _ERROR,
        f"Readers that use it do not see the commit, readers of this package list files: {_ANEW}",
    ),
    FindingKind.METADATA_PARTITION_MISSING: Usual(
        Area.METADATA_TABLE, _ERROR, f"Readers that use it do not see the partition: {_ANEW}"
    ),
    FindingKind.METADATA_FILE_MISSING: Usual(
        Area.METADATA_TABLE, _ERROR, f"Readers that use it do not see the file's rows: {_ANEW}"
    ),
    FindingKind.METADATA_FILE_GONE: Usual(
        Area.METADATA_TABLE, _ERROR, f"Readers that use it look for a file that does not exist: {_ANEW}"
    ),
    FindingKind.METADATA_FILE_UNNAMED: Usual(
        Area.METADATA_TABLE, _ERROR, f"Readers that use it show rows that belong to no commit: {_ANEW}"
    ),
    FindingKind.METADATA_SIZE_DIFFERS: Usual(
        Area.METADATA_TABLE, _ERROR, f"Readers that use it read the file only in part, or beyond its end: {_ANEW}"
    ),
    FindingKind.METADATA_STATISTICS_DIFFER: Usual(
        Area.METADATA_TABLE, _ERROR, f"Readers that use it skip the file in queries that need its rows: {_ANEW}"
    ),
    FindingKind.METADATA_INDEX_DIFFERS: Usual(
        Area.METADATA_TABLE, _ERROR, f"Writers that look up keys in it write these keys a second time: {_ANEW}"
    ),
    FindingKind.SECONDARY_INDEX_DIFFERS: Usual(
        Area.METADATA_TABLE, _ERROR, f"Readers that look up values in it omit rows: {_ANEW}"
    ),
    FindingKind.SCHEMA_UNREADABLE: Usual(
        Area.SCHEMA, _ERROR, "Write to the table once with Hudi, which stores a readable schema in the commit."
    ),
    FindingKind.SCHEMA_MISSING: Usual(
        Area.SCHEMA, _WARNING, "Write to the table once with Hudi, which stores the schema in the commit."
    ),
    FindingKind.SCHEMA_DIFFERS: Usual(Area.SCHEMA, _ERROR, "Rewrite the rows of the file with the table's columns."),
    FindingKind.ROWS_DIFFER: Usual(Area.SCHEMA, _ERROR, _RESTORE),
    FindingKind.DUPLICATE_KEY: Usual(
        Area.KEYS,
        _ERROR,
        "Run `pyhudi repair LOCATION --duplicates`, which shows what it would remove; give all writers one lock provider.",
    ),
    FindingKind.KEY_MISSING: Usual(Area.KEYS, _ERROR, "Delete the rows and write them again with a key."),
    FindingKind.TIME_IN_FUTURE: Usual(
        Area.CLOCK,
        _WARNING,
        "Correct the wrong clock. If the time is far ahead, writes are refused on tables with Hudi's own writers or without put-if-absent.",
    ),
    FindingKind.CLOCK_SKEW: Usual(Area.CLOCK, _WARNING, "Synchronise the clocks of all writers with one time server."),
    FindingKind.NOT_EXAMINED: Usual(
        Area.FILES, _INFO, "Raise the limit, or examine it in another way; the doctor makes no claim about it."
    ),
    FindingKind.STORAGE_FAILED: Usual(
        Area.FILES, _ERROR, "Try again when the storage answers; the doctor makes no claim about unread data."
    ),
    FindingKind.EXAMINATION_FAILED: Usual(
        Area.FILES, _ERROR, "Report it with the recorded incident (pyhudi check --record)."
    ),
}
