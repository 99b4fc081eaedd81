"""What a change of version would do, and what it did: values."""

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
    """What a change of version would do; false, with the reason, if it is nothing or would be refused.

    Attributes:
        found, to: the version of the table, and the one that it would get.
        pending: writes that never ended, and would be rolled back.
        plans: plans of table services that would be left out: what they would do is done, or can be planned again.
        file_groups, bytes: of merge-on-read tables: how many file groups get a base file, and what is read for that.
        instants: of the timeline that would be written anew.
        archived: instants of the archived timeline that would be written anew.
        files: of the old timeline that would be removed, after an earlier upgrade.
        logs: that would be removed, compacted before: the states of which they are a part cannot be read any more.
        indexes: partitions of the metadata table that would be made anew or dropped.
        taken_over: commits that only the old timeline has, and that would be put on the newer one.
        left_behind: such commits that stay where they are, with the reason.
        properties: those that would change; None removes one.
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
        """The numbers, and seconds."""
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
    """What a change of version did.

    Attributes:
        found, to: the version before, and now.
        rolled_back: the writes that never ended.
        file_groups: how many got a base file.
        indexes: the partitions of the metadata table that the table has now.
        taken_over: how many commits were put on the timeline that only the old one had.
        left: why a part is left to do; empty if there is none.
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
        """Whether something was done."""
        return not self.why_not

    @property
    def figures(self) -> Figures:
        """What was done, as numbers."""
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
