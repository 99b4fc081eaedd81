"""A proxy in front of an object store that loses responses on request.

If a client library repeats a conditional write after a lost response, the adapter reports a failed condition although its first write succeeded.
Point a storage's ``endpoint_url`` at the proxy, plan faults, and check the adapter's answer.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Literal
from urllib.parse import urlsplit

FaultKind = Literal["lost_ack", "cut", "refused", "late", "503_after", "503_before", "409", "429"]


@dataclass(slots=True)
class PlannedFault:
    """A fault for the next requests of a method whose path contains a text.

    ``lost_ack``: the store executes the request, and the response is lost. ``cut``: the store executes the request, and the connection ends within
    the headers of the response; HTTP clients of Python take such headers for complete ones. ``refused``: the connection breaks before the store sees
    the request. ``late``: the connection breaks, too, but the request reaches the store just before the next request with the same method and path.
    ``503_after`` and ``503_before``: as ``lost_ack`` and ``refused``, with the response "503 Slow Down". ``409``: the request does not reach the
    store, the response is "409 ConditionalRequestConflict". ``429``: the same with "429 Too Many Requests".
    """

    kind: FaultKind
    method: str
    path: str
    times: int = 1


class LostAckProxy:
    """Forwards requests to a store; a context manager that runs it in its own threads.

    Attributes:
        seen: method and path of every request, in order.
        retry_after: the header ``Retry-After`` of answers "503 Slow Down" and "429 Too Many Requests"; empty for none.
    """

    def __init__(self, store_url: str) -> None:
        self._store = urlsplit(store_url)
        self._faults: list[PlannedFault] = []
        self._late: dict[tuple[str, str], tuple[bytes, dict[str, str]]] = {}
        self._lock = threading.Lock()
        self.seen: list[tuple[str, str]] = []
        self.retry_after = ""
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    @property
    def url(self) -> str:
        """Return the address to which clients connect."""
        return f"http://127.0.0.1:{self._server.server_port}"

    def plan(self, kind: FaultKind, method: str, path: str, times: int = 1) -> None:
        """Plan the fault for the next matching requests."""
        with self._lock:
            self._faults.append(PlannedFault(kind, method, path, times))

    def clear(self) -> None:
        """Forget all planned faults and seen requests."""
        with self._lock:
            self._faults.clear()
            self._late.clear()
            self.seen.clear()
            self.retry_after = ""

    def __enter__(self) -> LostAckProxy:
        self._thread.start()
        return self

    def __exit__(self, *unused: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def next_fault(self, method: str, path: str) -> FaultKind | None:
        """Return the planned fault of this request, and count it."""
        with self._lock:
            self.seen.append((method, path))
            for fault in self._faults:
                if fault.times > 0 and fault.method == method and fault.path in path:
                    fault.times -= 1
                    return fault.kind
        return None

    def hold_back(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> None:
        """Delay a request for later."""
        with self._lock:
            self._late[method, path] = (body, headers)

    def let_late_ones_arrive(self, method: str, path: str) -> None:
        """Pass on the delayed request, if there is one; no client waits for its response."""
        with self._lock:
            late = self._late.pop((method, path), None)
        if late is not None:
            self.ask_store(method, path, *late)

    def ask_store(
        self, method: str, path: str, body: bytes, headers: dict[str, str]
    ) -> tuple[int, list[tuple[str, str]], bytes]:
        """Pass a request on; returns the store's status, headers and body."""
        connection = HTTPConnection(self._store.hostname or "", self._store.port or 80, timeout=30)
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            return answer.status, answer.getheaders(), answer.read()
        finally:
            connection.close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            # An answer is sent as one packet, at once. Of two packets, the second one would wait 40 ms until the client confirms the first.
            wbufsize = -1
            disable_nagle_algorithm = True

            def handle_expect_100(self) -> bool:
                """Answer a client that asks before it sends its body, so that it does not wait until its time-out."""
                is_expected = super().handle_expect_100()
                self.wfile.flush()
                return is_expected

            def handle_any(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                body = self.rfile.read(length)
                if len(body) < length:
                    return self.break_off()  # the client has ended, and no store keeps half an object
                fault = proxy.next_fault(self.command, self.path)
                if fault == "refused":
                    return self.break_off()
                if fault in ("503_before", "409", "429"):
                    return self.answer_fault(fault)
                # The complete body is forwarded, so the client's question before the body is not forwarded.
                skipped = ("expect", "connection", "content-length")
                headers = {name: text for name, text in self.headers.items() if name.lower() not in skipped}
                proxy.let_late_ones_arrive(self.command, self.path)
                if fault == "late":
                    proxy.hold_back(self.command, self.path, body, headers)
                    return self.break_off()
                status, found, data = proxy.ask_store(self.command, self.path, body, headers)
                if fault == "lost_ack":
                    return self.break_off()
                if fault == "cut":
                    self.send_response_only(status)
                    self.flush_headers()
                    return self.break_off()
                if fault == "503_after":
                    return self.answer_fault(fault)
                return self.answer(status, found, data)

            do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = handle_any

            def break_off(self) -> None:
                self.close_connection = True

            def answer_fault(self, fault: str) -> None:
                refusals = {"409": (409, "ConditionalRequestConflict"), "429": (429, "TooManyRequests")}
                code, name = refusals.get(fault, (503, "SlowDown"))
                body = f"<Error><Code>{name}</Code><Message>planned</Message></Error>".encode()
                headers = [("Content-Type", "application/xml"), ("Date", self.date_time_string())]
                headers += [("Retry-After", proxy.retry_after)] if proxy.retry_after and code != 409 else []
                self.answer(code, headers, body)

            def answer(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
                self.send_response_only(status)
                for name, text in headers:
                    if name.lower() not in ("transfer-encoding", "connection", "content-length"):
                        self.send_header(name, text)
                length = next((t for n, t in headers if n.lower() == "content-length"), str(len(body)))
                self.send_header("Content-Length", length if self.command == "HEAD" else str(len(body)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                """Quiet: tests read `seen` instead."""

        return Handler
