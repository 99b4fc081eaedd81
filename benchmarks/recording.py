"""Hand figures to `make evidence`: each call is a line of the file that PYHUDI_EVIDENCE names; without it nothing is kept."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

PLACE = "PYHUDI_EVIDENCE"


def record(name: str, figures: Mapping[str, Any]) -> None:
    """Add entries to the figures of this name; values must be valid in JSON. Processes of one run may record at the same time."""
    if path := os.environ.get(PLACE):
        with open(path, "ab", buffering=0) as file:  # one write: lines of several processes do not mix
            file.write(json.dumps({name: figures}).encode() + b"\n")
