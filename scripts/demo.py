"""``make demo``: build a lake under ``.data/``, follow a week of flights through Dagster, show the table, serve the UI.

Every step is a run of the assets in ``definitions.py``, recorded in the instance of ``dagster.yaml``, so the UI shows its history afterwards. If the
demo runs again, it continues with the existing lake.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
os.chdir(ROOT)
os.environ["DAGSTER_HOME"] = str(ROOT)  # where dagster.yaml is; plain `dagster dev` in this folder finds it too

import dagster as dg  # noqa: E402
from rich.console import Console  # noqa: E402
from rich.table import Table  # noqa: E402

import definitions  # noqa: E402
import pyhudi as hudi  # noqa: E402
from examples.flights import feed  # noqa: E402
from pyhudi_dagster.services.service_jobs import NOT_RUN, services_config  # noqa: E402

console = Console(width=None if sys.stdout.isatty() else 150)
QUIET = {"loggers": {"console": {"config": {"log_level": "ERROR"}}}}
JOB = definitions.defs.resolve_implicit_global_asset_job_def()


def main() -> None:
    """Make the runs, print the resulting table, then serve the UI unless ``--no-ui`` is given."""
    options = _arguments()
    started = time.monotonic()
    days = feed.days(feed.FIRST_DAY, options.days)
    is_new = not Path(definitions.lake.location("flights")).exists()
    with dg.DagsterInstance.get() as instance:
        _work(instance, days)
    console.print(f"\n{len(days)} days in {time.monotonic() - started:.0f} s\n")
    lake: hudi.HudiTable = hudi.open_table(definitions.lake.location("flights"))
    show(lake)
    show(hudi.open_table(definitions.lake.location("daily_delays")))
    if is_new:  # else later days may be in it already, from the UI
        _compare(lake, days[-1])
    if not options.no_ui:
        _serve(options.port)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="The demo.")
    parser.add_argument("--days", type=int, default=7, help="days of January 2013 (default 7)")
    parser.add_argument("--port", type=int, default=3000, help="port of the UI (default 3000)")
    parser.add_argument("--no-ui", action="store_true", help="stop after the work")
    return parser.parse_args()


def _work(instance: dg.DagsterInstance, days: list[str]) -> None:
    """One run for each source, three for each day of flights, what is computed from their changes after each day, and then the table services."""
    spark = definitions.lake.spark  # one session for all runs; each run would start its own otherwise
    spark.sparkContext.setLogLevel("ERROR")
    try:
        if not (definitions.MESSAGES / f"received_on={feed.LAST_DAY}").exists():
            _run(instance, "flight_messages")
        for asset in ("weather", "planes"):
            if not Path(definitions.lake.location(asset)).exists():
                _run(instance, asset)
        for day in days:
            for stage in feed.STAGES:
                _run(instance, "flights", day, stage)
            _run(instance, "daily_delays")
            _run(instance, "flight_conditions")
        _look_after(instance)
    finally:
        spark.stop()


def _run(instance: dg.DagsterInstance, asset: str, day: str | None = None, stage: str | None = None) -> None:
    started = time.monotonic()
    result = JOB.execute_in_process(
        instance=instance,
        asset_selection=[dg.AssetKey(asset)],
        partition_key=day,
        run_config={**QUIET, **({"ops": {asset: {"config": {"stage": stage}}}} if stage else {})},
    )
    events = [event.materialization for event in result.get_asset_materialization_events()]
    commits = sorted({event.tags["hudi/instant"] for event in events if event.tags and "hudi/instant" in event.tags})
    made = f"commit {commits[0]}, {len(events)} partitions" if commits and day else ", ".join(commits)
    console.print(f"{day or '':10}  {asset:16} {stage or '':10} {time.monotonic() - started:5.1f} s  {made}")


def _look_after(instance: dg.DagsterInstance) -> None:
    """The table services of the flights, as their schedules and the sensor start them: plans, then runs, each with its outcome or its reason; then
    the health checks, as their schedule starts them."""
    job = definitions.defs.resolve_job_def("hudi__flights__services")
    for dry_run in (True, False):
        services = ("failed_writes", "compaction", "cleaning", "clustering", "indexing")
        asked = services_config(dict.fromkeys(services, "always"), dry_run=dry_run)
        result = job.execute_in_process(instance=instance, run_config={**QUIET, **asked})
        view = Table(
            "service", "plan" if dry_run else "done, or why not", title="Dry run" if dry_run else "Table services"
        )
        for event in result.all_events:
            if event.event_type_value != "STEP_OUTPUT":
                continue
            entries = event.step_output_data.metadata
            for record in entries[NOT_RUN].records if NOT_RUN in entries else ():
                view.add_row(str(record.data["service"]), str(record.data["skipped_because"]))
            if "hudi/service" in entries:
                found = [entries[name].value for name in ("hudi/done", "skipped_because") if name in entries]
                view.add_row(
                    str(entries["hudi/service"].value),
                    str(entries["hudi/plan"].value) if dry_run and "hudi/plan" in entries else str(found[0]),
                )
        console.print(view)
    # The last check of `flights` ran with its last day, before the compaction.
    definitions.defs.resolve_job_def("hudi__checks").execute_in_process(instance=instance, run_config=QUIET)


def show(table: hudi.HudiTable) -> None:
    """The table in numbers, and what each commit did."""
    slices = table.snapshot().view.all_slices()
    rows = table.scan(columns=["_hoodie_record_key"]).to_arrow().num_rows
    console.print(f"[bold]{table.name}[/bold]  {table.location}")
    console.print(f"  {rows:,} rows, {len(slices)} file groups")
    view = Table("instant", "completed", "action", "operation", "inserted", "updated", "deleted", "partitions", "files")
    for instant in table.timeline.commits:
        commit = table.commit_metadata(instant)
        stats = commit.stats
        counts = [sum(getattr(stat, name) for stat in stats) for name in ("inserts", "updates", "deletes")]
        view.add_row(
            instant.requested_time,
            instant.completion_time,
            str(instant.action),
            (commit.operation or "").lower(),
            *[f"{count:,}" for count in counts],
            str(len(commit.partitions)),
            str(len(stats)),
        )
    console.print(view)


def _compare(table: hudi.HudiTable, last_day: str) -> None:
    """The table must hold exactly the latest message of every flight that the feed has sent so far."""
    rows = table.scan(columns=feed.SCHEMA.names).to_arrow().sort_by([(name, "ascending") for name in feed.KEY])
    latest = feed.latest_messages(definitions.MESSAGES, last_day).sort_by([(name, "ascending") for name in feed.KEY])
    same = rows.num_rows == latest.num_rows and all(rows[name].equals(latest[name]) for name in feed.SCHEMA.names)
    if not same:
        sys.exit(f"the table holds {rows.num_rows:,} rows that are not the feed's latest {latest.num_rows:,} messages")
    console.print(f"The table's {rows.num_rows:,} rows are the feed's latest messages, column by column.")


def _serve(port: int) -> None:
    console.print(
        f"\nThe UI: http://localhost:{port}   (Ctrl-C stops it; `dg dev` or `dagster dev` in this folder shows the same)\n"
    )
    dg_command = Path(sys.executable).with_name("dg")
    del os.environ["DAGSTER_HOME"]
    os.execv(dg_command, [str(dg_command), "dev", "--port", str(port), "--host", "127.0.0.1"])


if __name__ == "__main__":
    main()
