"""Polars frames and lazy frames as results and inputs of assets. Polars is not a dependency; it is imported only if an asset uses a frame."""

from __future__ import annotations

import importlib
from typing import Any

import pyarrow as pa

from pyhudi_core.errors import ConfigError


def is_polars(kind: Any) -> bool:
    """Say whether a type belongs to Polars; imports nothing."""
    return str(getattr(kind, "__module__", "")).startswith("polars.")


def to_arrow(frame: Any) -> pa.Table:
    """Return the rows of a frame; a lazy frame is collected. Raises `ConfigError` for other Polars objects."""
    collected = frame.collect() if hasattr(frame, "collect") else frame
    if not hasattr(collected, "to_frame") and hasattr(collected, "to_arrow"):
        return collected.to_arrow()
    raise _unreadable(type(frame).__qualname__)


def from_arrow(table: pa.Table, wanted: Any) -> Any:
    """Return the rows as the annotated type of an input: ``polars.DataFrame`` or ``polars.LazyFrame``."""
    try:
        polars = importlib.import_module("polars")
    except ImportError as error:
        raise ConfigError(
            "An input is annotated with a Polars frame, but Polars is not installed", hint="pip install polars"
        ) from error
    name = getattr(wanted, "__name__", "")
    if name not in ("DataFrame", "LazyFrame"):
        raise _unreadable(name)
    frame = polars.from_arrow(table)
    return frame.lazy() if name == "LazyFrame" else frame


def _unreadable(name: str) -> ConfigError:
    return ConfigError(f"A Polars {name} is not a frame", hint="Use a polars.DataFrame or a polars.LazyFrame.")
