"""The table services of an asset: which services Dagster runs, and when. The module has the values, and the equivalent options of Hudi.

``Services(compaction=Every(commits=5))`` sets the trigger of the service, and switches the service off after commits, because Dagster now runs the
service. A service that is not named runs by its own options; for it, Dagster executes only plans that no process executes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import dagster as dg

from pyhudi_core import orchestration
from pyhudi_core.orchestration.errors import definition_error
from pyhudi_core.orchestration.settings import TableSettings, names, refuse_no_count, refuse_unfit_columns

Options = dict[str, str]
ALWAYS = frozenset({"failed_writes"})
"""Services that Dagster runs although no asset names them. The problems that these services repair delay writers and other services."""
_ARCHIVED_AT_ONCE = 10
_INDEXES = {
    "record": "hoodie.metadata.record.index.enable",
    "bloom": "hoodie.metadata.index.bloom.filter.enable",
    "column_stats": "hoodie.metadata.index.column.stats.enable",
    "partition_stats": "hoodie.metadata.index.partition.stats.enable",
}


@dataclass(frozen=True, slots=True)
class Every:
    """Run the service after this number of commits or minutes.

    Attributes:
        commits: commits since the last run of the service; delta commits for a compaction.
        minutes: time since the last compaction. With ``commits``, the service runs when the first of the two limits is reached.
        by: columns by which a clustering sorts the rows.
    """

    commits: int | None = None
    minutes: int | None = None
    by: str | Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Keep:
    """Remove older states. One of ``commits``, ``hours`` and file ``versions`` sets what stays.

    ``every``: number of commits between two runs. The number is more than one, because every run of Dagster takes seconds.
    """

    commits: int | None = None
    hours: int | None = None
    versions: int | None = None
    every: int = 5


@dataclass(frozen=True, slots=True)
class OnCron:
    """Run the service at the times of a cron expression, if there is something to do. ``by``: as in `Every`."""

    cron: str
    by: str | Sequence[str] = ()
    timezone: str = "UTC"


Trigger = Every | Keep | OnCron


@dataclass(frozen=True, slots=True)
class _Known:
    """The names of the options of one service: the switch of the service after commits, the trigger by commits, the sort columns."""

    inline: str
    commits: str = ""
    by: str = ""
    keeps: frozenset[str] = frozenset()


_KNOWN = {
    "compaction": _Known("hoodie.compact.inline", "hoodie.compact.inline.max.delta.commits"),
    "log_compaction": _Known("hoodie.log.compaction.inline"),
    "expiry": _Known("hoodie.partition.ttl.inline"),
    "clustering": _Known(
        "hoodie.clustering.inline",
        "hoodie.clustering.inline.max.commits",
        "hoodie.clustering.plan.strategy.sort.columns",
    ),
    "cleaning": _Known(
        "hoodie.clean.automatic",
        "hoodie.clean.trigger.max.commits",
        keeps=frozenset({"commits", "hours", "versions"}),
    ),
    "archival": _Known("hoodie.archive.automatic", keeps=frozenset({"commits"})),
}
_CLEANED = {
    "commits": ("KEEP_LATEST_COMMITS", "hoodie.clean.commits.retained"),
    "hours": ("KEEP_LATEST_BY_HOURS", "hoodie.clean.hours.retained"),
    "versions": ("KEEP_LATEST_FILE_VERSIONS", "hoodie.clean.fileversions.retained"),
}


class Services:
    """The services of an asset's table that Dagster runs.

    Example:
        @hudi_asset(record_key="id", table_type="merge_on_read",
                    services=Services(compaction=Every(commits=5), cleaning=Keep(commits=20), clustering=OnCron("0 3 * * *", by="customer")))
        def orders(): ...

    Args:
        compaction, clustering, cleaning, archival: when each of these services runs.
        index: indexes of the metadata table: ``record``, ``bloom``, ``column_stats``, ``partition_stats``. A new table is created with these indexes.
            For an existing table, the service ``indexing`` builds the indexes while writers write.
        others: any other service of ``table.services`` by its name, with ``Every()`` or ``OnCron``.
    """

    __slots__ = ("index", "named")

    def __init__(
        self,
        *,
        compaction: Every | OnCron | None = None,
        clustering: Every | OnCron | None = None,
        cleaning: Keep | Every | OnCron | None = None,
        archival: Keep | Every | OnCron | None = None,
        index: str | Sequence[str] = (),
        **others: Trigger | None,
    ) -> None:
        given = {"compaction": compaction, "clustering": clustering, "cleaning": cleaning, "archival": archival}
        self.named: Mapping[str, Trigger] = {
            name: trigger for name, trigger in {**given, **others}.items() if trigger is not None
        }
        self.index = names(index)
        if self.index and "indexing" not in self.named:
            self.named = {**self.named, "indexing": Every()}

    def __repr__(self) -> str:
        arguments = [f"{name}={trigger!r}" for name, trigger in self.named.items()]
        return f"Services({', '.join([*arguments, *([f'index={self.index!r}'] if self.index else [])])})"

    def applied_to(self, asset: str, settings: TableSettings) -> TableSettings:
        """Return the settings with the options of these services. Raises `InvalidOptionError` for services that cannot run on the asset's table."""
        checked = _Checked(asset, settings)
        added: Options = {}
        for name, trigger in self.named.items():
            added.update(checked.options_of(name, trigger))
        added.update(checked.of_index(self.index))
        for option, value in added.items():
            checked.refuse_other(option, value)
        return settings.with_options(added)


@dataclass(frozen=True, slots=True)
class _Checked:
    """Checks the service settings of one asset."""

    asset: str
    settings: TableSettings

    def options_of(self, name: str, trigger: Trigger) -> Options:
        known = self._known(name, trigger)
        self._refuse_unfit(name, trigger)
        options = {known.inline: "false"} if known.inline else {}
        if not isinstance(trigger, Keep) and (columns := names(trigger.by)):
            options[known.by] = ",".join(self._columns(name, known, columns))
        if isinstance(trigger, Keep):
            options.update(self._keep(name, known, trigger))
        elif isinstance(trigger, Every):
            options.update(self._every(name, known, trigger))
        else:
            refuse_bad_cron(f"services={name} of the asset {self.asset}", trigger.cron, trigger.timezone)
        return options

    def of_index(self, indexes: Sequence[str]) -> Options:
        for number, index in enumerate(indexes):
            if index not in _INDEXES:
                self._refuse(f"index={index!r}, which does not exist", f"Use some of {', '.join(_INDEXES)}.")
            if index in indexes[:number]:
                self._refuse(f"index={index!r} twice", "Name it once.")
        return {"hoodie.metadata.enable": "true", **{_INDEXES[index]: "true" for index in indexes}} if indexes else {}

    def refuse_other(self, option: str, value: str) -> None:
        given = self.settings.options.get(option)
        if given is not None and str(given).lower() != value.lower():
            self._refuse(
                f"options={{{option!r}: {given!r}}} and services that need {value!r}",
                f"Remove {option} from the options of the asset; its services set it.",
            )

    def _known(self, name: str, trigger: Trigger) -> _Known:
        # The registry of the core is imported only for a name that is not in `_KNOWN`, because the import takes a third of a second.
        kinds = [name] if name in _KNOWN else [kind.name for kind in orchestration.service_kinds()]
        if name not in kinds:
            self._refuse(f"services={name}, which is no table service", f"Use some of {', '.join(kinds)}.")
        if not isinstance(trigger, Every | Keep | OnCron):
            self._refuse(
                f"services={name}={trigger!r}", "Pass Every(commits=5), Keep(commits=20) or OnCron('0 3 * * *')."
            )
        return _KNOWN.get(name, _Known(""))

    def _refuse_unfit(self, name: str, trigger: Trigger) -> None:
        if name in ("compaction", "log_compaction") and self.settings.kind != "merge_on_read":
            self._refuse(
                f"services={name}, but its table is {self.settings.kind}, which has no log files",
                f"Set table_type='merge_on_read', or leave {name} out.",
            )
        for figure in ("commits", "minutes", "hours", "versions", "every"):
            number = getattr(trigger, figure, None)
            if number is not None:
                refuse_no_count(f"The asset {self.asset} has services={name} with {figure}", number)

    def _columns(self, name: str, known: _Known, columns: tuple[str, ...]) -> tuple[str, ...]:
        refuse_unfit_columns(f"The asset {self.asset} with services={name}", "by", columns)
        if not known.by:
            self._refuse(f"services={name} with by={list(columns)}", "Only a clustering sorts; leave by= out.")
        schema: Any = self.settings.schema
        fields = list(getattr(schema, "names", ()))
        missing = [column for column in columns if fields and column not in fields]
        if missing:
            self._refuse(
                f"services={name} with by={missing}, which its schema does not have",
                f"Use some of {', '.join(fields)}.",
            )
        return columns

    def _every(self, name: str, known: _Known, every: Every) -> Options:
        if every.minutes is not None and name != "compaction":
            self._refuse(f"services={name} with minutes=", "Use OnCron for a service that runs by time.")
        if every.commits is not None and not known.commits:
            self._refuse(
                f"services={name} with commits=, but this service has no such trigger", "Pass Every() or OnCron(...)."
            )
        options = {known.commits: str(every.commits)} if every.commits is not None else {}
        if every.minutes is not None:
            options["hoodie.compact.inline.max.delta.seconds"] = str(every.minutes * 60)
            options["hoodie.compact.inline.trigger.strategy"] = "NUM_OR_TIME" if every.commits else "TIME_ELAPSED"
        return options

    def _keep(self, name: str, known: _Known, keep: Keep) -> Options:
        given = [figure for figure in _CLEANED if getattr(keep, figure) is not None]
        if len(given) != 1 or given[0] not in known.keeps:
            can = " or ".join(f"Keep({figure}=...)" for figure in sorted(known.keeps)) or "Every() or OnCron(...)"
            self._refuse(f"services={name}={keep!r}", f"Pass {can}.")
        number = getattr(keep, given[0])
        if name == "archival":
            return {
                "hoodie.keep.min.commits": str(number),
                "hoodie.keep.max.commits": str(number + max(keep.every, _ARCHIVED_AT_ONCE)),
            }
        policy, option = _CLEANED[given[0]]
        return {"hoodie.clean.policy": policy, option: str(number), known.commits: str(keep.every)}

    def _refuse(self, what: str, fix: str) -> None:
        raise definition_error(f"The asset {self.asset} has {what}", fix)


def refuse_bad_cron(what: str, cron: str, timezone: str) -> None:
    """Raise `InvalidOptionError` if Dagster does not accept the cron expression or the time zone."""
    try:
        dg.ScheduleDefinition(name="checked", job_name="checked", cron_schedule=cron, execution_timezone=timezone)
    except dg.DagsterInvalidDefinitionError as error:
        raise definition_error(
            f"{what} has the cron expression {cron!r} in the time zone {timezone!r}, which Dagster refuses: {error}",
            "Write it as '0 3 * * *' (minute, hour, day, month, day of the week), in a zone such as 'Europe/Berlin'.",
        ) from error
