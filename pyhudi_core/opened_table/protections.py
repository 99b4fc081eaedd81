"""The protections of the commit protocol, as switches that only ``pyhudi.testing`` and tests turn off.

Some are columns in the table of configurations of the model-checking study of Hudi's concurrency control (put-if-absent, salt, locking, monotonic
timestamps, key check); the others are additions of this protocol. Each protection has a test that sees the failure which the protection prevents.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Protections:
    """All on by default.

    Attributes:
        conflict_check: a commit is refused if a concurrent commit changed its file groups.
        key_check: a commit is refused if it and a concurrent commit inserted rows that may have the same key.
        lock: commits are decided one after the other.
        commit_record: a commit is decided by a compare-and-swap, so that a lost lock does no harm.
        roll_forward: the decision of a dead process is published before the next decision.
        look_up_before_abort: a writer looks for its own commit on the timeline before it reports the commit as undone.
        reservation: a requested time belongs to one writer, for every action.
        monotonic_times: a requested time is above all known times, independent of the clock.
        requested_once, inflight_once, completed_once: a timeline file is never overwritten.
        completion_watermark: a completion time is above every time on the timeline.
        salt: two attempts never give a data file the same name, and a writer recognizes its own completed instant by its token, not by its time.
        heartbeat_before_rollback: a write is rolled back only if its writer is known to have ended.
        admission_by_name: readers see the files that the completed commit names, not every file with the time of the commit in its name.
        path_containment: only data files below the table are deleted.
        version_gate: if another program has upgraded the table during the write, the write cannot commit.
        jitter: writers wait for a random time after a conflict.
        replan: a write that lost a conflict is planned again, from the state after the other commit.
    """

    conflict_check: bool = True
    key_check: bool = True
    lock: bool = True
    commit_record: bool = True
    roll_forward: bool = True
    look_up_before_abort: bool = True
    reservation: bool = True
    monotonic_times: bool = True
    requested_once: bool = True
    inflight_once: bool = True
    completed_once: bool = True
    completion_watermark: bool = True
    salt: bool = True
    heartbeat_before_rollback: bool = True
    admission_by_name: bool = True
    path_containment: bool = True
    version_gate: bool = True
    jitter: bool = True
    replan: bool = True
