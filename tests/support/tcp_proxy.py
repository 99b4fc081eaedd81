"""A TCP proxy between a client and a real server: it can delay answers, stay silent, or cut connections."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import suppress

_CHUNK = 1 << 16


class TcpProxy:
    """Forwards a local port to a server.

    Args:
        target: the port of the server on this machine.
        delay_s: seconds that each answer waits: the bytes that follow the latest bytes of the client.
    """

    def __init__(self, target: int, delay_s: float = 0.0) -> None:
        self._target = target
        self.delay_s = delay_s
        self.calls = 0
        self.connections = 0
        self._passes = threading.Event()
        self._passes.set()
        self._refuses = False
        self._drops = 0
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = int(self._listening.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def partition(self) -> None:
        """Pass no more bytes in either direction; connections stay open, and new ones are accepted, so nobody is told."""
        self._passes.clear()

    def heal(self) -> None:
        """Pass bytes again, on new connections; those of the partition are closed."""
        self._close_all()
        self._refuses = False
        self._passes.set()

    def refuse(self) -> None:
        """Close every connection, and each new one at once, as if the server had gone."""
        self._refuses = True
        self._close_all()

    def drop_next_answer(self) -> None:
        """Cut the connection in place of the server's next answer: the request has taken effect."""
        self._drops += 1

    def close(self) -> None:
        self._passes.set()
        self._close(self._listening)
        self._close_all()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            if self._refuses:
                self._close(client)
                continue
            try:
                server = socket.create_connection(("127.0.0.1", self._target))
            except OSError:
                self._close(client)
                continue
            for end in (client, server):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._pairs.append((client, server))
            self.connections += 1
            asked = threading.Event()
            threading.Thread(target=self._pump, args=(client, server, asked, True), daemon=True).start()
            threading.Thread(target=self._pump, args=(server, client, asked, False), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket, asked: threading.Event, is_client: bool) -> None:
        with suppress(OSError):
            while data := source.recv(_CHUNK):
                self._passes.wait()
                if is_client:
                    asked.set()
                elif asked.is_set():
                    asked.clear()
                    self.calls += 1
                    if self._drops:
                        self._drops -= 1
                        break
                    time.sleep(self.delay_s)
                sink.sendall(data)
        self._close(source)
        self._close(sink)

    def _close_all(self) -> None:
        pairs, self._pairs = self._pairs, []
        for pair in pairs:
            for end in pair:
                self._close(end)

    @staticmethod
    def _close(end: socket.socket) -> None:
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
        with suppress(OSError):
            end.close()
