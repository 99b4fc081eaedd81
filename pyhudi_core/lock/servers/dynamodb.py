"""The lock of Hudi's DynamoDBBasedLockProvider, so that Java and Python writers exclude each other; and times from DynamoDB.

Hudi uses Amazon's lock client: an item with the attributes ``key``, ``ownerName``, ``leaseDuration`` (milliseconds, as text) and
``recordVersionNumber``. The holder writes a new version number with each renewal. A waiting writer replaces the item if it has seen the same version
number for the length of the lease, on condition that the item still has this number. So clocks are never compared.

Rules of this package only: the owner's name is unique for each acquisition, so a request without an answer is recognized later; a
table object remembers what it has observed, so that a repeated call need not observe from the beginning; the lock of a dead process of this
machine is taken at once.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pyhudi_core.errors import InvalidOptionError
from pyhudi_core.lock.base import LockProvider
from pyhudi_core.lock.clients.dynamodb import KEY, DynamoDb
from pyhudi_core.lock.kind import LockKind, LockRequest, lock_option, served
from pyhudi_core.lock.observing import Observed
from pyhudi_core.lock.server import Acquisition, Contender, describe_holder
from pyhudi_core.runtime.base import Clock, Process

_OWNER = "ownerName"
_LEASE = "leaseDuration"
_VERSION = "recordVersionNumber"
_RELEASED = "isReleased"
_NOTE, _PROCESS, _TIME = "pyhudiNote", "pyhudiProcess", "pyhudiTime"
_SHORTEST_LEASE_MS = 2_000
_KEYS = "hoodie.write.lock.dynamodb."
_PACKAGE = "org.apache.hudi.aws.transaction.lock."


@dataclass(frozen=True, slots=True)
class DynamoDbOptions:
    """The location of the table and of the lock's item, and the settings for a new table. Credentials are not shown."""

    table: str = lock_option(
        f"{_KEYS}table", "", "The DynamoDB table of the locks; it is created if it does not exist."
    )
    key: str = lock_option(f"{_KEYS}partition_key", "", "The lock's key in that table; by default the table's name.")
    region: str = lock_option(f"{_KEYS}region", "", "The region; by default AWS_REGION, else us-east-1.")
    endpoint: str = lock_option(f"{_KEYS}endpoint_url", "", "The address of a DynamoDB server that is not Amazon's.")
    billing: str = lock_option(
        f"{_KEYS}billing_mode", "PAY_PER_REQUEST", "The billing mode of a table that is created.",
        choices={"pay_per_request": "PAY_PER_REQUEST", "provisioned": "PROVISIONED"})  # fmt: skip
    reads: int = lock_option(
        f"{_KEYS}read_capacity", 20, "Read capacity of a table that is created with PROVISIONED.", minimum=1
    )
    writes: int = lock_option(
        f"{_KEYS}write_capacity", 10, "Write capacity of a table that is created with PROVISIONED.", minimum=1
    )
    creation_ms: int = lock_option(
        f"{_KEYS}table_creation_timeout", 600_000, "Milliseconds to wait for a table that is created.", minimum=0
    )
    access_key: str = lock_option(
        "hoodie.aws.access.key", "",
        "The access key for DynamoDB. Without it boto3 finds the credentials (environment, profile, role).", secret=True)  # fmt: skip
    secret_key: str = lock_option("hoodie.aws.secret.key", "", "The secret key for DynamoDB.", secret=True)
    session_token: str = lock_option("hoodie.aws.session.token", "", "The session token for DynamoDB.", secret=True)

    def __post_init__(self) -> None:
        if "@" in self.endpoint:  # the message does not show the value, because it may have a password
            raise InvalidOptionError(
                f"{_KEYS}endpoint_url has a user or a password, which DynamoDB does not take there",
                hint="Write it as https://host:port, and the credentials as hoodie.aws.access.key and hoodie.aws.secret.key.",
            )


@dataclass(frozen=True, slots=True)
class DynamoDbLockServer:
    """A lock's item.

    Args:
        where: the table.
        key: the item.
        lease_ms: milliseconds that others wait for a new version number.
        clock: measures the observation times.
        process: reports whether a holder of this machine has ended.
        observed: the version numbers that this process has seen.
    """

    where: DynamoDb
    key: str
    lease_ms: int
    clock: Clock
    process: Process
    observed: Observed = field(default_factory=Observed, repr=False)

    @property
    def identity(self) -> str:
        return f"dynamodb:{self.where.address}/{self.key}"

    def acquisition(self, contender: Contender) -> Acquisition:
        return DynamoDbAcquisition(self, contender)

    def read(self) -> dict[str, str]:
        """Return the item's texts; empty if there is none."""
        answer = self.where.call("get_item", Key={KEY: {"S": self.key}}, ConsistentRead=True)
        item = (answer or {}).get("Item", {})
        return {name: str(value["S"]) for name, value in item.items() if "S" in value}


class DynamoDbAcquisition(Acquisition):
    """One acquisition of the item."""

    def __init__(self, server: DynamoDbLockServer, contender: Contender) -> None:
        self._server = server
        self._contender = contender
        self._owner = f"pyhudi {contender.token}"
        self._versions = 0

    @property
    def lease_s(self) -> float:
        return self._server.lease_ms / 1000

    def attempt(self) -> bool:
        seen = self._server.read()
        if not seen:
            return self._put("attribute_not_exists(#key)", {}, {"#key": KEY})
        if not self._may_take(seen):
            return False
        return self._put("#version = :seen", {":seen": {"S": seen.get(_VERSION, "")}}, {"#version": _VERSION})

    def renew(self) -> bool:
        answer = self._server.where.call(
            "update_item",
            Key={KEY: {"S": self._server.key}},
            UpdateExpression="SET #version = :version",
            ConditionExpression="#owner = :owner",
            ExpressionAttributeNames={"#version": _VERSION, "#owner": _OWNER},
            ExpressionAttributeValues={":version": {"S": self._next_version()}, ":owner": {"S": self._owner}},
        )
        return answer is not None

    def release(self) -> None:
        self._server.where.call(
            "delete_item",
            Key={KEY: {"S": self._server.key}},
            ConditionExpression="#owner = :owner",
            ExpressionAttributeNames={"#owner": _OWNER},
            ExpressionAttributeValues={":owner": {"S": self._owner}},
        )

    def holder(self) -> str:
        seen = self._server.read()
        if not seen or _RELEASED in seen:
            return ""
        process, note = seen.get(_PROCESS), seen.get(_NOTE, "")
        who = f"{seen.get(_OWNER)} (written by another tool)" if process is None else describe_holder(process, note)
        return f"{who}, with a lease of {seen.get(_LEASE)} ms"

    def _may_take(self, seen: Mapping[str, str]) -> bool:
        """Say whether the item is released, is ours, or has not been renewed for the length of its lease."""
        if _RELEASED in seen or seen.get(_OWNER) == self._owner:
            return True
        if _PROCESS in seen and self._server.process.is_gone(seen[_PROCESS]):
            return True
        version, now = seen.get(_VERSION, ""), self._server.clock.monotonic()
        unchanged_s = self._server.observed.unchanged_s(self._server.key, version, now)
        lease = seen.get(_LEASE, "")
        lease_ms = int(lease) if lease.isascii() and lease.isdigit() else self._server.lease_ms
        return unchanged_s > lease_ms / 1000

    def _put(self, condition: str, values: Mapping[str, Any], names: Mapping[str, str]) -> bool:
        item = {
            KEY: self._server.key,
            _OWNER: self._owner,
            _LEASE: str(self._server.lease_ms),
            _VERSION: self._next_version(),
            _NOTE: self._contender.note,
            _PROCESS: self._contender.process,
        }
        more = {"ExpressionAttributeValues": dict(values)} if values else {}
        answer = self._server.where.call(
            "put_item",
            Item={name: {"S": text} for name, text in item.items()},
            ConditionExpression=condition,
            ExpressionAttributeNames=dict(names),
            **more,
        )
        return answer is not None

    def _next_version(self) -> str:
        self._versions += 1
        return f"{self._contender.token}-{self._versions}"


@dataclass(frozen=True, slots=True)
class DynamoDbCounter:
    """Times that increase over all processes: a number in an item, which each request increases."""

    where: DynamoDb
    key: str

    def next_from(self, least: int) -> int:
        """Return a time above every time that was returned before, and at least ``least``. Raises `LockServerError`."""
        while True:
            answer = self._update("SET #time = :least", "attribute_not_exists(#time) OR #time < :least", least)
            if answer is None:
                answer = self._update("SET #time = #time + :one", "#time >= :least", least, one=True)
            if answer is not None:
                return int(answer["Attributes"][_TIME]["N"])

    def _update(self, change: str, condition: str, least: int, *, one: bool = False) -> Mapping[str, Any] | None:
        values = {":least": {"N": str(least)}, **({":one": {"N": "1"}} if one else {})}
        return self.where.call(
            "update_item",
            Key={KEY: {"S": self.key}},
            UpdateExpression=change,
            ConditionExpression=condition,
            ExpressionAttributeNames={"#time": _TIME},
            ExpressionAttributeValues=values,
            ReturnValues="UPDATED_NEW",
        )

    def close(self) -> None:
        """No connection belongs to the counter."""


def _table(request: LockRequest) -> DynamoDb:
    given = request.lock.of(DynamoDbOptions)
    _refuse_half_credentials(given)
    endpoint = given.endpoint
    return DynamoDb(
        given.table,
        given.region or os.environ.get("AWS_REGION") or "us-east-1",
        endpoint if "://" in endpoint or not endpoint else f"https://{endpoint}",
        request.request_s,
        given.creation_ms / 1000,
        given.billing,
        (given.reads, given.writes),
        given.access_key,
        given.secret_key,
        given.session_token,
    )


def _refuse_half_credentials(given: DynamoDbOptions) -> None:
    """Raise `InvalidOptionError` if only one half of the credentials is given.

    This is checked only for DynamoDB, because other parts of Hudi read these options, too.
    """
    keys = {"hoodie.aws.access.key": given.access_key, "hoodie.aws.secret.key": given.secret_key}
    missing = [key for key, value in keys.items() if not value]
    if len(missing) == 1 or (missing and given.session_token):
        raise InvalidOptionError(
            f"The credentials for DynamoDB are not complete: {' and '.join(missing)} is missing",
            hint="Give both keys, and the session token if they are temporary; or none, so that boto3 finds the credentials.",
        )


def _key(request: LockRequest) -> str:
    """Return the key that the options name."""
    return request.lock.of(DynamoDbOptions).key or request.name


def _lock(request: LockRequest) -> LockProvider:
    """Return the lock of the item that Hudi's provider of this name chooses."""
    key = request.implicit_key() if request.lock.provider == "dynamodb_implicit" else _key(request)
    runtime = request.runtime
    # Half of the wait, so that a waiting writer observes the end of a dead writer's lease.
    lease_ms = max(_SHORTEST_LEASE_MS, request.lock.wait_ms // 2)
    return served(request, DynamoDbLockServer(_table(request), key, lease_ms, runtime.clock, runtime.process))


def _counter(request: LockRequest) -> DynamoDbCounter:
    return DynamoDbCounter(_table(request), f"{_key(request)}.time")


LOCK = LockKind(
    {
        "dynamodb": f"{_PACKAGE}DynamoDBBasedLockProvider",
        "dynamodb_implicit": f"{_PACKAGE}DynamoDBBasedImplicitPartitionKeyLockProvider",
    },
    _lock,
    DynamoDbOptions,
    needs={"dynamodb": ("table",), "dynamodb_implicit": ("table",)},
    extra="dynamodb",
    on_server=True,
    counter=_counter,
)
