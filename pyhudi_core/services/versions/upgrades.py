"""``table.upgrade`` and ``table.downgrade``: give a table another version, one step after the other.

`plan` returns what would be done, and changes nothing. A call first ends a change that a dead process left, and then makes its own. Each step is one
decision under the table's lock, which changes the properties last: readers see the old table or the new one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pyhudi_core.argument_types import OfTable
from pyhudi_core.engine.base import Engine
from pyhudi_core.engine.choice import engine_for
from pyhudi_core.errors import HudiError, InvalidOptionError, at_table
from pyhudi_core.model import version_changes
from pyhudi_core.model.instant import Instant
from pyhudi_core.model.printing import printable
from pyhudi_core.opened_table.old_timeline import OldTimeline
from pyhudi_core.opened_table.opened_table import reopened
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.services.metadata.metadata_tables import MetadataTableOf
from pyhudi_core.services.progress import ServiceProgress, silent
from pyhudi_core.services.service import Execution
from pyhudi_core.services.versions import eight_and_nine, left_commits, lowering_eight, raising_six
from pyhudi_core.services.versions.version_plan import VersionPlan, VersionResult
from pyhudi_core.transaction import rollback
from pyhudi_core.transaction.commit import Gate
from pyhudi_core.write.retrying import Retries

NEWEST, OLDEST_WRITTEN = 9, 8
"""The versions to which tables are raised."""
OLDEST = 6
"""The lowest version to which tables are lowered."""


@printable
class Upgrades(OfTable):
    """Raises one table to a newer version: ``upgrade(to)``, and before it ``upgrade.plan(to)``."""

    def __init__(self, context: TableContext) -> None:
        self.context = context

    def __repr__(self) -> str:
        return f"Upgrades of {self.context.table}"

    def plan(self, to: int = OLDEST_WRITTEN, *, roll_back: bool = False) -> VersionPlan:
        """Return what an upgrade would do, or why it would be refused. Changes nothing.

        ``roll_back`` says that the programs of pending writes without a heartbeat have ended.
        """
        with at_table(self.context.table):
            _refuse_unknown(to)
            context = self.context
            if context.config.timeline_layout == 1:
                second = _refused_at_second_step(context, to)
                planned = raising_six.plan(context, roll_back=roll_back) if second is None else second
                return replace(planned, to=to) if planned else planned
            return eight_and_nine.plan(context, to) if to > context.config.version else _left_to_do(context)

    def __call__(
        self,
        to: int = OLDEST_WRITTEN,
        *,
        roll_back: bool = False,
        spark: Any = None,
        gate: Gate | None = None,
        progress: ServiceProgress | None = None,
    ) -> VersionResult:
        """Raise the table to version ``to``. The result is false, with a reason, if there was nothing to do.

        No row is changed. Writes that never ended are rolled back. Writes without a heartbeat are rolled back only with ``roll_back``, which says
        that their programs have ended. The files of an old timeline stay until there is a newer commit; then the next upgrade removes them.

        Raises `UnsupportedTableError` for a table that cannot be raised, and `CommitConflictError` if another process writes to the table meanwhile.
        """
        with at_table(self.context.table):
            _refuse_unknown(to)
            engine = engine_for(None, self.context.runtime.executor, spark, self.context.table)
            how = Execution(engine, gate, {}, progress or silent)
            if self.context.config.timeline_layout > 1:
                return _change(self.context, to, how) if to > self.context.config.version else self._ended(how)
            second = _refused_at_second_step(self.context, to)
            if second is not None and second.refused is not None:
                raise second.refused.error
            raised = self._raise_six(how, roll_back=roll_back)
            return replace(raised, to=_change(self.context.below(""), to, how).to) if to > raised.to else raised

    def _raise_six(self, how: Execution, *, roll_back: bool) -> VersionResult:
        context = self.context
        with Retries(context) as retries:
            raised = retries.until_done(lambda: self._attempt(how, roll_back=roll_back))
        ended = self._end_after_decision(how.engine, context.config.metadata_partitions, 8)
        done = replace(ended, found=context.config.version, why_not="")
        if raised is None:
            return done
        instants, groups = tuple(raised.found.kept), len(raised.found.slices)
        return replace(done, instants=instants, file_groups=groups, archived=raised.archived)

    def _attempt(self, how: Execution, *, roll_back: bool) -> raising_six.Raising | None:
        """Raise the table; None if a dead process had already decided it."""
        if raising_six.finish_or_undo(self.context):
            return None
        found, planned = raising_six.judged(self.context, roll_back=roll_back)
        if planned.refused is not None:
            raise planned.refused.error
        assert found is not None, "a table that is not looked at is refused"
        lowering_eight.forget(self.context)
        attempt = raising_six.Raising.begin(found, how)
        attempt.run()
        return attempt

    def _ended(self, how: Execution) -> VersionResult:
        """End an upgrade: put commits that only the old timeline has on the new one, if that is correct, and do the remaining steps."""
        listed = self.context.config.metadata_partitions
        rollback.repair(self.context)
        with Retries(self.context) as retries:
            taken = retries.until_done(lambda: left_commits.take_over(self.context.below(""), how))
        if not taken:
            return self._end(how.engine)
        ended = self._end_after_decision(how.engine, listed, self.context.config.version)
        return replace(ended, taken_over=len(taken), why_not="")

    def _end_after_decision(self, engine: Engine, listed: tuple[str, ...], version: int) -> VersionResult:
        """Do what remains, as `_end` does, where a decision stands whatever fails now; then the result lists what still remains."""
        try:
            return self._end(engine, listed)
        except HudiError as error:
            left = f"the writes that never ended ({error.message}); upgrade again rolls them back"
            if listed:
                left += ", and `pyhudi metadata LOCATION create` makes the metadata table"
            return VersionResult(found=version, to=version, left=left)

    def _end(self, engine: Engine, listed: tuple[str, ...] = ()) -> VersionResult:
        """Do the steps after the decision: roll back writes that never ended, make the metadata table, remove the old timeline when it is due."""
        context = self.context.below("")
        rollback.repair(context)
        done: list[Instant] = []
        for instant in OldTimeline.of(context.folder, context.config.raised_at).pending:
            done += [instant] if rollback.roll_back(context, instant.requested_time) is not None else []
        files = OldTimeline.of(context.folder, context.config.raised_at).remove(context.storage)
        made, left = self._with_metadata_table(context, engine, listed)
        version = context.config.version
        why_not = "" if done or files or made else _left_to_do(context).why_not
        return VersionResult(
            found=version, to=version, rolled_back=tuple(done), files=files, indexes=made, left=left, why_not=why_not
        )

    def _with_metadata_table(
        self, context: TableContext, engine: Engine, listed: tuple[str, ...]
    ) -> tuple[tuple[str, ...], str]:
        """Make the table's metadata table again. Return its partitions, and the reason if it is not made yet."""
        if not listed:
            return (), ""
        try:
            built = MetadataTableOf(context).make_again(listed, engine)
            return tuple(built.partitions), built.why_not
        except HudiError as error:
            return (), f"the metadata table is not made ({error.message}); `pyhudi metadata LOCATION create` makes it"


@printable
class Downgrades(OfTable):
    """Lowers one table to version 8 or 6: ``downgrade(to)``, and before it ``downgrade.plan(to)``."""

    def __init__(self, context: TableContext) -> None:
        self.context = context

    def __repr__(self) -> str:
        return f"Downgrades of {self.context.table}"

    def plan(self, to: int = OLDEST_WRITTEN) -> VersionPlan:
        """Return what a downgrade would do, or why it would be refused. Changes nothing."""
        with at_table(self.context.table):
            _refuse_not_lowered(to)
            context, version = self.context, self.context.config.version
            if version <= to:
                left = len(lowering_eight.left_over(context.storage)) if version == to == OLDEST else 0
                why = "" if left else f"the table has version {version} already"
                return VersionPlan(version, version, files=left, why_not=why)
            return eight_and_nine.plan(context, to) if to == OLDEST_WRITTEN else lowering_eight.plan(context)

    def __call__(
        self,
        to: int = OLDEST_WRITTEN,
        *,
        spark: Any = None,
        gate: Gate | None = None,
        progress: ServiceProgress | None = None,
    ) -> VersionResult:
        """Lower the table to version 8, which Hudi 1.0 opens, or to 6, which Hudi 0.15 opens. The result is false, with a reason, if there was
        nothing to do.

        No row is changed. In version 8 the table loses the indexes that this version cannot have. In version 6 it loses the metadata table, and, if
        it is merge-on-read, the states before the downgrade, because logs of version 8 are compacted and removed. This package does not write version
        6.

        Raises `UnsupportedTableError` for a table that the version cannot represent, and `CommitConflictError` if another process writes to the table
        meanwhile.
        """
        with at_table(self.context.table):
            now = lowering_eight.repair(self.context) if to == OLDEST else self.context
            planned = Downgrades(now).plan(to)
            if planned.found == planned.to:
                files = lowering_eight.end(now)
                return VersionResult(found=planned.to, to=planned.to, files=files, why_not=planned.why_not)
            if planned.refused is not None:
                raise planned.refused.error
            how = Execution(
                engine_for(None, self.context.runtime.executor, spark, self.context.table), gate, {}, progress or silent
            )
            return _change(self.context, to, how) if to == OLDEST_WRITTEN else self._lower_to_six(planned, how)

    def _lower_to_six(self, planned: VersionPlan, how: Execution) -> VersionResult:
        def attempt() -> lowering_eight.Lowering:
            lowering_eight.settle(self.context.below(""), how)
            if self.context.below("").config.version > OLDEST_WRITTEN:
                _change(self.context, OLDEST_WRITTEN, how)
            lowering = lowering_eight.Lowering.begin(reopened(self.context.below("")), how)
            lowering.run()
            return lowering

        with Retries(self.context) as retries:
            done = retries.until_done(attempt)
        left, files = [], 0
        try:
            files = lowering_eight.end(self.context.below(""))
        except HudiError as error:  # the table is lowered, whatever fails now
            left.append(f"the files of the old timeline ({error.message}); downgrade again removes them")
        if planned.indexes:
            left.append(f"the metadata table is dropped ({', '.join(planned.indexes)}); Hudi 0.15 makes its own")
        return VersionResult(
            found=planned.found,
            to=OLDEST,
            instants=tuple(done.timeline),
            file_groups=planned.file_groups,
            archived=done.archived,
            files=files,
            left="; ".join(left),
        )


def _refused_at_second_step(context: TableContext, to: int) -> VersionPlan | None:
    """Return the refusal of the step from version 8 to ``to``, for a table of version 6; None if the step is possible, or the first one is not."""
    if to <= OLDEST_WRITTEN or version_changes.why_not_to_version_8(context.config):
        return None
    config = context.config.with_properties(version_changes.to_version_8(context.config), table=context.table)
    why = eight_and_nine.why_not_of(replace(context, config=config), to)
    hint = f"Nothing was changed. Version {OLDEST_WRITTEN} is possible."
    return eight_and_nine.refused(context, to, why, hint) if why else None


def _change(context: TableContext, to: int, how: Execution) -> VersionResult:
    """Change between versions 8 and 9."""

    def attempt() -> VersionResult:
        now = context.below("")
        found = now.config.version
        now = reopened(now)
        seen = now.folder.load()
        planned = eight_and_nine.plan(now, to)
        if planned.refused is not None:
            raise planned.refused.error
        dropped = eight_and_nine.change(now, to, how, seen)
        left = f"the indexes {', '.join(dropped)} are dropped; make them again if you need them" if dropped else ""
        return VersionResult(found=found, to=to, left=left)

    with Retries(context) as retries:
        return retries.until_done(attempt)


def _refuse_not_lowered(to: int) -> None:
    """Raise `InvalidOptionError` for a version to which no table is lowered."""
    if to not in (OLDEST_WRITTEN, OLDEST):
        raise InvalidOptionError(
            f"Tables are not lowered to version {to!r}", hint=f"Give to={OLDEST_WRITTEN} or {OLDEST}."
        )


def _refuse_unknown(to: int) -> None:
    """Raise `InvalidOptionError` for a version to which no table is raised."""
    if to not in range(OLDEST_WRITTEN, NEWEST + 1):
        raise InvalidOptionError(
            f"Tables are not raised to version {to!r}", hint=f"Give to={OLDEST_WRITTEN} or {NEWEST}."
        )


def _left_to_do(context: TableContext) -> VersionPlan:
    """Return the remaining steps of an upgrade that is decided."""
    old, version = OldTimeline.of(context.folder, context.config.raised_at), context.config.version
    left = left_commits.find(context)
    taken = tuple(each.instant for each in left if not each.why_not)
    stay = tuple(
        f"the {each}, which only the old timeline has, stays there: {each.why_not}" for each in left if each.why_not
    )
    why = (
        "" if old.pending or old.removable or taken else "; ".join((f"the table has version {version} already", *stay))
    )
    if why and old.files:
        why += f"; {len(old.files)} files of the old timeline stay until there is a newer commit"
    return VersionPlan(
        version, version, old.pending, files=len(old.removable), taken_over=taken, left_behind=stay, why_not=why
    )
