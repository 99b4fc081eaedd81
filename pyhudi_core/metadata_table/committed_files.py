"""Detect lost files of the metadata table: a completed commit names them, but they are missing, or shorter than the commit says.

Without one of its logs, a slice has outdated entries: statistics that are too narrow, and keys that no look-up finds. Reads would omit rows, and
writes would write keys twice. So readers and writers refuse such a partition. This package lists the files of the metadata table in the data table's
commit, with the number of file groups per time of their base file. Readers read that commit anyway. For a commit of another writer, the metadata
table's own commit is read.

Files of older slices are not needed: their entries are in the base file. Files from before a partition was built again are not needed either.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache

from pyhudi_core.errors import CorruptionError, HudiError, SnapshotExpiredError
from pyhudi_core.file_groups.slice import SlicePiece
from pyhudi_core.metadata_table.names import FOLDER, INITIAL_INSTANTS, REBUILD, is_build
from pyhudi_core.model.bounded_json import parse_json
from pyhudi_core.model.commit import METADATA_FILES_KEY, CommitMetadata
from pyhudi_core.model.file_names import BaseFileName, parse_data_file, split
from pyhudi_core.model.instant import Action, Instant
from pyhudi_core.timeline.active import Timeline, TimelineFolder

Bases = Mapping[str, str]
"""The requested time of the newest base file of each file group; empty for none."""


@dataclass(frozen=True, slots=True)
class FilesOfCommit:
    """The entries of one commit.

    Attributes:
        instant: the instant of the metadata table.
        files: sizes by path below the metadata table.
        counts: by partition, the number of file groups per time of their base file; None if the commit does not have it.
    """

    instant: Instant
    files: Mapping[str, int]
    counts: Mapping[str, Mapping[str, int]] | None = None

    def lost(self, partition: str, found: Mapping[str, int], bases: Bases) -> str:
        """Return the path of a lost file, relative to the metadata table; empty if none is lost. ``found``: sizes by file name."""
        for path, size in self.files.items():
            folder, name = split(path)
            if folder == partition and found.get(name, -1) < size and self._is_needed(name, bases):
                return path
        counted = (self.counts or {}).get(partition, {})
        for time in counted:
            then = sum(count for other, count in counted.items() if other >= time)
            if sum(other >= time for other in bases.values()) < then:
                return partition
        return ""

    def _is_needed(self, name: str, bases: Bases) -> bool:
        """Say whether no newer base file has the entries of this file."""
        parsed = parse_data_file(name)
        if parsed is None:
            return False
        at_once = isinstance(parsed, BaseFileName) or parsed.requested_time.startswith(INITIAL_INSTANTS)
        time = parsed.requested_time if at_once else self.instant.completion_time or ""
        return time >= bases.get(parsed.file_id, "")


@dataclass(slots=True)
class CommittedFiles:
    """The files of a metadata table as its completed commits list them.

    Attributes:
        folder: the timeline of the metadata table.
        data: the timeline of the data table.
        whole: whether to read the metadata table's own commit for every instant on the data table's timeline; `check` does so.
    """

    folder: TimelineFolder
    data: TimelineFolder
    whole: bool = False
    _of_commits: dict[Instant, FilesOfCommit] = field(default_factory=dict)
    _last: tuple[Timeline, Timeline, Mapping[str, Instant], Sequence[Instant]] | None = None

    def refuse_lost(
        self, own: Timeline, data: Timeline, partition: str, found: Mapping[str, int], pieces: Sequence[SlicePiece]
    ) -> None:
        """Raise `CorruptionError` if a partition has lost a file.

        Args:
            own, data: the timelines of metadata table and data table, with the instants whose entries count.
            found: the sizes of the partition's files by name.
            pieces: its newest slices.
        """
        bases = {piece.file_id: "" if piece.base is None else piece.base.name.requested_time for piece in pieces}
        for said in self._needed(own, data, min(bases.values(), default="")):
            lost = said.lost(partition, found, bases)
            if lost and not self._is_built_since(own, said.instant, partition, found):
                raise self._error(own, said.instant, lost)

    def _needed(self, own: Timeline, data: Timeline, since: str) -> Iterator[FilesOfCommit]:
        """Yield the entries of the commits that may be needed after base files of this time."""
        parts, logged = self._logged(own, data)
        newest = logged[-1:]
        needed = [i for i in logged if (i.completion_time or "") >= since or i in newest]
        unread = (parts.get(i.requested_time) for i in needed if i not in self._of_commits)
        self.data.read_commits(part for part in unread if part is not None)
        silent = [i for i in needed if i not in self._of_commits and self._is_silent(i, parts.get(i.requested_time))]
        with suppress(CorruptionError, SnapshotExpiredError):  # raised below, for the damaged partition
            self.folder.read_commits(silent)
        for instant in needed:
            yield self._of(instant, parts.get(instant.requested_time))
        if newest and not self.whole and self._of_commits[newest[0]].counts is not None:
            return
        compactions = [i for i in own.commits if i.action is Action.COMMIT]
        builds = [i for i in own.commits if _is_build(i)]
        asked = [*compactions, *builds] if self.whole else compactions[-1:] or builds
        with suppress(CorruptionError, SnapshotExpiredError):  # raised below, for the damaged partition
            self.folder.read_commits(i for i in asked if i not in self._of_commits)
        for instant in asked:
            yield self._of(instant, None)

    def _is_silent(self, instant: Instant, part: Instant | None) -> bool:
        """Say whether the data table's commit does not list the files of its part, so that the part itself must be read."""
        return self.whole or part is None or _noted(instant, self.data.read_commit(part)) is None

    def _logged(self, own: Timeline, data: Timeline) -> tuple[Mapping[str, Instant], Sequence[Instant]]:
        """Return the commits of the data table by time, and their deltacommits.

        The result is cached, because all partitions need the same two timelines.
        """
        if self._last is not None and self._last[0] is own and self._last[1] is data:
            return self._last[2:]
        parts = {instant.requested_time: instant for instant in data.commits}
        deltas = [i for i in own.commits if i.action is Action.DELTACOMMIT and not _is_build(i)]
        # An instant that is not on the data table's timeline may be undone: a process that woke up late can create its completed file again.
        known = {i.requested_time for i in data.completed} if self.whole else parts.keys()
        logged = [i for i in deltas if i.requested_time in known]
        self._last = own, data, parts, logged
        return parts, logged

    def _of(self, instant: Instant, part: Instant | None) -> FilesOfCommit:
        known = self._of_commits.get(instant)
        if known is None:
            noted = None if part is None else _noted(instant, self.data.read_commit(part))
            if noted is None or self.whole:
                sizes = {stat.path: stat.size for stat in self._body(instant).stats}
                noted = FilesOfCommit(instant, sizes, None if noted is None else noted.counts)
            known = self._of_commits[instant] = noted
        return known

    def _body(self, instant: Instant) -> CommitMetadata:
        """Return the metadata table's own commit. The result is empty if the metadata table is gone, or if only `check` reports the damage."""
        try:
            return self.folder.read_commit(instant)
        except SnapshotExpiredError:
            return CommitMetadata(None)
        except CorruptionError:
            if self.whole:
                raise
            return CommitMetadata(None)

    def _is_built_since(self, own: Timeline, instant: Instant, partition: str, found: Mapping[str, int]) -> bool:
        """Say whether the partition was built after a commit, so that the commit names files of an earlier build."""
        later = [i for i in own.commits if _is_build(i) and (i.completion_time or "") > (instant.completion_time or "")]
        parsed = [parse_data_file(name) for name in found]
        times = {name.requested_time for name in parsed if name is not None}
        return any(i.requested_time in times or partition in self._body(i).partitions for i in later)

    def _error(self, own: Timeline, instant: Instant, path: str) -> HudiError:
        """Return the error for a lost file, unless a compaction and a clean came after the timeline was read."""
        newest = max((i.completion_time or "" for i in own), default="")
        if any(i.action is Action.COMMIT and (i.completion_time or "") > newest for i in self.folder.load()):
            return SnapshotExpiredError(
                "The metadata table was compacted while it was read", path=f"{FOLDER}/{path}", hint="Do it again."
            )
        return CorruptionError(
            "A file of the metadata table is lost: a completed commit names it, and it is missing or shorter than the commit says",
            table=self.folder.storage.location,
            path=f"{FOLDER}/{path}",
            instant=instant.requested_time,
            hint=f"Restore the file from a copy, or make the metadata table again. {REBUILD}",
        )


def _is_build(instant: Instant) -> bool:
    return is_build(instant.requested_time)


def _noted(instant: Instant, commit: CommitMetadata) -> FilesOfCommit | None:
    """Return the entries for the part that a commit of the data table lists; None if it has none, or if they are not readable."""
    found = _parsed(commit.extra.get(METADATA_FILES_KEY, ""))
    return None if found is None else FilesOfCommit(instant, *found)


@lru_cache(maxsize=128)
def _parsed(note: str) -> tuple[Mapping[str, int], Mapping[str, Mapping[str, int]]] | None:
    """Return the sizes of files and the counts of file groups in a note; None if the note is not readable."""
    try:
        said = parse_json(note)
        files = {path: int(size) for path, size in said["files"].items()}
        counts = {name: {time: int(n) for time, n in times.items()} for name, times in said["bases"].items()}
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        return None
    return files, counts
