"""The possible return values of an asset's function, in Dagster's words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import dagster as dg

from pyhudi_core.orchestration.data import Giver
from pyhudi_core.orchestration.errors import definition_error
from pyhudi_core.orchestration.settings import Operation, write_asked_for
from pyhudi_dagster.lake import interrupts

_EVENTS = (
    "Return the rows; the event of their commit is made here. More metadata: context.add_asset_metadata({...}), "
    "or return dg.MaterializeResult(value=rows, metadata={...})."
)
_HOW = {
    **dict.fromkeys(("AssetMaterialization", "MaterializeResult", "ObserveResult"), _EVENTS),
    **dict.fromkeys(("DynamicOutput", "Output"), "Return its value. More metadata: context.add_asset_metadata({...})."),
    "AssetCheckResult": "Return the rows. A check before the commit is pre_commit=, a check after it is an @dg.asset_check.",
    "dict": "Return pyarrow.table(columns); for several tables use @hudi_multi_asset.",
}


def giver(name: str = "The asset") -> Giver:
    """Return the source of the rows for error messages, with advice what to return instead of Dagster's own values."""
    return Giver(name, _HOW, interrupts.claim)


@dataclass(frozen=True, slots=True)
class Request:
    """The return value of a function for one table: the write, or a process that makes the write; and additional metadata and tags."""

    write: Any
    metadata: Mapping[str, Any] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)


NO_REQUEST = Request(None)


def request_of(returned: Any, operation: Operation, key: dg.AssetKey, whose: str = "The write") -> Request:
    """Return the request for a returned value: rows, a `HudiWrite`, or one of Dagster's results with rows or a `HudiWrite` as its value.

    Raises `InvalidOptionError` for a result of another asset, and for a result with fields other than rows, metadata and tags.
    """
    metadata: Mapping[str, Any] = {}
    tags: Mapping[str, str] = {}
    if isinstance(returned, dg.Output) or (isinstance(returned, dg.MaterializeResult) and _has_rows(returned)):
        _refuse_more(returned, key)
        metadata, tags = returned.metadata or {}, returned.tags or {}
        returned = returned.value
    return Request(write_asked_for(returned, operation, whose), metadata, tags)


def _has_rows(result: dg.MaterializeResult[Any]) -> bool:
    """Say whether a result has a value. A result without one is an event, not data."""
    return result.value is not dg.MaterializeResult().value and result.value is not None


def _refuse_more(result: dg.Output[Any] | dg.MaterializeResult[Any], key: dg.AssetKey) -> None:
    name = type(result).__name__
    other = result.asset_key if isinstance(result, dg.MaterializeResult) else None
    if other not in (None, key):
        raise definition_error(
            f"The function of {key.to_user_string()} returned {name} of the asset {dg.AssetKey.from_coercible(other).to_user_string()}",
            "Leave asset_key out.",
        )
    if result.data_version is not None:
        raise definition_error(
            f"The function of {key.to_user_string()} returned {name} with a data_version",
            "Leave it out: the data version is the completion time of the commit, by which downstream assets run.",
        )
    if getattr(result, "check_results", None):
        raise definition_error(
            f"The function of {key.to_user_string()} returned {name} with check_results",
            "A check before the commit is pre_commit=, a check after it is an @dg.asset_check.",
        )
