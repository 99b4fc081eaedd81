"""An S3 emulator behind a counter: each answer waits until the client sends nothing more, so requests that do not wait for another overlap.

A "round" is one step of the longest chain of requests that do not overlap: what a user waits for, however fast the machine is.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from urllib.parse import parse_qs, unquote

import boto3
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import make_server

from support.emulated_s3 import one_request_at_a_time

BUCKET = "lake"
CREDENTIALS = {"region": "us-east-1", "access_key_id": "AKIDEXAMPLE", "secret_access_key": "very-secret"}
TICK_S, QUIET_TICKS = 0.004, 8
"""After so many ticks without a new request the answers go out that wait. Requests that are sent at once come closer together. A tick is a turn that
this process gets, so a busy machine makes all of them longer. `CountedS3.quiet_ticks` sets another number.
"""


@dataclass(frozen=True, slots=True)
class Request:
    """One request: what was asked for, when it came and when its answer went out (seconds)."""

    what: str
    came: float
    left: float


@dataclass(slots=True)
class Trace:
    """The requests of one operation, in the order in which they came."""

    requests: list[Request] = field(default_factory=list)

    @property
    def rounds(self) -> int:
        """The length of the longest chain of requests of which none overlaps another."""
        return rounds(self.requests)

    def between(self, place: str, method: str) -> list[Request]:
        """Return the requests that came after the answer to the first such request to a place, and were answered before the last one came."""
        ends = [r for r in sorted(self.requests, key=lambda r: r.came) if r.what.startswith(method) and place in r.what]
        return [r for r in self.requests if r.came >= ends[0].left and r.left <= ends[-1].came]

    def __str__(self) -> str:
        counts = Counter(r.what.split()[0] for r in self.requests)
        lines = [f"{len(self.requests)} requests, {self.rounds} rounds, {dict(counts)}"]
        begun = min((r.came for r in self.requests), default=0.0)
        for r in sorted(self.requests, key=lambda request: request.came):
            lines.append(f"  {1000 * (r.came - begun):7.0f} {1000 * (r.left - begun):7.0f} ms  {r.what}")
        return "\n".join(lines)


def rounds(requests: Iterable[Request]) -> int:
    """Return the length of the longest chain of requests that do not overlap."""
    chain, end = 0, float("-inf")
    for request in sorted(requests, key=lambda request: request.left):
        if request.came >= end:
            chain, end = chain + 1, request.left
    return chain


class CountedS3:
    """The emulator with its counter, as a WSGI application of its own.

    ``delay_s``: each answer waits so long, and not until nothing more comes.
    """

    def __init__(self) -> None:
        self._application = DomainDispatcherApplication(create_backend_app)
        self._turn = threading.Condition()
        self._answering = 0
        self._ticks = 0
        self._trace: Trace | None = None
        self.delay_s: float | None = None
        self.quiet_ticks = QUIET_TICKS
        self.ends = threading.Event()
        self.url = ""

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        trace = self._trace
        if trace is None:
            return self._application(environ, start_response)  # type: ignore[no-any-return]
        came = self._begin()
        heads: list[Any] = []
        body: list[bytes] = []
        try:
            body = list(self._application(environ, lambda *head: heads.append(head)))
        finally:
            self._end()
        if self.delay_s is None:
            self._wait_until_quiet()
        else:
            time.sleep(self.delay_s)
        with self._turn:
            trace.requests.append(Request(_what(environ), came, time.monotonic()))
        start_response(*heads[0])
        return body

    def _begin(self) -> float:
        with self._turn:
            self._answering += 1
            self._ticks = 0
            return time.monotonic()

    def _end(self) -> None:
        with self._turn:
            self._answering -= 1
            self._ticks = 0

    def _wait_until_quiet(self) -> None:
        with self._turn:
            self._turn.wait_for(lambda: not self._answering and self._ticks >= self.quiet_ticks)

    def tick(self) -> None:
        """Let the time pass by which quiet is measured."""
        with self._turn:
            self._ticks += 1
            if self._ticks >= self.quiet_ticks:
                self._turn.notify_all()

    @contextmanager
    def traced(self) -> Iterator[Trace]:
        """Count the requests of the block."""
        self._trace = trace = Trace()
        try:
            yield trace
        finally:
            self._trace = None

    @property
    def options(self) -> dict[str, str]:
        """The storage options of a table in it."""
        return {**CREDENTIALS, "endpoint_url": self.url}


def _what(environ: dict[str, Any]) -> str:
    query = parse_qs(environ.get("QUERY_STRING", ""), keep_blank_values=True)
    if "list-type" in query:
        return f"LIST {query.get('prefix', [''])[0]}"
    return f"{environ['REQUEST_METHOD']} {unquote(environ['PATH_INFO']).removeprefix(f'/{BUCKET}/')}"


@contextmanager
def counted_s3() -> Iterator[CountedS3]:
    """Run an emulator with an empty bucket."""
    with one_request_at_a_time():
        store = CountedS3()
        server = make_server("127.0.0.1", 0, store, True, request_handler=MotoRequestHandler)
        store.url = f"http://127.0.0.1:{server.server_port}"
        threads = [threading.Thread(target=run, daemon=True) for run in (server.serve_forever, partial(_ticks, store))]
        for thread in threads:
            thread.start()
        client = boto3.client(
            "s3",
            endpoint_url=store.url,
            region_name=CREDENTIALS["region"],
            aws_access_key_id=CREDENTIALS["access_key_id"],
            aws_secret_access_key=CREDENTIALS["secret_access_key"],
        )
        client.create_bucket(Bucket=BUCKET)
        try:
            yield store
        finally:
            store.ends.set()
            server.shutdown()
            for thread in threads:
                thread.join()
            server.server_close()


def _ticks(store: CountedS3) -> None:
    while not store.ends.wait(TICK_S):
        store.tick()
