"""A disk that refuses: calls of the operating system that write below a folder fail with a given error."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

_NAMING = ("mkdir", "link", "replace")


@dataclass
class RefusingDisk:
    """Counts the calls that need room or change names below ``root``; from number ``first`` on (counted from 1), ``times`` of them fail with ``error``.

    Attributes:
        refused: the calls that failed: the verb, and the path.
    """

    root: str
    error: int = 0
    first: int = 0
    times: int = 1
    calls: int = 0
    refused: list[tuple[str, str]] = field(default_factory=list)

    def watch(self, monkeypatch: pytest.MonkeyPatch) -> RefusingDisk:
        write, open_ = os.write, os.open

        def writing(descriptor: int, data: Any) -> int:
            self._count("write", os.readlink(f"/proc/self/fd/{descriptor}"))
            return write(descriptor, data)

        def opening(path: Any, flags: int, *rest: Any, **more: Any) -> int:
            if flags & (os.O_CREAT | os.O_WRONLY):
                self._count("open", path)
            return open_(path, flags, *rest, **more)

        def naming(verb: str, real: Callable[..., None]) -> Callable[..., None]:
            def call(*paths: Any, **more: Any) -> None:
                self._count(verb, paths[-1] if isinstance(paths[-1], str) else paths[0])
                real(*paths, **more)

            return call

        monkeypatch.setattr(os, "write", writing)
        monkeypatch.setattr(os, "open", opening)
        for verb in _NAMING:
            monkeypatch.setattr(os, verb, naming(verb, getattr(os, verb)))
        return self

    def _count(self, verb: str, path: Any) -> None:
        if not str(path).startswith(self.root):
            return
        self.calls += 1
        if 0 < self.first <= self.calls < self.first + self.times:
            self.refused.append((verb, str(path)))
            raise OSError(self.error, os.strerror(self.error), path)
