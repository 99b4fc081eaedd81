"""The protections of the commit protocol, as switches that only ``pyhudi_core.testing`` turns off.

Each stands for one column of the table of configurations in the model-checking study of Hudi's concurrency control; the tests switch one off and
must see the failure that it prevents.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Protections:
    """All on by default."""

    conflict_check: bool = True
    key_check: bool = True
    commit_record: bool = True
    roll_forward: bool = True
    reservation: bool = True
