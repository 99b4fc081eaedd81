"""What the function of an asset may return, in Dagster's words."""

from __future__ import annotations

from pyhudi_core.orchestration.data import Giver

_EVENTS = "Return the rows; the event of their commit is made here. More metadata: context.add_asset_metadata({...})."
_HOW = {
    **dict.fromkeys(("AssetMaterialization", "MaterializeResult", "ObserveResult"), _EVENTS),
    **dict.fromkeys(("DynamicOutput", "Output"), "Return its value. More metadata: context.add_asset_metadata({...})."),
    "AssetCheckResult": "Return the rows. A check before the commit is pre_commit=, a check after it is an @dg.asset_check.",
    "dict": "Return pyarrow.table(columns); for several tables use @hudi_multi_asset.",
}


def giver(name: str = "The asset") -> Giver:
    """Who gives the rows, with what to return instead of Dagster's own values."""
    return Giver(name, _HOW)
