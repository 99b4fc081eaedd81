"""The emulator of S3, but with conditional writes that are one step, as S3's are.

moto looks at the condition and then writes, and another of its threads may write in between: two swaps of one object then both succeed. Under load
that happens, and what is tested would look wrong.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

from moto.s3.responses import S3Response

_WRITES = ("_key_response_put", "_key_response_post", "_key_response_delete")
_one_at_a_time = threading.RLock()


@contextmanager
def writes_in_one_step() -> Iterator[None]:
    """Inside, the emulators of this process finish one write before they begin the next."""
    real = {name: getattr(S3Response, name) for name in _WRITES}
    for name, method in real.items():
        setattr(S3Response, name, _guarded(method))
    try:
        yield
    finally:
        for name, method in real.items():
            setattr(S3Response, name, method)


def _guarded(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def guarded(*arguments: Any, **named: Any) -> Any:
        with _one_at_a_time:
            return method(*arguments, **named)

    return guarded
