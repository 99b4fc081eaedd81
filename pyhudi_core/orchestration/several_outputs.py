"""The changes of upstream tables for several outputs of one function, whose tables may have read them up to different positions.

The table of each output stores its own positions in its own commits. The positions differ if a run published only some outputs: it failed between two
commits, or was started only for some outputs. Then the outputs that are behind catch up first: the function gets exactly their missing changes, up to
the position of the next output; the outputs that are ahead are not written in this run. So each output gets each change exactly once, for every
operation.

All inputs are read at the same time. So if an output is behind another output in one input, it is not ahead of that output in another input.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pyhudi_core.errors import SchemaMismatchError
from pyhudi_core.orchestration import checkpoints
from pyhudi_core.orchestration.checkpoints import Positions
from pyhudi_core.orchestration.errors import definition_error
from pyhudi_core.orchestration.incremental import Changes, Reader, changes_from

if TYPE_CHECKING:
    from pyhudi_core.table import HudiTable

Upstream = Mapping[str, tuple[str, "HudiTable"]]
"""For each parameter of the function: the name of its input table, and the table."""


@dataclass(frozen=True, slots=True)
class SharedChanges:
    """The changes that a function reads in this run, and the outputs for which it reads them.

    Attributes:
        given: the changes for each parameter of the function.
        of_outputs: the same changes with the position of each written output, by output name.
        ahead: the outputs that already have these changes, and wait for the next run.
    """

    given: Mapping[str, Changes] = field(default_factory=dict)
    of_outputs: Mapping[str, tuple[Changes, ...]] = field(default_factory=dict)
    ahead: tuple[str, ...] = ()

    @property
    def is_nothing_new(self) -> bool:
        """Whether there are inputs, and none of them has changed."""
        return bool(self.given) and not any(self.given.values())


@dataclass(frozen=True, slots=True)
class _Output:
    name: str
    reader: Reader
    known: Positions
    positions: tuple[str, ...]


def rows_by_table(returned: Any, names: Collection[str], whose: str) -> Mapping[str, Any]:
    """Return the value of a function of several tables, by table name; None means no rows. ``whose``: the subject of error messages,
    such as ``The function of a, b``.

    Raises `SchemaMismatchError` if the value does not assign rows to tables, and `InvalidOptionError` for an unknown table.
    """
    given = {} if returned is None else returned
    if not isinstance(given, Mapping):
        raise SchemaMismatchError(
            f"{whose} returned {type(given).__qualname__}, which does not say what belongs to which table",
            hint=f"Return a dict, such as {{{next(iter(names))!r}: rows}}. A table without an entry is not written.",
        )
    unknown = sorted(map(str, set(given) - set(names)))
    if unknown:
        raise definition_error(
            f"{whose} returned rows for {', '.join(unknown)}, but its decorator names no such table",
            f"The tables are {', '.join(names)}.",
        )
    return given


def shared_changes(upstream: Upstream, outputs: Mapping[str, tuple[HudiTable | None, Reader]]) -> SharedChanges:
    """Return the changes that the outputs furthest behind have not read. Each output is its table, if it exists, and its reader."""
    if not upstream:
        return SharedChanges(of_outputs=dict.fromkeys(outputs, ()))
    waiting = [_output(name, upstream, table, reader) for name, (table, reader) in outputs.items()]
    waiting.sort(key=lambda output: output.positions)  # stable: outputs at the same position keep their order
    behind: list[_Output] = []
    while True:
        positions = waiting[0].positions
        while waiting and waiting[0].positions == positions:
            behind.append(waiting.pop(0))
        found = _changes(upstream, behind[0], waiting)
        # Nothing has changed up to the next position, so the outputs at that position have read the same changes.
        if any(found.values()) or not waiting:
            break
    order = list(outputs)
    behind.sort(key=lambda output: order.index(output.name))
    of_outputs = {
        output.name: tuple(replace(changes, known=output.known, reader=output.reader) for changes in found.values())
        for output in behind
    }
    return SharedChanges(found, of_outputs, tuple(output.name for output in waiting))


def _output(name: str, upstream: Upstream, table: HudiTable | None, reader: Reader) -> _Output:
    known = checkpoints.positions_of(table)
    positions = tuple(known.of(source, reader.asset).after(reader.keys) or "" for source, _ in upstream.values())
    return _Output(name, reader, known, positions)


def _changes(upstream: Upstream, first: _Output, ahead: Sequence[_Output]) -> dict[str, Changes]:
    found = {}
    for number, (parameter, (name, table)) in enumerate(upstream.items()):
        next_one = ahead[0].positions[number] if ahead else None
        until = None if next_one is None else max(next_one, first.positions[number])
        found[parameter] = changes_from(name, table, first.known, first.reader, until)
    return found
