"""Examine locks: the holder and the begin of the holding, whether the holder can still be running, and whether all writers use the same lock.

The module examines the lock files of Hudi's FileSystemBasedLockProvider (which this package uses, too) and StorageBasedLockProvider, and the audit of
past holdings.
"""

from __future__ import annotations

from pyhudi_core.doctor.examination import Examination, Limits
from pyhudi_core.doctor.kinds import Area, FindingKind
from pyhudi_core.doctor.read_only import ReadOnlyStorage
from pyhudi_core.errors import LockIdentityError
from pyhudi_core.lock import audit
from pyhudi_core.lock.base import refuse_other_lock
from pyhudi_core.lock.file_system import DEFAULT_FOLDER, FileSystemOptions, describe_foreign, is_gone, parse_holder
from pyhudi_core.lock.storage_lock_file import LOCK_FILE, LOCK_FOLDER, LockFile, Owner
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.storage.base import ObjectInfo

_AREA = Area.LOCKS
_LONG_MS = 10 * 60_000
"""A commit holds the lock for milliseconds, so a lock that is held for longer than this is reported."""

FILE_NAME = "lock"
_IN_TABLE = ("file_system:", "storage_based:")


def examine(exam: Examination) -> None:
    """Examine every path where a lock file of this table may be."""
    own = exam.context.options.lock.of(FileSystemOptions).path if exam.context is not None else DEFAULT_FOLDER
    found = 0
    for folder in dict.fromkeys((own, ".hoodie", LOCK_FOLDER)):
        info = _head(exam, f"{folder}/{FILE_NAME}")
        if info is not None:
            found += 1
            _examine_file(exam, info)
    info = _head(exam, LOCK_FILE)
    if info is not None:
        found += 1
        _examine_lease(exam, info)
    holdings = _examine_audit(exam)
    exam.counts.update({"lock files": found, "recorded lock holdings": holdings})
    exam.add_summary(_AREA, f"{found} lock files, {holdings} recorded holdings")


def lock_state(context: TableContext) -> str:
    """Return the lock of the table, and its holder.

    This makes three small reads. A lock outside the table's folder is not read.
    """
    identity = context.lock.identity
    if not identity.startswith(_IN_TABLE):
        return f"{identity}, whose holder only its own program knows"
    clock = context.runtime.clock
    exam = Examination(ReadOnlyStorage(context.storage), context.runtime, Limits(), lambda *_: None, clock.now_ms())
    exam.use(context)
    examine(exam)
    found = [finding.what for finding in exam.findings if finding.kind is not FindingKind.LOCK_AUDIT]
    return f"{identity}: {'; '.join(found) or 'free'}"


def examine_identity(exam: Examination, found: str, instant: str | None = None, where: str | None = None) -> None:
    """Report whether a writer used a lock that is not the lock of this handle."""
    context = exam.context
    if context is None:
        return
    try:
        ours, given_up = context.lock.identity, context.options.lock.change_from
        refuse_other_lock(found, ours, given_up=given_up, process=exam.runtime.process, table=exam.storage.location)
    except LockIdentityError:
        what = (
            f"The lock {found[:120]!r} was used, and this handle uses {ours[:120]!r}: the two do not exclude each other"
        )
        exam.add(FindingKind.OTHER_LOCK_IDENTITY, what, where, instant)


def _head(exam: Examination, path: str) -> ObjectInfo | None:
    with exam.recording_failures(_AREA, path):
        return exam.storage.head(path)
    return None


def _examine_file(exam: Examination, info: ObjectInfo) -> None:
    content = exam.read(_AREA, info)
    if content is None:
        return
    holder = parse_holder(content)
    who = holder.describe() if holder is not None else describe_foreign(content)
    age_ms = exam.now_ms - info.modified_ms
    given = exam.context.options.lock.of(FileSystemOptions) if exam.context is not None else FileSystemOptions()
    expire = given.expire_minutes * 60_000
    if holder is not None and is_gone(holder):
        exam.add(FindingKind.LOCK_LEFT, f"The lock was left by {who}, which has ended", info.path)
    elif 0 < expire < age_ms:
        exam.add(FindingKind.LOCK_LEFT, f"The lock of {who} has expired", info.path)
    else:
        _held(exam, who, age_ms, info)
    examine_identity(exam, f"file_system:{info.path.removesuffix('/' + FILE_NAME)}", where=info.path)


def _held(exam: Examination, who: str, age_ms: int, info: ObjectInfo) -> None:
    if age_ms > _LONG_MS:
        exam.add(FindingKind.LOCK_OLD, f"The lock has been held for {age_ms // 60_000:,} minutes by {who}", info.path)
    else:
        exam.add(FindingKind.LOCK_HELD, f"The lock is held by {who}", info.path)


def _examine_lease(exam: Examination, info: ObjectInfo) -> None:
    content = exam.read(_AREA, info)
    if content is None:
        return
    lease = LockFile.parse(content)
    if lease is None:
        exam.add(
            FindingKind.LOCK_UNREADABLE,
            "The lock file does not have the content that a lock provider writes",
            info.path,
        )
        return
    if lease.expired:
        return
    owner = Owner.parse(lease.owner)
    if lease.valid_until_ms <= exam.now_ms:
        exam.add(FindingKind.LOCK_LEFT, f"The lease of {lease.describe()} has expired", info.path)
    elif owner is not None and exam.runtime.process.is_gone(owner.process):
        exam.add(FindingKind.LOCK_LEFT, f"The lock was left by {lease.describe()}, which has ended", info.path)
    else:
        _held(exam, lease.describe(), exam.now_ms - (owner.since_ms if owner is not None else info.modified_ms), info)


def _examine_audit(exam: Examination) -> int:
    """Examine the newest recorded holdings."""
    with exam.recording_failures(_AREA, audit.AUDIT_FOLDER):
        holdings = audit.read(exam.storage)
        damaged = sum(holding.damaged for holding in holdings)
        if holdings:
            last = holdings[-1]
            ended = "was released" if last.ended_ms is not None else "has no recorded release"
            what = (
                f"{len(holdings):,} holdings of the lock are recorded; the latest ({last.note or last.owner}) {ended}"
            )
            exam.add(FindingKind.LOCK_AUDIT, what + (f"; {damaged} lines are damaged" if damaged else ""), last.path)
        for other in {holding.lock: holding for holding in holdings if holding.lock}.values():
            examine_identity(exam, other.lock, where=other.path)
        return len(holdings)
    return 0
