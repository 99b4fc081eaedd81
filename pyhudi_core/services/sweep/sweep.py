"""The sweep deletes files without an owner, from writers that died, were rolled back, or continued after they were considered dead.

``plan`` returns the files, ``run`` deletes them. Hudi has no instant for a sweep, so ``schedule`` returns None. A sweep takes no lock and changes no
timeline: no commit can name the deleted files any more (``services/sweep/files_to_sweep.py``), and every deletion can be repeated. Any process may
sweep at any time, concurrently with writers and other services.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from pyhudi_core.model.file_names import split
from pyhudi_core.model.instant import Instant, parse_file_name
from pyhudi_core.services.progress import Steps
from pyhudi_core.services.service import Execution, Figures, ServiceResult, TableService
from pyhudi_core.services.sweep.files_to_sweep import SweepPlan, plan_sweep
from pyhudi_core.transaction import heartbeat, layout, markers, removal
from pyhudi_core.transaction.commit import ask_gate
from pyhudi_core.transaction.waiting_rows import has_died
from pyhudi_core.write.retrying import Retries


@dataclass(frozen=True, slots=True)
class SweepResult(ServiceResult):
    """The result of a sweep. ``instants`` is empty, because a sweep is not on the timeline.

    Attributes:
        data_files: paths relative to the table; paths in the metadata table begin with its folder.
        markers, staged, temporaries: number of files of each kind.
        unpublished: number of commits of the metadata table that could never complete.
        bytes: size of all files of the plan.
    """

    service: ClassVar[str] = "sweep"
    data_files: tuple[str, ...] = ()
    markers: int = 0
    staged: int = 0
    temporaries: int = 0
    unpublished: int = 0
    bytes: int = 0

    @property
    def changed(self) -> bool:
        """Whether something was deleted."""
        return any(self.figures.values())

    @property
    def figures(self) -> Figures:
        """Numbers of files of each kind, and their size."""
        return {
            "data_files": len(self.data_files),
            "markers": self.markers,
            "staged": self.staged,
            "temporaries": self.temporaries,
            "unpublished": self.unpublished,
            "bytes": self.bytes,
        }


class Sweep(TableService[SweepResult]):
    """Deletes the files of one table that have no owner."""

    name = "sweep"
    summary = "delete files that no commit, no plan and no running writer names"

    def plan(self) -> SweepPlan:
        """Return what `run` would delete now. Changes nothing. If what may name data files cannot be read, they stay."""
        return plan_sweep(self.context, self.context.runtime.clock.now_ms() - self.context.options.upkeep.sweep_age_ms)

    def schedule(self) -> Instant | None:
        """Return None: a sweep is not on the timeline. Use `run`, in any process."""
        return None

    def take_over(self) -> SweepResult:
        """Do nothing: the next sweep deletes what a dead one left."""
        return self._nothing("a sweep leaves nothing to finish")

    def _run(self, how: Execution, retries: Retries) -> SweepResult:
        """Plan and delete. Raises as `plan`, and `DeletesFailedError`."""
        context = self.context
        planned = self.plan()
        if not planned:
            return self._nothing(planned.why_not)
        # The storage dates its objects, and this machine's clock may be ahead. To learn the storage's time, an object must be written.
        planned = planned.changed_before(heartbeat.storage_time_ms(context) - context.options.upkeep.sweep_age_ms)
        left = (rows for rows in planned.rows if not rows.is_owned or has_died(context, rows, ask_storage=True))
        planned = replace(planned, rows=tuple(left))
        ask_gate(how.gate, context, "to delete files that belong to nobody")
        return self._delete(planned, how)

    def _delete(self, planned: SweepPlan, how: Execution) -> SweepResult:
        context = self.context
        steps = Steps(how.progress, "delete files", int(planned.figures["files"]))
        steps.begin()
        places = {place.prefix: place for place in planned.places}
        for there in (context, *map(context.at, context.companions)):
            swept = places[there.prefix]
            removal.delete_data_files(there.storage, [info.path for info in swept.data_files], gone=steps.add)
            paths = [info.path for info in swept.markers]
            removal.delete_leftovers(there.storage, paths, layout.MARKERS, gone=steps.add)
        for info in planned.unpublished:
            instant = parse_file_name(split(info.path)[1])
            assert instant is not None, "the plan found it on a timeline"
            markers.remove_at_companions(context, instant.requested_time)
        removal.delete_leftovers(context.root, [info.path for info in planned.staged], layout.EXECUTIONS)
        paths = [info.path for rows in planned.rows for info in rows.files]
        removal.delete_leftovers(context.root, paths, layout.ROWS)
        gone: list[str] = []
        if planned.temporaries:
            now_ms = context.runtime.clock.now_ms()
            gone = context.root.sweep_temporaries("", context.options.upkeep.sweep_age_ms, now_ms)
        figures = {name: int(number) for name, number in planned.figures.items()}
        counts = figures["markers"], figures["staged"], len(gone), len(planned.unpublished), figures["bytes"]
        return SweepResult((), planned.why_not, planned.data_files, *counts)

    def _execute(self, requested_time: str | None, execution: Execution) -> SweepResult:
        return self.run(gate=execution.gate, progress=execution.progress)

    def _nothing(self, why_not: str) -> SweepResult:
        return SweepResult(why_not=why_not)
