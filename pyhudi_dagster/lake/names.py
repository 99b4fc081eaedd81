"""The names of jobs, sensors and schedules of a lake, and the tags of their runs."""

from __future__ import annotations

import re

from pyhudi_core.orchestration.errors import definition_error

LAKE = "lake"
"""The resource key of the lake in a project with one lake. The definitions of this lake have the short names."""
LAKE_TAG = "hudi/lake"
TABLE_TAG = "hudi/table"
SERVICES_TAG = "hudi/services"
RECONCILE_TAG = "hudi/reconcile"
SERVED, WATCHED = "hudi/served_assets", "hudi/watched_assets"
"""The metadata entries with the assets of a services sensor, and of a timeline sensor."""


def name_of(what: str, lake: str, name: str | None, builder: str) -> str:
    """Return the name that the caller gave, or the default name.

    With ``what="services"``, the default is ``hudi__services`` for the resource key ``lake``, and ``hudi__archive__services`` for the resource key
    ``archive``.

    Raises `InvalidOptionError` for a name that Dagster refuses.
    """
    if name is None:
        return f"hudi__{what}" if lake == LAKE else f"hudi__{lake}__{what}"
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z0-9_]+", name):
        raise definition_error(f"{builder} has name={name!r}", "Use letters, digits and underscores: 'large_tables'.")
    return name
