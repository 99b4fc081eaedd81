"""The machine's clock and sources of randomness."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from pyhudi_core.lazy import lazy

if TYPE_CHECKING:
    import secrets
    import uuid
else:
    secrets, uuid = lazy("secrets"), lazy("uuid")


class SystemClock:
    """The clock of this machine."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(max(0.0, seconds))


class RandomIds:
    """Identifiers from the operating system's source of randomness."""

    def uuid(self) -> str:
        return str(uuid.uuid4())

    def below(self, bound: int) -> int:
        return secrets.randbelow(bound)
