"""What a write published on a disk survives a power failure: every file is made durable before it has its name, and its folder after."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from support.tables import ORDERS, create_plain, orders

from pyhudi_core.storage import LocalStorage


@dataclass
class Disk:
    """The calls that count, in their order: what was made durable, and which names appeared."""

    calls: list[tuple[str, str, int]] = field(default_factory=list)
    """(fsync, path, size) and (name, path, size)."""

    def watch(self, monkeypatch: pytest.MonkeyPatch) -> Disk:
        def fsync(descriptor: int, real: Any = os.fsync) -> None:
            path = os.readlink(f"/proc/self/fd/{descriptor}")
            self.calls.append(("fsync", path, os.fstat(descriptor).st_size))
            real(descriptor)

        def naming(real: Any) -> Any:
            def call(source: str, target: str) -> None:
                self.calls.append(("source", str(source), os.stat(source).st_size))
                self.calls.append(("name", str(target), os.stat(source).st_size))
                real(source, target)

            return call

        def mkdir(path: str, *mode: int, real: Any = os.mkdir) -> None:
            real(path, *mode)
            self.calls.append(("name", str(path), -1))

        monkeypatch.setattr(os, "fsync", fsync)
        for verb in ("replace", "rename", "link"):
            monkeypatch.setattr(os, verb, naming(getattr(os, verb)))
        monkeypatch.setattr(os, "mkdir", mkdir)
        return self

    def named(self) -> list[str]:
        """The files that appeared, by their final names."""
        return [path for verb, path, size in self.calls if verb == "name" and size >= 0]

    def forgotten(self) -> list[str]:
        """What a power failure could take: a file whose bytes, or a name that its folder, had not been made durable."""
        lost = []
        for place, (verb, path, size) in enumerate(self.calls):
            if verb == "source" and ("fsync", path, size) not in self.calls[:place]:
                lost.append(f"the bytes of {self.calls[place + 1][1]}")
            folder = os.path.dirname(path)
            after = {(verb, path) for verb, path, _ in self.calls[place:]}
            if verb == "name" and ("fsync", folder) not in after:
                lost.append(f"the name of {path}")
        return lost


@pytest.mark.row("T3")
def test_whatever_a_commit_publishes_on_a_disk_is_durable(location: str, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk().watch(monkeypatch)
    table = create_plain(location, ORDERS, "id", "day")
    table.upsert(orders((1, "a", 1.0), (2, "b", 2.0)))
    table.upsert(orders((1, "a", 5.0)))
    monkeypatch.undo()
    locks = {str(Path(location, ".hoodie", "lock"))}  # a lock means nothing after a power failure
    named = [path for path in disk.named() if path not in locks]
    assert sum(path.endswith(".parquet") for path in named) == 3
    assert sum(path.endswith(".commit") for path in named) == 2
    assert any("commit_record" in path for path in named) and any(path.endswith(".properties") for path in named)
    assert [lost for lost in disk.forgotten() if not any(lost.endswith(lock) for lock in locks)] == []


def test_every_way_to_write_an_object_makes_it_durable_unless_it_is_told_not_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for fsync in (True, False):
        disk = Disk().watch(monkeypatch)
        storage = LocalStorage(str(tmp_path / str(fsync)), fsync=fsync)
        storage.put("a/put", b"1")
        storage.put_if_absent("b/once", b"2")
        output = storage.open_output("c/d/output")
        output.stream.write(b"3" * 3_000_000)  # more than the stream keeps back
        output.close()
        monkeypatch.undo()
        assert len(disk.named()) == 3
        assert bool(disk.forgotten()) is not fsync, disk.forgotten()
        assert fsync or not [call for call in disk.calls if call[0] == "fsync"]
