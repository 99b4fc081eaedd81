"""Decide which services of one table are due, by statistics of the table. Auto mode (``upkeep_run.py``) uses this.

Every service of the registry takes part. A service without a rule here is due if its plan has work and its own trigger, if it has one, is reached.
These services have a rule, because statistics are better than a trigger that counts commits:

- compaction: the trigger of the options, or the size of log files compared with their base files;
- clustering: how many file groups a clustering would save;
- archival: the number of commits on the timeline, compared with ``hoodie.keep.max.commits``.

A plan on the timeline that no process executes is always due. The plans have the estimates (``estimates.py``). This module changes no table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pyhudi_core.conflicts.concurrent import pending_plans
from pyhudi_core.model.instant import Instant
from pyhudi_core.services.archival.archival import Archival, rules_of
from pyhudi_core.services.estimates import BYTES_PER_SECOND, SECONDS, SECONDS_PER_RUN
from pyhudi_core.services.service import Figures, Refused, TableService, refused_by
from pyhudi_core.services.upkeep_rules import UpkeepRules
from pyhudi_core.write.states import load

_ONLY_DELETES = frozenset({"cleaning", "metadata_cleaning", "sweep", "expiry"})
"""Services that only delete bytes, which takes no time in the estimate."""


_IN_PARTS = frozenset({"compaction", "clustering"})
"""Services that can rewrite some file groups in this run and others in another run. Their options have the same names."""


@dataclass(frozen=True, slots=True)
class Need:
    """Whether one service of one table is due, and why.

    Attributes:
        reason: why the service is due or not, with the deciding figures.
        bytes: estimated number of bytes to rewrite.
        freed: number of bytes that the service would delete.
        seconds: estimated duration.
        urgency: the deciding figure divided by its limit; 1 is at the limit.
        figures: the figures of the plan.
        refused: why the service cannot work on the table as opened.
    """

    service: str
    due: bool
    reason: str
    bytes: int = 0
    seconds: float = 0.0
    urgency: float = 0.0
    figures: Figures = field(default_factory=dict)
    refused: Refused | None = None
    freed: int = 0


@dataclass(frozen=True, slots=True)
class _Verdict:
    due: bool
    reason: str
    urgency: float = 1.0


_Rule = Callable[[TableService[Any], Any, UpkeepRules], _Verdict]


def need_of(service: TableService[Any], rules: UpkeepRules) -> Need:
    """Decide whether a service is due now. Raises the errors of its ``plan``."""
    plan = service.plan()
    waiting = service.unattended()
    verdict = _RULES.get(service.name, _by_trigger)(service, plan, rules)
    if waiting:
        times = ", ".join(instant.requested_time for instant in waiting)
        verdict = _Verdict(True, f"planned and not executed: {times}", max(2.0, verdict.urgency))
    elif not plan:
        verdict = _Verdict(False, plan.why_not or verdict.reason)
    figures = plan.figures
    first = _planned_bytes(service, waiting)
    size, freed = int(figures.get("bytes", 0)) + first, 0
    if service.name in _ONLY_DELETES:
        size, freed = 0, size
    urgency = verdict.urgency if verdict.due else 0.0
    seconds = max(SECONDS_PER_RUN, figures.get(SECONDS, 0.0) + first / BYTES_PER_SECOND)
    return Need(service.name, verdict.due, verdict.reason, size, seconds, urgency, figures, refused_by(plan), freed)


def _planned_bytes(service: TableService[Any], waiting: Sequence[Instant]) -> int:
    """Return the number of bytes that plans on the timeline rewrite: the current size of their file groups, because plans do not have all sizes."""
    if not waiting or service.name not in _IN_PARTS:
        return 0
    snapshot, times = load(service.context), {instant.requested_time for instant in waiting}
    plans = pending_plans(service.context, snapshot.timeline)
    taken = frozenset().union(*(groups for instant, groups in plans if instant.requested_time in times))
    pieces = snapshot.view.all_slices(sorted({partition for partition, _ in taken}))
    return sum(piece.size for piece in pieces if piece.group in taken)


def part_of(service: TableService[Any], most_bytes: float) -> TableService[Any] | None:
    """Return the same service with plans of at most this number of bytes; None if it cannot work in parts, or if no bytes are left."""
    if service.name not in _IN_PARTS or most_bytes < 1:
        return None
    context = service.context
    options = context.options
    concern = replace(getattr(options, service.name), most_bytes=int(most_bytes))
    chosen = replace(options, **{service.name: concern})
    return type(service)(context.with_options(chosen))


def _by_trigger(service: TableService[Any], plan: Any, rules: UpkeepRules) -> _Verdict:
    """Decide for services without a rule of their own, by the plan and its trigger."""
    trigger = getattr(plan, "trigger", "")
    return _Verdict(bool(plan) and getattr(plan, "due", True), trigger or str(plan))


def _compaction(service: TableService[Any], plan: Any, rules: UpkeepRules) -> _Verdict:
    figures = plan.figures
    base = figures["base_bytes"]
    ratio = figures["log_bytes"] / base if base else float(bool(figures["log_bytes"]))
    share = f"logs have {ratio:.0%} of the bytes of their base files (limit {rules.log_ratio:.0%})"
    reason = f"{plan.trigger}; {share}" if plan.trigger else share
    return _Verdict(plan.due or ratio >= rules.log_ratio, reason, max(float(plan.due), ratio / rules.log_ratio))


def _clustering(service: TableService[Any], plan: Any, rules: UpkeepRules) -> _Verdict:
    saved = plan.figures["file_groups"] - plan.figures["new_file_groups"]
    unsorted = bool(plan.order.columns) and plan.due
    reason = f"it would save {saved:,} file groups (limit {rules.small_groups:,})"
    reason += f"; rows are not {plan.order} since the last clustering, {plan.trigger}" if unsorted else ""
    return _Verdict(saved >= rules.small_groups or unsorted, reason, max(float(unsorted), saved / rules.small_groups))


def _archival(service: TableService[Any], plan: Any, rules: UpkeepRules) -> _Verdict:
    assert isinstance(service, Archival)
    most = rules_of(service.context, triggered=True).keep_max or 1
    count = len(service.context.folder.load().commits)
    return _Verdict(count > most, f"{count} commits on the timeline (limit {most})", count / most)


_RULES: Mapping[str, _Rule] = {
    "compaction": _compaction,
    "clustering": _clustering,
    "archival": _archival,
    "metadata_archival": _archival,
}
