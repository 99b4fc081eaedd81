"""What the doctor can find: areas of a table, degrees of severity, and every kind of finding with what to do about it.

One table for code, report and docs/doctor.md: a kind belongs to one area and has one severity unless the examination says otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """How bad a finding is.

    ``info``: nothing has to be done. ``repairable``: readers see the right rows, and the next write repairs it. ``warning``: somebody
    should look. ``error``: readers or writers fail, or see something wrong.
    """

    INFO = "info"
    REPAIRABLE = "repairable"
    WARNING = "warning"
    ERROR = "error"

    @property
    def rank(self) -> int:
        """Higher is worse."""
        return list(Severity).index(self)


class Area(StrEnum):
    """The parts of a table, in the order in which they are examined."""

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


class Kind(StrEnum):
    """Kinds of findings; the texts are stable and mean the same in every release."""

    NO_TABLE = "no_table"
    PROPERTIES_DAMAGED = "properties_damaged"
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
    PLAN_UNREADABLE = "plan_unreadable"
    PLAN_NAMES_OTHER_PLACE = "plan_names_other_place"
    UNSAFE_PATH = "unsafe_path"
    PENDING_ALIVE = "pending_alive"
    PENDING_DEAD = "pending_dead"
    PENDING_FOREIGN = "pending_foreign"
    PENDING_PLAN = "pending_plan"
    ROLLED_BACK_NOT_FORGOTTEN = "rolled_back_not_forgotten"
    DECIDED_NOT_PUBLISHED = "decided_not_published"
    COMMIT_RECORD_DAMAGED = "commit_record_damaged"
    COMMIT_RECORD_UNSAFE = "commit_record_unsafe"
    STAGED_LEFT = "staged_left"
    HISTORY_DAMAGED = "history_damaged"
    HISTORY_LEFTOVER = "history_leftover"
    FILE_MISSING = "file_missing"
    OLD_FILE_MISSING = "old_file_missing"
    FILE_SIZE_DIFFERS = "file_size_differs"
    FILE_EMPTY = "file_empty"
    FILE_DAMAGED = "file_damaged"
    LOG_DAMAGED = "log_damaged"
    FILE_OF_LIVING_WRITE = "file_of_living_write"
    FILE_OF_DEAD_WRITE = "file_of_dead_write"
    LEAKED_FILE = "leaked_file"
    LEAKED_FILE_VISIBLE = "leaked_file_visible"
    UNKNOWN_FILE = "unknown_file"
    PARTITION_WITHOUT_METAFILE = "partition_without_metafile"
    WRITTEN_TO_REPLACED_GROUP = "written_to_replaced_group"
    REPLACED_GROUP_KEPT = "replaced_group_kept"
    MARKERS_LEFT = "markers_left"
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
    """What holds for a kind unless an examination knows better."""

    area: Area
    severity: Severity
    what_to_do: str


_INFO, _REPAIRABLE, _WARNING, _ERROR = Severity.INFO, Severity.REPAIRABLE, Severity.WARNING, Severity.ERROR
_NOTHING = "Nothing has to be done."
AT_WORK = "Nothing has to be done: its writer is at work."
_NEXT_WRITE = "Nothing has to be done: the next write repairs it."
_RESTORE = "Restore the file from a copy of the table; readers fail or see other rows until then."
_ANEW = "take it off hoodie.table.metadata.partitions, or write once here; Hudi's next writer builds it anew."
_NO_UPGRADE = "hoodie.write.auto.upgrade=false and hoodie.write.table.version=8"

USUAL: dict[Kind, Usual] = {
    Kind.NO_TABLE: Usual(Area.PROPERTIES, _ERROR, "Check the location, or make a table there with create_table."),
    Kind.PROPERTIES_DAMAGED: Usual(
        Area.PROPERTIES,
        _ERROR,
        "Restore .hoodie/hoodie.properties from a copy; no reader or writer opens the table without it.",
    ),
    Kind.PROPERTIES_FROM_BACKUP: Usual(
        Area.PROPERTIES, _WARNING, "Copy hoodie.properties.backup to hoodie.properties while no writer runs."
    ),
    Kind.PROPERTIES_BACKUP_LEFT: Usual(Area.PROPERTIES, _INFO, "The next change of the properties removes it."),
    Kind.PROPERTIES_INCONSISTENT: Usual(
        Area.PROPERTIES, _WARNING, "Set the properties to values that fit together; Hudi's writers refuse these."
    ),
    Kind.UNKNOWN_PROPERTY: Usual(Area.PROPERTIES, _INFO, "It is kept as it is; check that it is not a misspelling."),
    Kind.OTHER_VERSION: Usual(
        Area.PROPERTIES,
        _ERROR,
        f"Give every Hudi 1.1 or newer that writes to version 8 tables {_NO_UPGRADE}; downgrade this one with Hudi's command line.",
    ),
    Kind.UNSUPPORTED_TABLE: Usual(Area.PROPERTIES, _WARNING, "Use Apache Hudi for this table."),
    Kind.NOT_AN_INSTANT: Usual(Area.TIMELINE, _WARNING, "Readers pass over it; remove it if nobody knows what it is."),
    Kind.ODD_TIME: Usual(
        Area.TIMELINE, _WARNING, "Find out which program writes such times; new times would have to sort after it."
    ),
    Kind.NO_COMPLETION_TIME: Usual(
        Area.TIMELINE, _ERROR, "Upgrade the table to version 8 with Hudi's own tools first."
    ),
    Kind.COMPLETED_BEFORE_BEGUN: Usual(
        Area.TIMELINE,
        _ERROR,
        "Find the writer whose clock was wrong; time travel and incremental reads may pass over this instant.",
    ),
    Kind.TWO_COMPLETIONS: Usual(
        Area.TIMELINE, _ERROR, "Keep the completed file whose files are in use, and give all writers one lock provider."
    ),
    Kind.TIME_USED_TWICE: Usual(
        Area.TIMELINE, _ERROR, "Give all writers of the table one lock provider and one clock."
    ),
    Kind.INFLIGHT_WITHOUT_REQUESTED: Usual(
        Area.TIMELINE, _WARNING, "Roll it back with table.rollback(instant) when its writer is gone for sure."
    ),
    Kind.METADATA_UNREADABLE: Usual(Area.TIMELINE, _ERROR, _RESTORE),
    Kind.PLAN_UNREADABLE: Usual(Area.TIMELINE, _WARNING, "Roll the instant back; nothing follows the plan until then."),
    Kind.PLAN_NAMES_OTHER_PLACE: Usual(
        Area.TIMELINE, _INFO, "The table was copied or moved after the plan was made. Nothing here follows such a path."
    ),
    Kind.UNSAFE_PATH: Usual(
        Area.TIMELINE,
        _ERROR,
        "The file that names it is damaged or hostile; nothing was opened there. Find out who may write to the table.",
    ),
    Kind.PENDING_ALIVE: Usual(Area.TIMELINE, _INFO, AT_WORK),
    Kind.PENDING_DEAD: Usual(Area.TIMELINE, _REPAIRABLE, "Nothing has to be done: the next write rolls it back."),
    Kind.PENDING_FOREIGN: Usual(
        Area.TIMELINE,
        _WARNING,
        "It keeps no heartbeat, so nobody can tell whether its writer lives. Roll it back with table.rollback(instant) if it is gone.",
    ),
    Kind.PENDING_PLAN: Usual(Area.TIMELINE, _INFO, "A table service may execute the plan at any time."),
    Kind.ROLLED_BACK_NOT_FORGOTTEN: Usual(Area.TIMELINE, _REPAIRABLE, _NEXT_WRITE),
    Kind.DECIDED_NOT_PUBLISHED: Usual(
        Area.COMMIT_RECORD,
        _REPAIRABLE,
        "Nothing has to be done: the next write, or commit_status, publishes the decided commit.",
    ),
    Kind.COMMIT_RECORD_DAMAGED: Usual(
        Area.COMMIT_RECORD, _ERROR, "No commit is possible: restore the file, or remove it while no writer runs."
    ),
    Kind.COMMIT_RECORD_UNSAFE: Usual(
        Area.COMMIT_RECORD,
        _ERROR,
        "Stop all writers and remove the record: whoever made it may write to the table's folder.",
    ),
    Kind.STAGED_LEFT: Usual(
        Area.COMMIT_RECORD,
        _INFO,
        "Nothing has to be done: its commit is decided or rolled back, and a later archival removes it.",
    ),
    Kind.HISTORY_DAMAGED: Usual(
        Area.HISTORY,
        _ERROR,
        "Restore the timeline history from a copy; times of archived instants cannot be found until then.",
    ),
    Kind.HISTORY_LEFTOVER: Usual(Area.HISTORY, _INFO, "No manifest names it; the next archival may remove it."),
    Kind.FILE_MISSING: Usual(Area.FILES, _ERROR, _RESTORE),
    Kind.OLD_FILE_MISSING: Usual(
        Area.FILES, _WARNING, "Reads of the newest state are right; time travel to before its replacement is not."
    ),
    Kind.FILE_SIZE_DIFFERS: Usual(Area.FILES, _ERROR, _RESTORE),
    Kind.FILE_EMPTY: Usual(Area.FILES, _ERROR, _RESTORE),
    Kind.FILE_DAMAGED: Usual(Area.FILES, _ERROR, _RESTORE),
    Kind.LOG_DAMAGED: Usual(Area.FILES, _ERROR, _RESTORE),
    Kind.FILE_OF_LIVING_WRITE: Usual(Area.FILES, _INFO, AT_WORK),
    Kind.FILE_OF_DEAD_WRITE: Usual(Area.FILES, _REPAIRABLE, "Nothing has to be done: the next write removes it."),
    Kind.LEAKED_FILE: Usual(
        Area.FILES, _WARNING, "No commit names it, and no read here shows it. Remove it while no writer runs."
    ),
    Kind.LEAKED_FILE_VISIBLE: Usual(
        Area.FILES,
        _ERROR,
        "Readers take it for a file of an archived commit. Remove it if its instant never completed.",
    ),
    Kind.UNKNOWN_FILE: Usual(Area.FILES, _INFO, "Readers pass over it."),
    Kind.PARTITION_WITHOUT_METAFILE: Usual(
        Area.FILES,
        _ERROR,
        "Its rows are invisible to Spark: copy .hoodie_partition_metadata from a sibling partition.",
    ),
    Kind.WRITTEN_TO_REPLACED_GROUP: Usual(
        Area.FILES, _ERROR, "Its rows are invisible: write them again, and give all writers one lock provider."
    ),
    Kind.REPLACED_GROUP_KEPT: Usual(Area.FILES, _INFO, "Cleaning removes its files when they are old enough."),
    Kind.MARKERS_LEFT: Usual(Area.LEFTOVERS, _INFO, "Remove the folder at leisure; its instant is not pending."),
    Kind.TEMPORARY_FILE_LEFT: Usual(
        Area.LEFTOVERS, _INFO, "A process was killed while it wrote the file. Remove it while no writer runs."
    ),
    Kind.STALE_CHECKSUM: Usual(
        Area.LEFTOVERS,
        _ERROR,
        "Hudi refuses the file beside it. Remove the .crc file; the file itself is as it was written.",
    ),
    Kind.CHECKSUM_WITHOUT_FILE: Usual(Area.LEFTOVERS, _INFO, "Remove it at leisure."),
    Kind.LOCK_HELD: Usual(Area.LOCKS, _INFO, _NOTHING),
    Kind.LOCK_LEFT: Usual(Area.LOCKS, _REPAIRABLE, "Nothing has to be done: the next writer takes it over."),
    Kind.LOCK_OLD: Usual(
        Area.LOCKS,
        _WARNING,
        "If that writer has ended for sure, delete the lock file, and set hoodie.write.lock.filesystem.expire (minutes).",
    ),
    Kind.LOCK_UNREADABLE: Usual(Area.LOCKS, _WARNING, "Delete the lock file if no writer runs."),
    Kind.OTHER_LOCK_IDENTITY: Usual(
        Area.LOCKS,
        _WARNING,
        "Writers with different locks do not exclude each other: give all of them one lock provider.",
    ),
    Kind.LOCK_AUDIT: Usual(Area.LOCKS, _INFO, _NOTHING),
    Kind.HEARTBEAT_WITHOUT_INSTANT: Usual(
        Area.HEARTBEATS, _INFO, "A writer is about to begin; the next look shows its instant."
    ),
    Kind.HEARTBEAT_LEFT: Usual(Area.HEARTBEATS, _REPAIRABLE, "Nothing has to be done: the next write removes it."),
    Kind.METADATA_TABLE_MISSING: Usual(
        Area.METADATA_TABLE,
        _ERROR,
        "Readers that believe the list fail: remove hoodie.table.metadata.partitions, or write once here.",
    ),
    Kind.METADATA_TABLE_UNLISTED: Usual(
        Area.METADATA_TABLE, _INFO, "No reader uses it; Hudi's next writer builds it anew."
    ),
    Kind.METADATA_TABLE_DAMAGED: Usual(Area.METADATA_TABLE, _ERROR, f"Readers that believe it fail: {_ANEW}"),
    Kind.METADATA_TABLE_BEHIND: Usual(
        Area.METADATA_TABLE, _ERROR, f"Readers that believe it do not see the commit, readers here list files: {_ANEW}"
    ),
    Kind.METADATA_PARTITION_MISSING: Usual(
        Area.METADATA_TABLE, _ERROR, f"Readers that believe it do not see the partition: {_ANEW}"
    ),
    Kind.METADATA_FILE_MISSING: Usual(
        Area.METADATA_TABLE, _ERROR, f"Readers that believe it do not see the file's rows: {_ANEW}"
    ),
    Kind.METADATA_FILE_GONE: Usual(
        Area.METADATA_TABLE, _ERROR, f"Readers that believe it look for a file that is not there: {_ANEW}"
    ),
    Kind.METADATA_FILE_UNNAMED: Usual(
        Area.METADATA_TABLE, _ERROR, f"Readers that believe it show rows that no commit has: {_ANEW}"
    ),
    Kind.METADATA_SIZE_DIFFERS: Usual(
        Area.METADATA_TABLE, _ERROR, f"Readers that believe it read the file only in part, or beyond its end: {_ANEW}"
    ),
    Kind.METADATA_STATISTICS_DIFFER: Usual(
        Area.METADATA_TABLE,
        _ERROR,
        f"Readers that believe it leave the file out of queries that want its rows: {_ANEW}",
    ),
    Kind.METADATA_INDEX_DIFFERS: Usual(
        Area.METADATA_TABLE, _ERROR, f"Writers that look keys up in it write them a second time: {_ANEW}"
    ),
    Kind.SCHEMA_UNREADABLE: Usual(
        Area.SCHEMA, _ERROR, "Write to the table once with Hudi, which stores a readable schema in the commit."
    ),
    Kind.SCHEMA_MISSING: Usual(
        Area.SCHEMA, _WARNING, "Write to the table once with Hudi, which stores the schema in the commit."
    ),
    Kind.SCHEMA_DIFFERS: Usual(Area.SCHEMA, _ERROR, "Rewrite the rows of the file with the table's columns."),
    Kind.ROWS_DIFFER: Usual(Area.SCHEMA, _ERROR, _RESTORE),
    Kind.DUPLICATE_KEY: Usual(
        Area.KEYS, _ERROR, "Delete the keys and write their right versions again; give all writers one lock provider."
    ),
    Kind.KEY_MISSING: Usual(Area.KEYS, _ERROR, "Delete the rows and write them again with a key."),
    Kind.TIME_IN_FUTURE: Usual(
        Area.CLOCK,
        _WARNING,
        "Set the clock that is wrong. Far ahead, writes are refused beside Hudi's own writers or without put-if-absent.",
    ),
    Kind.CLOCK_SKEW: Usual(Area.CLOCK, _WARNING, "Set the clocks of all writers by one time server."),
    Kind.NOT_EXAMINED: Usual(
        Area.FILES, _INFO, "Raise the limit, or examine it another way; nothing is claimed about it."
    ),
    Kind.STORAGE_FAILED: Usual(
        Area.FILES, _ERROR, "Try again when the storage answers; nothing is claimed about what was not read."
    ),
    Kind.EXAMINATION_FAILED: Usual(Area.FILES, _ERROR, "Report it with the recorded incident (pyhudi check --record)."),
}
