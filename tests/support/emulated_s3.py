"""The S3 emulator moto with atomic requests, as in S3.

moto looks at the condition and then writes, and another of its threads may write in between: two swaps of one object then both succeed. And it reads
an object that another thread has replaced meanwhile: a closed file. Under load both happen, and what is tested would look wrong.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

from moto.s3.responses import S3Response

_REQUESTS = ("_key_response_get", "_key_response_put", "_key_response_post", "_key_response_delete")
_one_at_a_time = threading.RLock()


@contextmanager
def one_request_at_a_time() -> Iterator[None]:
    """Inside the block, the emulators of this process finish a request for an object before they begin the next."""
    real = {name: getattr(S3Response, name) for name in _REQUESTS}
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
