"""The state of one examination: the known facts, bounded reads, and the findings.

Invariants
- no module of the doctor changes the storage: `Examination` and its context have only a `ReadOnlyStorage`;
- a failure during a read becomes a finding, and unexamined data is never reported as sound;
- reads are bounded by `Limits`; the listed sizes are checked before a file is read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from pyhudi_core.doctor.kinds import Area, FindingKind, Severity
from pyhudi_core.doctor.read_only import ReadOnlyStorage
from pyhudi_core.doctor.report import NOT_EXAMINED, AreaSummary, CheckReport, Finding
from pyhudi_core.errors import (
    HudiError,
    LimitExceededError,
    ObjectNotFoundError,
    SnapshotExpiredError,
    StorageError,
    UnsafePathError,
)
from pyhudi_core.model.commit import CommitMetadata
from pyhudi_core.model.instant import Instant
from pyhudi_core.model.masking import masked_text
from pyhudi_core.model.printing import printable
from pyhudi_core.model.properties import TableConfig
from pyhudi_core.naming import set_module
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.runtime.base import Runtime
from pyhudi_core.storage.base import Folder, ObjectInfo
from pyhudi_core.timeline.active import Timeline, TimelineFolder

Progress = Callable[[str, int, int], None]
"""Called with the area, the number of examined objects and their total (0 if unknown)."""


@set_module("pyhudi")
@dataclass(frozen=True, slots=True)
@printable
class Limits:
    """The limits of the doctor's examination. Everything beyond a limit is reported as not examined.

    Attributes:
        metadata_bytes: largest file under ``.hoodie`` that is read.
        instants: completed instants whose content is read, newest first.
        data_files: files in partitions.
        footers: base files whose footer is read; with more base files, the metadata table's indexes are not examined.
        keys_in_memory: record keys in memory at once; more keys are compared in several passes over the files.
        key_rows: rows of a partition whose keys are compared; None for all.
        metadata_table_bytes: bytes of the metadata table's list of files that are read.
        index_keys: record keys that are looked up in the record index.
        shown: findings of one kind that are listed one by one.
    """

    metadata_bytes: int = 16 << 20
    instants: int = 20_000
    data_files: int = 1_000_000
    footers: int = 1_000
    keys_in_memory: int = 4_000_000
    key_rows: int | None = None
    metadata_table_bytes: int = 256 << 20
    index_keys: int = 10_000
    shown: int = 20


@dataclass(slots=True)
class Examination:
    """The state of an examination: the known facts about the table.

    ``config`` and ``context`` are None if the properties cannot be used. ``decided``, ``living`` and ``dead`` are requested times of decided but
    unpublished commits, of writers that run or may run, and of dead writers. ``archived`` has the requested times of archived commits.
    """

    storage: ReadOnlyStorage
    runtime: Runtime
    limits: Limits
    progress: Progress
    now_ms: int
    config: TableConfig | None = None
    context: TableContext | None = None
    timeline_folder: str = ".hoodie/timeline"
    history_folder: str = ".hoodie/timeline/history"
    timeline: Timeline = field(default_factory=Timeline)
    timeline_files: tuple[ObjectInfo, ...] = ()
    commits: dict[Instant, CommitMetadata] = field(default_factory=dict)
    all_commits_known: bool = True
    examines: bool = True
    decided: set[str] = field(default_factory=set)
    living: set[str] = field(default_factory=set)
    dead: set[str] = field(default_factory=set)
    archived: frozenset[str] | None = None
    findings: list[Finding] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    examined: dict[Area, str] = field(default_factory=dict)
    incomplete: set[Area] = field(default_factory=set)
    _kinds: Counter[tuple[FindingKind, Severity, Area]] = field(default_factory=Counter)

    def use(self, context: TableContext) -> None:
        """Use the table's context, on the read-only storage."""
        folder = TimelineFolder(
            self.storage, context.folder.path, context.config.history_path, clock=context.runtime.clock
        )
        self.context = context.on(self.storage, folder)

    def add(
        self,
        kind: FindingKind,
        what: str,
        where: str | None = None,
        instant: str | None = None,
        *,
        severity: Severity | None = None,
        area: Area | None = None,
        what_to_do: str | None = None,
        count: int = 1,
    ) -> None:
        """Record a finding. Findings beyond the limit of their kind are only counted."""
        usual = kind.usual
        area, severity = area or usual.area, severity or usual.severity
        if kind in (FindingKind.NOT_EXAMINED, FindingKind.STORAGE_FAILED, FindingKind.EXAMINATION_FAILED):
            self.incomplete.add(area)
        key = (kind, severity, area)
        self._kinds[key] += count
        if self._kinds[key] - count < self.limits.shown:
            place = None if where is None else masked_text(where)
            advice = what_to_do or usual.what_to_do
            self.findings.append(Finding(kind, severity, area, masked_text(what), place, instant, advice, count))

    def not_examined(self, area: Area, what: str, where: str | None = None, what_to_do: str | None = None) -> None:
        """Record that something was not examined. If several areas cannot examine the same thing, the first area has the only finding."""
        known = (FindingKind.NOT_EXAMINED, masked_text(what), None if where is None else masked_text(where))
        if any((found.kind, found.what, found.where) == known for found in self.findings):
            self.incomplete.add(area)
            return
        self.add(FindingKind.NOT_EXAMINED, what, where, area=area, what_to_do=what_to_do)

    def add_summary(self, area: Area, what: str) -> None:
        """Record what was examined, for the area's summary."""
        self.examined[area] = what

    @contextmanager
    def recording_failures(self, area: Area, where: str | None = None) -> Iterator[None]:
        """Convert an error inside the block to a finding. An object that was deleted in the meantime is no finding."""
        try:
            yield
        except (ObjectNotFoundError, SnapshotExpiredError):
            self.counts["deleted during the examination"] += 1
        except UnsafePathError as error:
            self.add(FindingKind.UNSAFE_PATH, error.message, error.path or where, area=area, what_to_do=error.hint)
        except LimitExceededError as error:
            self.not_examined(area, error.message, error.path or where)
        except StorageError as error:
            self.add(FindingKind.STORAGE_FAILED, error.message, error.path or where, area=area)

    def read(self, area: Area, info: ObjectInfo) -> bytes | None:
        """Return the bytes of a listed object; None, with a finding, if it is too large or cannot be read."""
        if info.size > self.limits.metadata_bytes:
            self.not_examined(
                area,
                f"The file has {info.size:,} bytes, more than the limit of {self.limits.metadata_bytes:,}",
                info.path,
            )
            return None
        with self.recording_failures(area, info.path):
            return self.storage.get(info.path)
        return None

    def folder(self, area: Area, path: str) -> Folder:
        """Return the children of a folder; none, with a finding, if it cannot be listed."""
        with self.recording_failures(area, path):
            return self.storage.list_folder(path)
        return Folder((), ())

    def below(self, area: Area, prefix: str) -> list[ObjectInfo]:
        """Return all objects below a prefix; none, with a finding, if they cannot be listed."""
        with self.recording_failures(area, prefix):
            return self.storage.list(prefix)
        return []

    def report(self) -> CheckReport:
        """Return the report, the worst findings first."""
        listed = Counter(dict.fromkeys(self._kinds, 0))
        for finding in self.findings:
            listed[finding.kind, finding.severity, finding.area] += finding.count
        more = [self._rest(key, total - listed[key]) for key, total in self._kinds.items() if total > listed[key]]
        ordered = sorted([*self.findings, *more], key=lambda found: -found.severity.rank)
        return CheckReport(
            masked_text(self.storage.location),
            self.now_ms,
            tuple(ordered),
            tuple(self._summary(area) for area in Area),
            dict(sorted(self.counts.items())),
        )

    def _rest(self, key: tuple[FindingKind, Severity, Area], count: int) -> Finding:
        alike = next(found for found in self.findings if (found.kind, found.severity, found.area) == key)
        return replace(alike, what=f"and {count:,} more of this kind", where=None, instant=None, count=count)

    def _summary(self, area: Area) -> AreaSummary:
        found = [finding.severity for finding in self.findings if finding.area is area]
        worst = max(found, key=lambda severity: severity.rank, default=None)
        known = area in self.examined
        complete = known and area not in self.incomplete
        return AreaSummary(area, worst, len(found), self.examined.get(area, NOT_EXAMINED), complete)


def describe(error: HudiError) -> str:
    """Describe an error in one line, without its path, which the finding contains."""
    return error.message[:300]
