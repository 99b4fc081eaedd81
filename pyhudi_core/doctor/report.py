"""The result of an examination: findings, counts, and a summary of each area. Prints as aligned text, as HTML and as JSON."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from pyhudi_core.doctor.kinds import Area, FindingKind, Severity
from pyhudi_core.model.printing import escaped, printable
from pyhudi_core.naming import set_module

SCHEMA_VERSION = 1
"""Version of `CheckReport.to_dict`; it increases when a field changes its meaning or is removed."""

NOT_EXAMINED = "not examined"
_SHOWN = 40


@set_module("pyhudi")
@dataclass(frozen=True, slots=True)
@printable
class Finding:
    """One finding of the doctor.

    Attributes:
        kind, severity, area: the kind of the finding, its severity, and its area.
        what: a sentence without a full stop.
        where: path relative to the table; None for the complete table.
        instant: requested time of the instant concerned.
        what_to_do: what the reader should do now.
        count: the number of cases; cases beyond a limit are only counted.
    """

    kind: FindingKind
    severity: Severity
    area: Area
    what: str
    where: str | None = None
    instant: str | None = None
    what_to_do: str = ""
    count: int = 1

    def place(self) -> str:
        """Path or instant, for one line."""
        return self.where or self.instant or ""


@dataclass(frozen=True, slots=True)
@printable
class AreaSummary:
    """The summary of one area. ``examined`` lists what was examined; ``complete`` is False if limits left something out."""

    area: Area
    worst: Severity | None
    findings: int
    examined: str
    complete: bool

    @property
    def state(self) -> str:
        """One or two words: ``ok`` only if the complete area was examined."""
        if self.worst is not None and self.worst is not Severity.INFO:
            return str(self.worst)
        return "ok" if self.complete else "not all seen"


@set_module("pyhudi")
@dataclass(frozen=True, slots=True)
@printable
class CheckReport:
    """The doctor's report about one table.

    Attributes:
        location: the table.
        checked_ms: when, in epoch milliseconds of this machine's clock.
        findings: the worst first.
        areas: one summary for each area, in the order of the examination.
        counts: numbers of examined objects, by name.
    """

    location: str
    checked_ms: int
    findings: tuple[Finding, ...]
    areas: tuple[AreaSummary, ...]
    counts: Mapping[str, int]

    @property
    def ok(self) -> bool:
        """Whether there are no findings, or only information."""
        return all(finding.severity is Severity.INFO for finding in self.findings)

    @property
    def repairable(self) -> bool:
        """Whether there are findings, and the next write repairs all of them."""
        return not self.ok and all(finding.severity.rank <= Severity.REPAIRABLE.rank for finding in self.findings)

    @property
    def opened(self) -> bool:
        """Whether a table, or a part of one, was examined; False too if the storage did not answer."""
        return self.area(Area.TIMELINE).examined != NOT_EXAMINED

    @property
    def errors(self) -> tuple[Finding, ...]:
        """The findings that are errors."""
        return tuple(finding for finding in self.findings if finding.severity is Severity.ERROR)

    def of(self, kind: FindingKind | str) -> tuple[Finding, ...]:
        """Return the findings of one kind."""
        return tuple(finding for finding in self.findings if finding.kind == kind)

    def area(self, area: Area | str) -> AreaSummary:
        """Return the summary of one area. Raises KeyError for an unknown area."""
        return {str(summary.area): summary for summary in self.areas}[str(area)]

    @property
    def verdict(self) -> str:
        """The verdict in one sentence."""
        if self.ok:
            partly = [str(summary.area) for summary in self.areas if not summary.complete]
            return "nothing wrong was found" + (f"; not completely examined: {', '.join(partly)}" if partly else "")
        if self.repairable:
            return "repairable: the next write repairs it"
        seen = Counter(finding.severity for finding in self.findings)
        parts = [f"{seen[s]} {s}s" for s in (Severity.ERROR, Severity.WARNING) if seen[s]]
        return ", ".join(part.removesuffix("s") if part.startswith("1 ") else part for part in parts)

    def to_dict(self) -> dict[str, Any]:
        """Return everything in JSON's own types."""
        return {
            "schema_version": SCHEMA_VERSION,
            "location": self.location,
            "checked_ms": self.checked_ms,
            "ok": self.ok,
            "repairable": self.repairable,
            "verdict": self.verdict,
            "findings": [asdict(finding) for finding in self.findings],
            "areas": [{**asdict(summary), "state": summary.state} for summary in self.areas],
            "counts": dict(self.counts),
        }

    def to_json(self) -> str:
        """Return `to_dict` as text."""
        return json.dumps(self.to_dict(), indent=1, ensure_ascii=True)

    def __str__(self) -> str:
        lines = [f"Check of {self.location}: {self.verdict}"]
        lines.extend(f"  {summary.area:15}{summary.state:14}{summary.examined}" for summary in self.areas)
        for finding in self.findings[:_SHOWN]:
            place = f" [{escaped(finding.place())}]" if finding.place() else ""
            times = f" ({finding.count} times)" if finding.count > 1 else ""
            lines.append(f"  {finding.severity:12}{finding.kind}: {escaped(finding.what)}{times}{place}")
            lines.append(f"  {'':12}{finding.what_to_do}")
        if len(self.findings) > _SHOWN:
            lines.append(f"  ... {len(self.findings) - _SHOWN} more findings")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"CheckReport of {self.location}: {self.verdict}"

    def _shown(self) -> dict[str, object]:
        areas = [{"area": one.area, "state": one.state, "examined": one.examined} for one in self.areas]
        findings = [
            {"severity": f.severity, "kind": f.kind, "what": f.what, "where": f.place(), "what to do": f.what_to_do}
            for f in self.findings
        ]
        return {"table": self.location, "verdict": self.verdict, "areas": areas, "findings": findings}
