"""A server that gives each connection to a function of the test, one after the other."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress


class AcceptingServer:
    """Accepts connections at a free port of this machine. An error of a connection ends this connection alone."""

    def __init__(self, answer: Callable[[socket.socket], object]) -> None:
        self._answer = answer
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            with connection, suppress(OSError):
                connection.settimeout(2)
                self._answer(connection)

    def close(self) -> None:
        """End the server."""
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join(10)
