"""The doctor under observation: every examination of a test goes through a storage that refuses to write, and leaves the folder as it was."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NoReturn

from pyhudi_core.runtime.base import Runtime
from pyhudi_core.runtime.system import system_runtime
from pyhudi_core.services.doctor import CheckOptions, CheckReport, Kind, check
from pyhudi_core.storage.local import LocalStorage
from pyhudi_core.transaction.home import TableHome
from support.disk import contents

WRITES = ("put", "put_if_absent", "put_if_match", "delete", "delete_if_match", "open_output", "remove_empty_folders")


class UnwritableStorage(LocalStorage):
    """A disk on which every call that changes something is a failure of the test."""


def _refuse(verb: str) -> Any:
    def refuse(self: UnwritableStorage, path: str, *rest: object) -> NoReturn:
        raise AssertionError(f"the doctor calls {verb} on {path}")

    return refuse


for _verb in WRITES:
    setattr(UnwritableStorage, _verb, _refuse(_verb))


def examine(
    location: str | Path, options: CheckOptions | None = None, runtime: Runtime | None = None, **given: Any
) -> CheckReport:
    """Examine a table on a disk; the folder is compared before and after."""
    before = contents(location)
    home = TableHome(UnwritableStorage(str(location), fsync=False), runtime or system_runtime(), given)
    report = check(home, options)
    assert contents(location) == before, "the doctor changed the table"
    assert_sound(report)
    return report


def assert_sound(report: CheckReport) -> CheckReport:
    """No examination broke, and none tried to write."""
    assert not report.of(Kind.EXAMINATION_FAILED), report
    assert "changes nothing" not in str(report.to_dict())
    return report


def kinds(report: CheckReport, *, info: bool = False) -> list[str]:
    """The kinds of the findings, each once, sorted; without mere information unless asked."""
    return sorted({str(found.kind) for found in report.findings if info or found.severity != "info"})
