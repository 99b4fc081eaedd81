"""Writes on behalf of another process: it sends a request, and permits the commit. `commit_for` runs on the remote side."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import pyarrow as pa

from pyhudi_core.errors import CommitAbortedError, InvalidOptionError, TableExistsError, TableNotFoundError
from pyhudi_core.model.masking import takes_options
from pyhudi_core.naming import set_module
from pyhudi_core.opening import open_table
from pyhudi_core.options import options_for_open, without_secrets
from pyhudi_core.orchestration.first_writes import new_tables
from pyhudi_core.orchestration.remote_gate import RemoteGate
from pyhudi_core.orchestration.settings import TableSettings
from pyhudi_core.runtime import system_runtime
from pyhudi_core.storage import open_storage
from pyhudi_core.table import HudiTable
from pyhudi_core.transaction.decision import PreparationNeeded
from pyhudi_core.validators import Validator
from pyhudi_core.write.handle import Write, commit_with_retries
from pyhudi_core.write.result import Commit

_VERSION = 1
_RENEWALS = 3
"""How often a permission that expired during the wait for the lock is requested again."""


@dataclass(frozen=True, slots=True)
class WriteRequest:
    """A request to another process to write. It has no credentials, so it can be sent as plain JSON.

    Attributes:
        table: location of the table.
        gate: location of the folder that the `RemoteGate` uses.
        operation: the write operation.
        record_key, partition_by, ordering, table_type, schema: used to create the table if it does not exist.
        options: options of the table, of the write and of its lock. Secrets among them are dropped: give them to `commit_for`.
        extra_metadata: entries of the commit, by which the other process finds it.
        wait_s: seconds to wait for the permission to commit.
    """

    table: str
    gate: str
    operation: str
    record_key: tuple[str, ...] = ()
    partition_by: tuple[str, ...] = ()
    ordering: str | None = None
    table_type: str | None = None
    schema: str = ""
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    extra_metadata: Mapping[str, str] = field(default_factory=dict)
    wait_s: float = 120.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "options", without_secrets(self.options))

    def to_json(self) -> dict[str, Any]:
        """Return the request as JSON."""
        return {"version": _VERSION, **asdict(self)}

    @classmethod
    def of_json(cls, found: Mapping[str, Any]) -> WriteRequest:
        """Parse a request from JSON. Raises `InvalidOptionError` if the value is not a request, or a request of a later release."""
        entries = dict(found) if isinstance(found, Mapping) else {}
        if entries.pop("version", None) != _VERSION or set(entries) != set(cls.__dataclass_fields__):
            raise InvalidOptionError(
                "This is no request that this release can carry out",
                hint="Pass pipes.get_extra('hudi') of a step that returned HudiPipes, and use the same release of pyhudi on both sides.",
            )
        names = ("record_key", "partition_by")
        return cls(**{**entries, **{name: tuple(entries[name]) for name in names}})


@takes_options
def open_gate(location: str, storage_options: Mapping[str, str] | None = None) -> RemoteGate:
    """Return the gate that uses a folder."""
    return RemoteGate(open_storage(location, storage_options or {}), system_runtime().clock)


def schema_text(schema: pa.Schema) -> str:
    """Return a schema as text, for `WriteRequest.schema`."""
    return base64.b64encode(schema.serialize().to_pybytes()).decode()


@set_module("pyhudi")
@takes_options
def commit_for(
    request: WriteRequest | Mapping[str, Any],
    data: Any,
    *,
    storage_options: Mapping[str, str] | None = None,
    options: Mapping[str, str] | None = None,
    pre_commit: Sequence[Validator] = (),
) -> Commit:
    """Write rows for a request, and commit when its sender permits it. The table is created if it does not exist.

    Args:
        request: the sender's request, such as ``pipes.get_extra("hudi")`` of a Dagster step.
        data: Arrow data or a Spark DataFrame.
        storage_options: credentials and other options of the storage on this machine.
        options: options that the request lacks because they are secret, such as ``pyhudi.lock.sql.url``; they override the request's options.
        pre_commit: validators of this commit.

    Raises `CommitAbortedError` if the sender refuses the commit or does not answer; then nothing is published. Otherwise as `HudiTable.upsert`.
    """
    asked = request if isinstance(request, WriteRequest) else WriteRequest.of_json(request)
    gate, clock = open_gate(asked.gate, storage_options), system_runtime().clock
    began = staged = clock.monotonic()

    def planned() -> None:
        nonlocal staged
        staged = clock.monotonic()
        asking.ask()

    with new_tables() as new:
        table = _table(asked, {**asked.options, **(options or {})}, data, storage_options or {}, new)
        write = table.begin(asked.operation, extra_metadata=asked.extra_metadata, pre_commit=list(pre_commit))
        asking, began = _Asking(write, gate, asked.wait_s), clock.monotonic()
        with write:
            commit = commit_with_retries(write, lambda: write.write(data), asking.gate, planned)
    if commit:
        figures = {"lock_wait": commit.lock_wait, "lock_held": commit.lock_held, "retries": commit.retries}
        times = {"write_seconds": staged - began, "commit_seconds": clock.monotonic() - staged}
        gate.leave_note({"instant": commit.instant, **figures, **times})
    return commit


@dataclass(slots=True)
class _Asking:
    """Asks for the permission of one write: before the wait for the lock, and again if the permission has expired when the lock is acquired."""

    write: Write
    remote: RemoteGate
    wait_s: float
    renewals: int = 0

    def ask(self) -> None:
        """Wait for the permission. Raises `CommitAbortedError`."""
        stats = self.write.stats
        facts = {"instant": self.write.instant, "partitions": stats.partitions, "rows": stats.rows_written}
        self.remote.ask(facts, self.wait_s)

    def gate(self) -> bool:
        """Check the permission under the lock.

        Raises `PreparationNeeded` to ask again without the lock, and `CommitAbortedError` if the permission was withdrawn.
        """
        if self.remote.is_valid():
            return True
        if self.renewals == _RENEWALS:
            raise CommitAbortedError(
                f"The permission to commit grew old {_RENEWALS + 1} times before the table's lock was held",
                hint="Nothing was published. Write again when fewer writers wait for the lock.",
            )
        self.renewals += 1
        raise PreparationNeeded(self.ask)


def _table(
    asked: WriteRequest,
    options: Mapping[str, str],
    data: Any,
    storage_options: Mapping[str, str],
    new: list[HudiTable],
) -> HudiTable:
    """Open the table, or create it, and add it to ``new``."""
    opening = options_for_open(options)
    try:
        return open_table(asked.table, storage_options, opening)
    except TableNotFoundError:
        pass
    schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(asked.schema))) if asked.schema else data.schema
    settings = TableSettings(asked.record_key, asked.partition_by, asked.ordering, asked.table_type)
    try:
        new.append(settings.create(asked.table, schema, asked.operation, options, storage_options))
    except TableExistsError:  # another writer created it first
        return open_table(asked.table, storage_options, opening)
    return new[-1]
