"""Possible problems of an installation, an instance and a lake: the findings of ``pyhudi-dagster doctor``."""

from __future__ import annotations

import importlib.metadata
import os
import signal
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import dagster as dg

from pyhudi.errors import HudiError, TableNotFoundError
from pyhudi_dagster.command.project import Project

_PACKAGES = ("pyhudi", "dagster", "pyarrow", "pyspark")


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """One examined point: the name, the finding, whether the finding is good, and otherwise what to do."""

    what: str
    found: str
    good: bool = True
    fix: str = ""


def of_installation() -> Iterator[Diagnosis]:
    """Yield the versions, the Python of Spark's workers, and whether signals reach the processes."""
    versions = []
    for name in _PACKAGES:
        try:
            versions.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            versions.append(f"no {name}")
    yield Diagnosis("versions", f"Python {sys.version.split()[0]}, {', '.join(versions)}")
    workers = os.environ.get("PYSPARK_PYTHON", sys.executable)
    yield Diagnosis(
        "Python of Spark's workers",
        workers,
        workers == sys.executable or os.path.exists(workers),
        "Unset PYSPARK_PYTHON: runs set it to their own Python.",
    )
    ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    yield Diagnosis(
        "Ctrl-C",
        "ignored by this shell's background jobs" if ignored else "reaches the processes",
        not ignored,
        "A `dagster dev &` of this shell could not be ended: start it in the foreground or with `setsid`.",
    )


def of_instance(instance: dg.DagsterInstance) -> Iterator[Diagnosis]:
    """Yield whether the instance limits writers of one table, notices dead workers and lost processes, and retries their runs."""
    yield Diagnosis(
        "DAGSTER_HOME",
        os.environ.get("DAGSTER_HOME", "") or "not set",
        bool(os.environ.get("DAGSTER_HOME")) or os.path.exists("dagster.yaml"),
        "Set it to a folder that stays, or events are lost: `pyhudi-dagster export-dagster-yaml` has settings for it.",
    )
    pools = _section(instance, "concurrency").get("pools", {})
    limit = pools.get("default_limit") if isinstance(pools, Mapping) else None
    yield Diagnosis(
        "pools",
        f"default limit {limit}" if limit else "without a limit",
        limit == 1,
        "Set concurrency.pools.default_limit to 1, so that writes of one table wait instead of planning twice.",
    )
    monitoring = _section(instance, "run_monitoring")
    yield Diagnosis(
        "run monitoring",
        "on" if monitoring.get("enabled") else "off",
        bool(monitoring.get("enabled")),
        "Set run_monitoring.enabled, or a run whose worker died stays STARTED, and may still commit.",
    )
    yield Diagnosis(
        "slots of ended runs",
        f"free after {monitoring.get('free_slots_after_run_end_seconds', 0)} s",
        bool(monitoring.get("free_slots_after_run_end_seconds")),
        "Set run_monitoring.free_slots_after_run_end_seconds, or a cancelled run can keep its pool's slot.",
    )
    launcher = type(instance.run_launcher)
    yield Diagnosis(
        "run launcher",
        launcher.__name__,
        launcher is not dg.DefaultRunLauncher,
        "Set run_launcher to LocalRunLauncher of pyhudi_dagster, or runs stay STARTED for hours after the machine has ended at once.",
    )
    retries = _section(instance, "run_retries")
    yield Diagnosis(
        "run retries",
        f"{retries.get('max_retries', 0)}" if retries.get("enabled") else "off",
        bool(retries.get("enabled")),
        "Set run_retries.enabled, so that the run of a dead worker is retried; it adopts the commit that is there.",
    )


def of_lake(project: Project) -> Iterator[Diagnosis]:
    """Yield whether the definitions load, whether each table can be opened with its options, and whether dead writers have left writes."""
    tables = project.tables
    yield Diagnosis("definitions", f"{len(tables)} Hudi tables")
    with project.lakes() as lakes:
        for info in tables:
            name = f"table {info.table}"
            try:
                table = lakes.table(info)
            except TableNotFoundError:
                yield Diagnosis(name, "does not exist yet")
                continue
            except HudiError as error:
                yield Diagnosis(name, error.message, False, error.hint or "")
                continue
            dead = table.failed_writes.plan()
            count = len(table.timeline)
            yield Diagnosis(
                name,
                f"{count} instants{f'; {dead}' if dead else ''}",
                not dead,
                "The next write rolls them back; `pyhudi-dagster services run` does it now.",
            )


def _section(instance: dg.DagsterInstance, name: str) -> Mapping[str, Any]:
    found = instance.get_settings(name)
    return found if isinstance(found, Mapping) else {}
