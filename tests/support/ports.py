"""Ports for servers that must be started with a port."""

from __future__ import annotations

import os
import random
import socket

_FIRST, _END = 20_000, 32_000
"""Below the ports that Linux gives to those that ask for any: no other test's server can get one while ours still starts."""
_given: set[int] = set()


def free_port() -> int:
    """A free port, another one in each call; different processes begin their search at different ports."""
    ports = list(range(_FIRST, _END))
    random.Random(os.getpid()).shuffle(ports)
    for port in ports:
        if port in _given:  # its server may not have started yet
            continue
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            _given.add(port)
            return port
    raise AssertionError("every port is taken")
