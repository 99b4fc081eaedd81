"""Tables of the COMPLEX generator over one column: releases of Hudi write `value` or `column:value` as keys."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import pyhudi_core as hudi
from pyhudi_core.write import key_form
from support.tables import make, orders


def say_generator(location: str, said: str, then: str = "type=SIMPLE") -> None:
    """Replace the key generator in the properties of a table. ``then``: what `make` wrote."""
    path = Path(location, ".hoodie/hoodie.properties")
    path.write_text(path.read_text().replace(f"keygenerator.{then}", f"keygenerator.{said}"))


def complex_table(location: str, monkeypatch: pytest.MonkeyPatch, *, prefixed: bool, **made: Any) -> hudi.HudiTable:
    """A table of a release of Hudi, with the rows 1 and 2: 1.1 and newer write the prefix. ``made``: see `make`."""
    make(location, **made)
    say_generator(location, "type=COMPLEX")
    with monkeypatch.context() as patched:
        patched.setattr(key_form, "has_prefixed_keys", lambda context, snapshot: prefixed)
        hudi.open_table(location, options=made.get("options")).upsert(orders((1, "a", 1.0), (2, "a", 2.0)))
    return hudi.open_table(location, options=made.get("options"))
