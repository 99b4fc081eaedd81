"""The lakes of `dagster_hour.py`: the projects in YAML, the processes that write beside Dagster, and what has to be true at the end."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
from locks.server_cases import SECRET
from support.dagster_dev import ROOT, DagsterDev, until

import pyhudi_core as hudi

KEY = {"access_key_id": "AKIDEXAMPLE", "secret_access_key": SECRET}
SCHEMA = pa.schema([("id", pa.string()), ("number", pa.int64()), ("ts", pa.int64())])
EMPTY = "import dagster as dg\n\n@dg.asset\ndef nothing(): ...\n\ndefs = dg.Definitions(assets=[nothing])\n"
WRITE_S = 15
"""A writer makes a commit, and waits for so long."""
REST_S = 150
"""Five ticks of the sensors."""
ROWS = """import time
import pyarrow as pa
from pyhudi_dagster import Changes

def rows(context):
    ids = [f"{context.run.run_id}/{number}" for number in range(100)]
    return pa.table({"id": ids, "number": list(range(100)), "ts": [int(time.time())] * 100})

def copied(upstream: Changes):
    return upstream.to_arrow(columns=["id", "number", "ts"])
"""
LOCATION = """import os
from pathlib import Path
import dagster as dg

HERE = Path(os.environ["DAGSTER_HOME"]) / "projects" / "NAME"
parts = [dg.load_from_defs_folder(path_within_project=HERE)]
keys = KEYS
if keys:
    job = dg.define_asset_job("load_NAME", selection=dg.AssetSelection.assets(*(key.split("/") for key in keys)))
    running = dg.DefaultScheduleStatus.RUNNING
    parts.append(dg.Definitions(schedules=[dg.ScheduleDefinition(job=job, cron_schedule="CRON", default_status=running)]))
if AUTOMATED:
    running = dg.DefaultSensorStatus.RUNNING
    parts.append(dg.Definitions(sensors=[
        dg.AutomationConditionSensorDefinition("automation", target="*", default_status=running, minimum_interval_seconds=60)
    ]))
defs = dg.Definitions.merge(*parts)
"""


@dataclass(frozen=True, slots=True)
class Lakes:
    """Two lakes for each ``dagster dev``: a folder, and a prefix on an S3 gateway on this port."""

    folder: Path
    port: int

    @property
    def storage(self) -> dict[str, str]:
        """The storage options of the lake on S3."""
        return {"endpoint_url": f"http://127.0.0.1:{self.port}", "region": "us-east-1", **KEY}

    def warehouse(self, of: str, kind: str) -> tuple[str, dict[str, str]]:
        """Where a lake is, and its storage options."""
        return (str(self.folder / of / "disk"), {}) if kind == "disk" else (f"s3://lakes/{of}", self.storage)

    def table(self, of: str, kind: str, name: str) -> hudi.HudiTable:
        """A table of a lake."""
        place, storage = self.warehouse(of, kind)
        return hudi.open_table(f"{place}/{name}", storage_options=storage)

    def environment(self, home: Path) -> dict[str, str]:
        """What processes of Dagster need in order to find the projects."""
        places = [str(ROOT), *map(str, sorted((home / "projects").glob("*")))]
        return {
            "PYTHONPATH": os.pathsep.join(places),
            # As where people work: byte code is there, though the tests' environment may write none.
            "PYTHONDONTWRITEBYTECODE": "",
            "PYTHONPYCACHEPREFIX": str(self.folder / "bytecode"),
            "DAGSTER_GRPC_TIMEOUT_SECONDS": "300",  # on a machine with other work a new process may take a minute
        }

    def save(self) -> None:
        """Tell the writers, which are processes of their own, the port."""
        (self.folder / "port").write_text(str(self.port))


@dataclass(frozen=True, slots=True)
class Some:
    """Tables of one lake in one location: so many that Dagster writes, that others write, and that copy the changes of those.

    ``writes`` of the tables that Dagster writes are materialized by a schedule; the first of them is written by others, too.
    """

    kind: str
    own: int
    foreign: int = 0
    writes: int = 0
    prefix: str = "t"

    def keys(self) -> tuple[list[str], list[str], list[str]]:
        """The tables by who writes them: Dagster, others, Dagster from the changes of others."""
        names = [f"{self.kind}/{self.prefix}{number:02}" for number in range(self.own)]
        foreign = [f"{self.kind}/foreign{number}" for number in range(self.foreign)]
        return names, foreign, [f"{self.kind}/copy{number}" for number in range(self.foreign)]

    def attributes(self, lakes: Lakes, of: str, cron: str) -> dict[str, Any]:
        """The attributes of the component."""
        place, storage = lakes.warehouse(of, self.kind)
        own, foreign, copies = self.keys()
        table = {"record_key": ["id"], "ordering": "ts"}
        tables: list[dict[str, Any]] = [
            {"key": key, "python": "tables.py:rows", **table, **({"table_type": "merge_on_read"} if number % 2 else {})}
            for number, key in enumerate(own)
        ]
        tables += [
            {
                "key": copy,
                "python": "tables.py:copied",
                **table,
                "changes_of": {"upstream": key},
                "automation": "on_commit",
            }
            for key, copy in zip(foreign, copies, strict=True)
        ]
        return {
            "lake": "lake" if self.kind == "disk" else "archive",
            "warehouse": place,
            "storage_options": storage,
            "tables": tables,
            "external": [{"key": key, "table_type": "merge_on_read"} for key in foreign],
            "defaults": {
                "group_name": self.kind,
                "services": {
                    "compaction": {"every_commits": 5},
                    "cleaning": {"keep_commits": 20},
                    "clustering": {"cron": cron},
                },
                "checks": [
                    {"name": name, "cron": cron} for name in ("no_stuck_instants", "data_freshness", "compaction_lag")
                ],
            },
            "services": {},
            "timeline_sensor": {},
        }


LOOKED_AT: Mapping[str, Sequence[Some]] = {"all": [Some("disk", 26, 2), Some("store", 26, 2)]}
BUSY: Mapping[str, Sequence[Some]] = {
    "east": [Some("disk", 24, writes=4, prefix="e")],
    "west": [Some("store", 24, writes=4, prefix="w")],
    "both": [Some("disk", 2, 2, prefix="b"), Some("store", 2, 2, prefix="b")],
}
FOREIGN = {
    kind: [f"{kind}/foreign0", f"{kind}/foreign1", f"{kind}/{name}00"] for kind, name in (("disk", "e"), ("store", "w"))
}
"""What the writers beside Dagster write; the last one of each is written by Dagster, too."""


def hourly(moment: float) -> str:
    """A cron expression with one time an hour, soon after this moment."""
    return f"{datetime.fromtimestamp(moment + 900, UTC).minute} * * * *"


def locations(wanted: Mapping[str, Sequence[Some]]) -> dict[str, str]:
    """The file of each code location."""
    found = {}
    for number, (name, lakes) in enumerate(wanted.items()):
        keys = [key for some in lakes for key in some.keys()[0][: some.writes]]
        code = (
            LOCATION.replace("NAME", name)
            .replace("KEYS", repr(keys))
            .replace("AUTOMATED", repr(any(some.foreign for some in lakes)))
        )
        found[f"{name}.py"] = code.replace("CRON", f"{3 * number}-59/10 * * * *")
    return found


def project(home: Path, lakes: Lakes, of: str, wanted: Mapping[str, Sequence[Some]], cron: str) -> None:
    """Make the projects of `dg`, one for each location, and the tables that are not made by Dagster."""
    for name, of_location in wanted.items():
        root = home / "projects" / name
        for some in of_location:
            folder = root / f"{name}_lake" / "defs" / some.kind
            folder.mkdir(parents=True)
            (folder / "tables.py").write_text(ROWS)
            given = {"type": "pyhudi_dagster.HudiLakeComponent", "attributes": some.attributes(lakes, of, cron)}
            (folder / "defs.yaml").write_text(json.dumps(given, indent=1))
            own, foreign, _ = some.keys()
            place, storage = lakes.warehouse(of, some.kind)
            for number, key in enumerate([*foreign, *(own if of == "looked_at" else ())]):
                kind = "copy_on_write" if key in own and not (number - len(foreign)) % 2 else "merge_on_read"
                table = hudi.create_table(
                    f"{place}/{key}", SCHEMA, "id", ordering="ts", table_type=kind, storage_options=storage
                )
                table.upsert(row("first"))
        for folder in (root / f"{name}_lake", root / f"{name}_lake" / "defs"):
            (folder / "__init__.py").touch()
        (root / "pyproject.toml").write_text(
            f'[project]\nname = "{name}_lake"\nversion = "0"\n\n[tool.dg]\ndirectory_type = "project"\n\n'
            f'[tool.dg.project]\nroot_module = "{name}_lake"\ncode_location_name = "{name}.py"\n'
        )


def row(name: str) -> pa.Table:
    """One row."""
    return pa.table({"id": [name], "number": [0], "ts": [int(time.time())]}, schema=SCHEMA)


def write_forever(folder: Path, number: int, life: int) -> None:
    """Write one row after another to the foreign tables of a lake, and note each that was acknowledged, until SIGTERM comes."""
    stopped: list[int] = []
    signal.signal(signal.SIGTERM, lambda *_: stopped.append(1))
    lakes, kind = Lakes(folder, int((folder / "port").read_text())), ("disk", "store")[number % 2]
    chosen = random.Random(f"{number}.{life}")
    journal = folder / "journal"
    journal.mkdir(exist_ok=True)
    with (journal / f"{number}.{life}").open("a") as told:
        for count in range(10**9):
            name, key = f"{number}.{life}.{count}", chosen.choice(FOREIGN[kind])
            try:
                lakes.table("busy", kind, key).upsert(row(name))
            except hudi.errors.TableNotFoundError:  # Dagster has not made it yet
                pass
            else:
                told.write(f"{kind} {key} {name}\n")
                told.flush()
            until_time = time.monotonic() + WRITE_S * chosen.uniform(0.5, 1.5)
            while time.monotonic() < until_time:
                if stopped:
                    return
                time.sleep(0.2)


# --- what has to be true at the end


def judge(
    folder: Path, lakes: Lakes, busy: DagsterDev, looked_at: DagsterDev, resting: Callable[[], tuple[bool, int]]
) -> dict[str, Any]:
    """Wait for rest, and examine everything; the figures. Raises `AssertionError` for a broken promise."""
    tables = [(some.kind, *keys) for of in BUSY.values() for some in of for keys in zip(*some.keys()[1:], strict=True)]
    for kind, key, copy in tables:
        until(partial(_is_copied, lakes, kind, key, copy), 600, f"the copy of {key}")
    until(lambda: resting()[0], 600, "rest")
    before = (resting()[1], instants(lakes))
    time.sleep(REST_S)
    assert (*resting(), instants(lakes)) == (True, *before), (
        "it does not come to rest: runs or instants came although nobody writes"
    )
    acknowledged = [
        line.split() for each in sorted((folder / "journal").iterdir()) for line in each.read_text().splitlines()
    ]
    for kind, key in {(kind, key) for kind, key, _ in acknowledged}:
        wanted = {name for of, table, name in acknowledged if (of, table) == (kind, key)}
        found = Counter(ids(lakes.table("busy", kind, key)))
        assert not wanted - set(found), f"{key} lost {sorted(wanted - set(found))[:5]}"
        assert max(found.values()) == 1, f"{key} has a row twice"
    runs = written_by_runs(busy, lakes)
    commits = 0
    for of, wanted_ in (("busy", BUSY), ("looked_at", LOOKED_AT)):
        home = folder / of
        for name in wanted_:
            command = [
                str(Path(sys.executable).with_name("pyhudi-dagster")),
                "-f",
                f"{name}.py",
                "reconcile",
                "--dry-run",
            ]
            environment = {**os.environ, **lakes.environment(home), "DAGSTER_HOME": str(home)}
            done = subprocess.run(
                command, cwd=home, env=environment, capture_output=True, text=True, check=False, timeout=600
            )
            bad = [
                line for line in done.stdout.splitlines() if ": 0 commits without events, 0 events stored" not in line
            ]
            assert (done.returncode, bad) == (0, []), (
                f"events and timelines of {of}, {name} differ: {bad[:5]} {done.stderr[-2000:]}"
            )
    for kind, key in made(lakes):
        table = lakes.table("busy", kind, key)
        assert table.check().ok, f"{key}: {table.check()}"
        assert not table.timeline.pending.instants, f"{key} has {table.timeline.pending.instants}"
        commits += len(table.timeline.commits)
    with busy.instance() as instance:
        for _, key in made(lakes):
            twice = [
                time for time, count in Counter(reported(instance, dg.AssetKey(key.split("/")))).items() if count > 1
            ]
            assert not twice, f"{key} has events twice: {twice}"
    return {
        "acknowledged_rows_of_writers": len(acknowledged),
        "runs_with_rows": runs,
        "active_commits": commits,
        "runs_by_job": dict(Counter(run["jobName"] for run in busy.runs())),
        "runs_by_status": dict(Counter(run["status"] for run in busy.runs())),
        "runs_of_looked_at": dict(Counter(f"{run['jobName']} {run['status']}" for run in looked_at.runs())),
    }


def _is_copied(lakes: Lakes, kind: str, key: str, copy: str) -> bool:
    try:
        return ids(lakes.table("busy", kind, key)) == ids(lakes.table("busy", kind, copy))
    except hudi.errors.TableNotFoundError:
        return False


def ids(table: hudi.HudiTable) -> list[str]:
    """The keys of a table's rows, in order."""
    return sorted(table.scan(columns=["id"]).to_arrow()["id"].to_pylist())


def made(lakes: Lakes) -> Iterator[tuple[str, str]]:
    """The tables of the busy lakes that exist."""
    for of in BUSY.values():
        for some in of:
            for key in chain(*some.keys()):
                try:
                    lakes.table("busy", some.kind, key)
                except hudi.errors.TableNotFoundError:
                    continue
                yield some.kind, key


def instants(lakes: Lakes) -> dict[str, int]:
    """The number of instants of each table."""
    return {f"{kind} {key}": len(list(lakes.table("busy", kind, key).timeline)) for kind, key in made(lakes)}


def written_by_runs(dev: DagsterDev, lakes: Lakes) -> int:
    """How many successful runs wrote rows: each has all its rows in each of its tables."""
    found, rows = 0, dict[str, set[str]]()
    for run in dev.runs():
        location = run["jobName"].removeprefix("load_")
        if run["status"] != "SUCCESS" or location not in BUSY or not run["jobName"].startswith("load_"):
            continue
        (some,) = BUSY[location]
        for key in some.keys()[0][: some.writes]:
            if key not in rows:
                rows[key] = set(ids(lakes.table("busy", some.kind, key)))
            root = run_of_rows(run, dev)
            assert any({f"{each}/{number}" for number in range(100)} <= rows[key] for each in root), (
                f"{key} lost rows of run {run['runId']}"
            )
        found += 1
    return found


def run_of_rows(run: Mapping[str, Any], dev: DagsterDev) -> list[str]:
    """The runs whose rows may stand for this one: itself, and those that it retries, whose commits it adopts."""
    tags = {each["key"]: each["value"] for each in run["tags"]}
    root = tags.get("dagster/root_run_id")
    return [run["runId"]] if root is None else [run["runId"], root, *(
        each["runId"] for each in dev.runs() if {"key": "dagster/root_run_id", "value": root} in each["tags"])]  # fmt: skip


def reported(instance: dg.DagsterInstance, key: dg.AssetKey) -> list[tuple[str, str | None]]:
    """The commits that materializations of an asset report, once for each event."""
    records = instance.fetch_materializations(key, limit=5000).records
    events = [record.asset_materialization for record in records if record.asset_materialization]
    return [
        (event.tags["hudi/completion"], event.partition)
        for event in events
        if event.tags and "hudi/completion" in event.tags
    ]
