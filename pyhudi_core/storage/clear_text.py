"""Warn about requests in clear text. Everybody on the network path can read and change such requests, with their data and signatures."""

from __future__ import annotations

import ipaddress
import logging
from functools import lru_cache
from urllib.parse import urlsplit

_log = logging.getLogger(__name__)


def warn_of_clear_text(endpoint: str, what: str) -> None:
    """Warn once in this process if the endpoint is an ``http://`` address of another machine. ``what`` names the server, such as "S3"."""
    parts = urlsplit(endpoint)
    if parts.scheme == "http" and not _is_here(parts.hostname or ""):
        _warn(parts.hostname or "", parts.port, what)


@lru_cache(maxsize=256)
def _warn(host: str, port: int | None, what: str) -> None:
    where = f"{host}:{port}" if port else host
    _log.warning(
        "%s at %s is asked in clear text: set its address to https://, unless nobody else can reach this network",
        what,
        where,
    )


def _is_here(host: str) -> bool:
    """Return whether a host is this machine."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
