"""A real ``dagster dev``: webserver, daemon, code servers and run workers, with the shipped ``dagster.yaml``, in a folder of its own."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import dagster as dg
import psutil

from support.ports import free_port
from support.signals import default_signals

ROOT = Path(__file__).resolve().parents[2]
LIMIT = 300
T = TypeVar("T")
_LAUNCH = """mutation($given: ExecutionParams!) { launchPipelineExecution(executionParams: $given) {
  __typename ... on LaunchRunSuccess { run { runId } } ... on PythonError { message } } }"""
_TERMINATE = "mutation($run: String!) { terminateRun(runId: $run) { __typename } }"
_READY = (
    "{ assetNodes { assetKey { path } } workspaceOrError { ... on Workspace { locationEntries {"
    " name loadStatus locationOrLoadError { __typename } } } } }"
)


def until(seen: Callable[[], T | None], limit: float = LIMIT, what: str = "it") -> T:
    """What the call gives as soon as it is true."""
    deadline = time.monotonic() + limit
    while True:
        try:
            if found := seen():
                return found
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            pass
        assert time.monotonic() < deadline, f"{what} did not come about in {limit:g} s"
        time.sleep(0.5)


class DagsterDev:
    """One ``dagster dev``.

    Args:
        folder: of the definitions, the instance and the lake.
        files: the code of each definitions file, by its name; each is a code location.
        environment: further variables of all its processes.
    """

    def __init__(self, folder: Path, files: Mapping[str, str], environment: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        self.files = tuple(files)
        self.port = free_port()
        self.process: subprocess.Popen[bytes] | None = None
        self._environment = dict(environment or {})
        for name, code in files.items():
            (folder / name).write_text(code)
        shutil.copy(ROOT / "dagster.yaml", folder / "dagster.yaml")

    @contextmanager
    def running(self) -> Iterator[DagsterDev]:
        """Inside this context it runs, and answers."""
        self.start()
        try:
            until(self.is_ready, 2 * LIMIT, "the server")
            yield self
        finally:
            self.stop()

    def start(self) -> None:
        """Start all its processes."""
        program = str(Path(sys.executable).with_name("dagster"))
        files = [word for name in self.files for word in ("-f", name)]
        self.process = subprocess.Popen(
            [program, "dev", *files, "--host", "127.0.0.1", "--port", str(self.port)],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": str(ROOT), "DAGSTER_HOME": str(self.folder), **self._environment},
            stdout=(self.folder / "dagster.log").open("ab"),
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=default_signals,  # noqa: PLW1509 - no threads yet
        )

    def stop(self) -> None:
        """End all its processes, run workers included."""
        assert self.process is not None
        children = self.children()
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(30)
        end(children)

    def children(self) -> list[psutil.Process]:
        """All processes below it."""
        assert self.process is not None
        try:
            return psutil.Process(self.process.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []

    def daemon(self) -> psutil.Process:
        """The daemon with the sensors and the schedules."""
        return next(each for each in self.children() if "dagster._daemon" in " ".join(each.cmdline()))

    def ask(self, query: str, **variables: object) -> dict[str, Any]:
        """GraphQL."""
        body = json.dumps({"query": query, "variables": variables}).encode()
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/graphql", body, {"content-type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            found: dict[str, Any] = json.load(answer)
        assert "errors" not in found, found["errors"]
        return found["data"]

    def launch(self, *assets: str, job: str = "__ASSET_JOB", file: str | None = None, **tags: str) -> str:
        """Start a run of assets, or of a job; its id. ``partition=``, ``first=`` and ``last=`` select partitions."""
        known = {
            "partition": "dagster/partition",
            "first": "dagster/asset_partition_range_start",
            "last": "dagster/asset_partition_range_end",
        }
        given = {
            "selector": {
                "repositoryLocationName": file or self.files[0],
                "repositoryName": "__repository__",
                "pipelineName": job,
                **({"assetSelection": [{"path": name.split("/")} for name in assets]} if assets else {}),
            },
            "runConfigData": {},
            "mode": "default",
            "executionMetadata": {"tags": [{"key": known.get(name, name), "value": tags[name]} for name in tags]},
        }
        answer = self.ask(_LAUNCH, given=given)["launchPipelineExecution"]
        assert answer["__typename"] == "LaunchRunSuccess", answer
        return str(answer["run"]["runId"])

    def terminate(self, run_id: str) -> None:
        """What the button Terminate does."""
        self.ask(_TERMINATE, run=run_id)

    @contextmanager
    def instance(self) -> Iterator[dg.DagsterInstance]:
        """Its instance, from this process."""
        here = Path.cwd()
        os.chdir(self.folder)  # the shipped dagster.yaml has relative folders
        try:
            with dg.DagsterInstance.from_config(str(self.folder)) as found:
                yield found
        finally:
            os.chdir(here)

    def status(self, run_id: str) -> str:
        """The status of a run."""
        return str(
            self.ask("query($run: ID!) { runOrError(runId: $run) { ... on Run { status } } }", run=run_id)[
                "runOrError"
            ]["status"]
        )

    def ended(self, run_id: str, limit: float = LIMIT) -> str:
        """Wait for the end of a run; its last status."""
        last = ("SUCCESS", "FAILURE", "CANCELED")
        return until(lambda: found if (found := self.status(run_id)) in last else None, limit, f"the end of {run_id}")

    def runs(self) -> list[dict[str, Any]]:
        """All runs, the newest first: runId, status, jobName, parentRunId and tags."""
        query = "{ runsOrError { ... on Runs { results { runId status jobName parentRunId tags { key value } } } } }"
        found: list[dict[str, Any]] = self.ask(query)["runsOrError"]["results"]
        return found

    def is_ready(self) -> bool:
        """Whether all its code locations are loaded."""
        found = self.ask(_READY)
        loaded = found["workspaceOrError"]["locationEntries"]
        return (
            len(loaded) == len(self.files)
            and all(entry["loadStatus"] == "LOADED" for entry in loaded)
            # An entry that failed to load is LOADED, too.
            and all((entry["locationOrLoadError"] or {}).get("__typename") == "RepositoryLocation" for entry in loaded)
            and bool(found["assetNodes"])
        )


def end(processes: Sequence[psutil.Process]) -> None:
    """End these processes, those that the end of their parent left included."""
    for each in processes:
        try:
            each.kill()
        except psutil.NoSuchProcess:
            continue
    psutil.wait_procs(processes, timeout=20)
