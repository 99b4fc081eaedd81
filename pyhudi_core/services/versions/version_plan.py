"""The plan of a change of the table's version, and its result. Both are values without storage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from pyhudi_core.model.instant import Instant
from pyhudi_core.model.printing import printable
from pyhudi_core.services.estimates import with_seconds
from pyhudi_core.services.service import Figures, Refused, ServiceResult


@dataclass(frozen=True, slots=True)
@printable
class VersionPlan:
    """The steps of a change of version. If there is nothing to do, or the change is refused, the plan is false and has the reason.

    Attributes:
        found, to: the version of the table before the change, and after it.
        pending: writes that never ended. The change would roll them back.
        plans: plans of table services that would be omitted, because the change does their work, or because they can be planned again.
        file_groups: number of file groups of a merge-on-read table that would get a base file.
        bytes: number of bytes to read in order to write these base files.
        instants: number of instants of the timeline that would be written again.
        archived: number of archived instants that would be written again.
        files: number of files of the old timeline that an earlier upgrade has left. The change would remove them.
        logs: number of logs that would be compacted and removed: older states that contain them can no longer be read.
        indexes: partitions of the metadata table that would be made again or dropped.
        taken_over: commits that are only on the old timeline. The change would add them to the new timeline.
        left_behind: commits that would stay only on the old timeline, each with the reason.
        properties: the properties that would change; None removes one.
        why_not: why nothing would be done.
        refused: the error, if a change of version would be refused.
    """

    found: int
    to: int
    pending: tuple[Instant, ...] = ()
    plans: tuple[Instant, ...] = ()
    file_groups: int = 0
    bytes: int = 0
    instants: int = 0
    archived: int = 0
    files: int = 0
    logs: int = 0
    indexes: tuple[str, ...] = ()
    taken_over: tuple[Instant, ...] = ()
    left_behind: tuple[str, ...] = ()
    properties: Mapping[str, str | None] = field(default_factory=dict, repr=False)
    why_not: str = ""
    refused: Refused | None = field(default=None, compare=False)

    @property
    def figures(self) -> Figures:
        """The numbers of the plan, with the estimated seconds."""
        figures = {
            "pending": len(self.pending),
            "file_groups": self.file_groups,
            "bytes": self.bytes,
            "instants": self.instants,
            "archived": self.archived,
            "files": self.files,
            "logs": self.logs,
        }
        changes = self.file_groups + self.files + self.logs + bool(self)
        return with_seconds(
            figures, rewritten=self.bytes, files=changes, instants=self.instants + self.archived + len(self.pending)
        )

    def __bool__(self) -> bool:
        return not self.why_not

    def __str__(self) -> str:
        if self.refused is not None:
            return f"It would be refused: {self.why_not}"
        if not self:
            return f"Nothing to do: {self.why_not}"
        if self.found == self.to:
            parts = [
                f"roll {len(self.pending)} writes back" if self.pending else "",
                f"remove {self.files} files of the old timeline" if self.files else "",
                f"take {len(self.taken_over)} commits over that only the old timeline has" if self.taken_over else "",
                *self.left_behind,
            ]
            return f"End the change to version {self.to}: {'; '.join(filter(None, parts))}"
        parts = [
            f"roll {len(self.pending)} writes back" if self.pending else "",
            f"leave {len(self.plans)} plans of services out" if self.plans else "",
            f"write base files of {self.file_groups:,} file groups ({self.bytes:,} bytes are read)"
            if self.file_groups
            else "",
            f"remove {self.logs:,} logs with the older states that need them" if self.logs else "",
            f"write {self.instants:,} instants anew" if self.instants else "",
            f"write {self.archived:,} archived instants anew" if self.archived else "",
            f"metadata table: {', '.join(self.indexes)}" if self.indexes else "",
        ]
        steps = "; ".join(filter(None, parts)) or "change the properties"
        return f"From version {self.found} to {self.to}: {steps}. About {self.figures['estimated_seconds']:g} s"


@dataclass(frozen=True, slots=True)
class VersionResult(ServiceResult):
    """The result of a change of version.

    Attributes:
        found, to: the version before and afterwards.
        rolled_back: the writes that never ended.
        file_groups: number of file groups that got a base file.
        indexes: the partitions of the metadata table that the table has now.
        taken_over: number of commits of the old timeline that were put on the new one.
        left: why a part remains to be done; empty if nothing remains.
    """

    service: ClassVar[str] = "upgrade"
    found: int = 0
    to: int = 0
    rolled_back: tuple[Instant, ...] = ()
    file_groups: int = 0
    archived: int = 0
    files: int = 0
    indexes: tuple[str, ...] = ()
    taken_over: int = 0
    left: str = ""

    @property
    def changed(self) -> bool:
        """Whether the change of version changed something."""
        return not self.why_not

    @property
    def figures(self) -> Figures:
        """The figures of the change."""
        return {
            "instants": len(self.instants),
            "archived": self.archived,
            "rolled_back": len(self.rolled_back),
            "file_groups": self.file_groups,
            "files": self.files,
            "taken_over": self.taken_over,
        }

    def __str__(self) -> str:
        if not self:
            return f"version {self.to}: nothing was done, {self.why_not}"
        shown = ", ".join(f"{name} {number:,}" for name, number in self.figures.items() if number)
        left = f". Left to do: {self.left}" if self.left else ""
        return f"version {self.found} -> {self.to}: {shown or 'properties changed'}{left}"
