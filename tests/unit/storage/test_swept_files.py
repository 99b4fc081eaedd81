"""Hidden files of a process that stood still, which somebody swept meanwhile as those of a dead one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pyhudi_core.runtime.system import SystemClock
from pyhudi_core.storage import local_files
from pyhudi_core.storage.local import LocalStorage


def test_a_file_that_was_swept_before_it_was_marked_is_begun_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that stands still between the creation of a hidden file and its mark comes back to a name that is gone."""
    storage = LocalStorage(str(tmp_path), fsync=False)
    real, swept = local_files.fcntl.flock, []

    def sleeping(descriptor: int, operation: int) -> None:
        if operation == local_files.fcntl.LOCK_SH and not swept:
            swept.append(1)  # first: the sweeper marks what it looks at, too
            swept.extend(storage.sweep_temporaries("", -60_000, SystemClock().now_ms()))
        real(descriptor, operation)

    monkeypatch.setattr(local_files.fcntl, "flock", sleeping)
    file = storage.open_output("part/file")
    assert len(swept) == 2
    file.stream.write(b"all")
    assert not storage.sweep_temporaries("", -60_000, SystemClock().now_ms()), "a file that is being written"
    file.close()
    assert storage.get("part/file") == b"all"


@pytest.mark.parametrize("verb", ["put", "put_if_absent"])
def test_an_object_whose_hidden_file_was_swept_is_written_again(
    verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same for small objects: nothing has happened yet, so it is no error, least of all "there is no object"."""
    storage = LocalStorage(str(tmp_path), fsync=False)
    name = "publish_replacing" if verb == "put" else "publish_if_absent"
    real, swept = getattr(local_files, name), []

    def sleeping(*arguments: Any) -> None:
        if not swept:
            swept.extend(storage.sweep_temporaries("", -60_000, SystemClock().now_ms()))
            storage.remove_empty_folders("a")
        real(*arguments)

    monkeypatch.setattr(local_files, name, sleeping)
    getattr(storage, verb)("a/b/object", b"all")
    assert swept
    assert storage.get("a/b/object") == b"all"
