"""Good tables of several kinds, and the changes of their files that somebody makes who wants to harm their reader. See ``hostile_tables``."""

from __future__ import annotations

import functools
import os
import random
import re
import shutil
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

import pyhudi_core as hudi
from support.fuzzing import damaged
from support.golden import unpack
from support.special_files import NO_FILES
from support.tables import FAST, make, orders, reopen

_MOST_READ = 4 << 20
"""More than the files of good tables have."""
GOLDEN = ("cow_archived", "mor_avro", "mor_indexed", "cow_rich_types")


# --- good tables


def merge_on_read(place: str) -> None:
    """Logs, an index, history, a savepoint, a hold, a pending compaction, an unfinished write."""
    made = make(place, table_type="merge_on_read", options={"hoodie.metadata.enable": True})
    made.upsert(orders((1, "a", 1.0), (2, "b", 2.0)))
    made.indexes.create("by_ts", "ts")
    for price in range(4):
        made.upsert(orders((1, "a", 3.0 + price)))
    made.savepoints.create()
    made.holds.create(seconds=10_000_000)
    made.compaction.schedule()
    made.upsert(orders((3, "a", 3.0)))
    reopen(
        made, hoodie__keep__min__commits=3, hoodie__keep__max__commits=4, hoodie__clean__commits__retained=1
    ).archival.run()
    left = made.begin("upsert")
    left.__enter__()
    left.write(orders((9, "c", 1.0)))
    shutil.copytree(place, f"{place}.frozen")
    left.__exit__(None, None, None)
    shutil.rmtree(place)
    os.rename(f"{place}.frozen", place)


def copy_on_write(place: str) -> None:
    """Filters and ranges of columns, a clustering, a cleaning, a rollback."""
    made = make(place, options={"hoodie.metadata.enable": True})
    for number in range(4):
        made.upsert(orders((number, "a", 1.0), (number, "b", 2.0)))
    made.indexes.create("bloom_filters", if_not_exists=True)
    made.clustering.run()
    reopen(made, hoodie__clean__commits__retained=1).cleaning.run()
    made.clustering.schedule()


def bootstrapped(place: str) -> None:
    """Skeletons, whose rows are in another folder."""
    source = Path(place).parent / "source"
    if not source.exists():
        source.mkdir()
        pq.write_table(orders((1, "a", 1.0), (2, "b", 2.0)), source / "rows.parquet")
    hudi.bootstrap(str(source), place, "id", mode="METADATA_ONLY", storage_options=FAST)


MAKERS: dict[str, Callable[[str], Any]] = {
    "merge_on_read": merge_on_read,
    "copy_on_write": copy_on_write,
    "bootstrapped": bootstrapped,
    **{name: functools.partial(unpack, f"hudi-1.0.2/{name}") for name in GOLDEN},
}


# --- changes


def change(table: Path, outside: Path, chance: random.Random) -> str:
    """Change one file of the table; says how."""
    folders: dict[str, list[str]] = {}
    for place, _, names in os.walk(table):
        if regular := sorted(name for name in names if stat.S_ISREG(os.lstat(f"{place}/{name}").st_mode)):
            folders[place] = regular
    if not folders:
        return "nothing is left"
    # The files of each folder are as likely as those of another, because data files would be most.
    folder = chance.choice(sorted(folders))
    file = Path(folder, chance.choice(folders[folder]))
    how = chance.choice(CHANGES)
    files = [Path(folder, name) for folder in sorted(folders) for name in folders[folder]]
    what = how(file, files, outside, chance)
    return f"{how.__name__[1:]} {file.relative_to(table)}{': ' + what if what else ''}"


def _write(file: Path, data: bytes) -> None:
    """Give a file new bytes; the table it was copied from keeps the old ones. The size of a huge file stays."""
    size = file.stat().st_size if file.exists() else 0
    file.unlink(missing_ok=True)
    file.write_bytes(data)
    if size > _MOST_READ:
        os.truncate(file, size)


def _read(file: Path) -> bytes:
    """Return the bytes of a file. An earlier change may have made it 8 GB of nothing: then its begin."""
    with file.open("rb") as opened:
        return opened.read(_MOST_READ)


def _bytes(file: Path, files: list[Path], outside: Path, chance: random.Random) -> str:
    data = _read(file)
    _write(file, damaged([data or b"\0"], chance.randrange(1 << 30), [slice(0, 300), slice(-2000, None)]))
    return ""


def _bytes_of_another(file: Path, files: list[Path], outside: Path, chance: random.Random) -> str:
    other = chance.choice(files)
    _write(file, _read(other))
    return str(other.name)


def _path(file: Path, files: list[Path], outside: Path, chance: random.Random) -> str:
    """Let a text that may be a path lead outside, with as many bytes as before."""
    data = _read(file)
    found = list(re.finditer(rb"[\w=.-][\w=./:-]{3,300}", data))
    if not found:
        return "has no text"
    match = chance.choice(found)
    name = str(outside / "f.parquet").encode()
    path = chance.choice((b"../outside/f.parquet", b"../../outside/f.parquet", name, b"file://" + name, b"..%2foutside%2ff.parquet", b"..", b"/dev/zero",
                          b"\\..\\..\\outside", b"/", b"//", b"\0", b"s3://bucket/x", b"a/../../outside/f.parquet"))  # fmt: skip
    size = len(match.group())
    if chance.random() < 0.7:
        path = (path + b"/." * size)[:size] if len(path) < size else path[:size]
    _write(file, data[: match.start()] + path + data[match.end() :])
    return f"{match.group()[:60]!r} is {path[:60]!r}"


def _property(file: Path, files: list[Path], outside: Path, chance: random.Random) -> str:
    """Let a value of the properties be another one."""
    properties = next((path for path in files if path.name == "hoodie.properties"), file)
    lines = _read(properties).decode(errors="replace").splitlines()
    if not lines:
        return ""
    number = chance.randrange(len(lines))
    key = lines[number].partition("=")[0]
    value = chance.choice(("", "../../outside", str(outside), "true", "-1", "9" * 40, "os.system", "../timeline", "$(touch x)", "a" * 100_000, "MERGE_ON_READ",
                           "org.apache.hudi.keygen.CustomKeyGenerator", "CUSTOM", "\\u0000", "%00", "a,b,c", "JSON", "id:timestamp"))  # fmt: skip
    lines[number] = f"{key}={value}"
    _write(properties, ("\n".join(lines) + "\n").encode())
    return lines[number][:80]


def _name(file: Path, files: list[Path], outside: Path, chance: random.Random) -> str:
    """Let the file have another name, or a copy of it."""
    name = file.name
    numbers = list(re.finditer(r"\d+", name))
    new = chance.choice((name + "x", "%2e%2e%2foutside", name[::-1], name.upper(), ".." + name, "a" * 200, "é\u202e" + name, name.replace("_", "__"),
                         name.replace(".", ".."), " ", "-", "a\nb", *(name[: m.start()] + str(chance.choice((0, 9**17, 1))) + name[m.end() :] for m in numbers)))  # fmt: skip
    new = new[:200]
    if chance.random() < 0.5 and not (file.parent / new).exists():
        _write(file.parent / new, _read(file))
    else:
        with suppress(OSError):
            file.rename(file.parent / new)
    return repr(new[:80])


def _size(file: Path, files: list[Path], outside: Path, chance: random.Random) -> str:
    size = file.stat().st_size
    new = chance.choice((0, 1, size // 2, max(size - 1, 0), size + 1, size + 4096, 1 << 20, 300 << 20, 8 << 30))
    _write(file, _read(file))
    os.truncate(file, new)
    return str(new)


def _kind(file: Path, files: list[Path], outside: Path, chance: random.Random) -> str:
    kind = chance.choice(list(NO_FILES))
    file.unlink()
    NO_FILES[kind](file)
    return kind


def _link(file: Path, files: list[Path], outside: Path, chance: random.Random) -> str:
    """Let the file, or its folder, be a link that leads outside."""
    if chance.random() < 0.3 and file.parent.name not in (outside.parent.name, "table"):
        folder = file.parent
        shutil.rmtree(folder)
        folder.symlink_to(chance.choice((outside, Path("/"), Path("/dev"), Path("..", "..", "outside"))))
        return f"{folder.name} is a link to {os.readlink(folder)}"
    file.unlink()
    file.symlink_to(
        chance.choice(
            (
                outside / "f.parquet",
                outside / "hoodie.properties",
                outside,
                Path("/etc/passwd"),
                file.parent,
                Path("/proc/self/mem"),
            )
        )
    )
    return os.readlink(file)


def _none(file: Path, files: list[Path], outside: Path, chance: random.Random) -> str:
    file.unlink()
    return ""


CHANGES = (
    _bytes,
    _bytes,
    _bytes,
    _bytes_of_another,
    _path,
    _path,
    _path,
    _property,
    _name,
    _size,
    _kind,
    _link,
    _none,
)
