"""Limits that hold for a process, from its environment."""

from __future__ import annotations

import os

from pyhudi_core.errors import ConfigError

PAGE_BYTES = "PYHUDI_MAX_PAGE_BYTES"
"""How many inflated bytes the pages of a row group of a Parquet file may have in memory at once."""


def page_bytes() -> int | None:
    """Return the limit that the environment variable `PAGE_BYTES` sets; None if it is not set. Raises `ConfigError` for a value that is no number."""
    text = os.environ.get(PAGE_BYTES)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and int(text)):
        raise ConfigError(
            f"The environment variable {PAGE_BYTES} is {text!r:.40}", hint="Set it to a number of bytes, or remove it."
        )
    return int(text)
