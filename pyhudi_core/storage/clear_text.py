"""Warn about requests in clear text, or to a server that need not say who it is.

Everybody on the network path can read and change such requests, with their data and signatures.
"""

from __future__ import annotations

import ipaddress
import logging
from functools import lru_cache
from urllib.parse import urlsplit

_log = logging.getLogger(__name__)


IN_CLEAR_TEXT, UNCHECKED = "is asked in clear text", "is asked without a look at its certificate"


def warn_of_clear_text(endpoint: str, what: str) -> None:
    """Warn once in this process if the endpoint is an ``http://`` address of another machine. ``what`` names the server, such as "S3"."""
    parts = urlsplit(endpoint)
    if parts.scheme == "http":
        warn_of_connection(parts.hostname or "", parts.port, what, "set its address to https://")


def warn_of_connection(host: str, port: int | None, what: str, remedy: str, how: str = IN_CLEAR_TEXT) -> None:
    """Warn once in this process if the host is another machine. ``remedy``: the setting with which others can read and change nothing."""
    if not _is_here(host):
        _warn(host, port, what, remedy, how)


@lru_cache(maxsize=256)
def _warn(host: str, port: int | None, what: str, remedy: str, how: str) -> None:
    where = f"{host}:{port}" if port else host
    _log.warning("%s at %s %s: %s, unless nobody else can reach this network", what, where, how, remedy)


def _is_here(host: str) -> bool:
    """Return whether a host is this machine."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
