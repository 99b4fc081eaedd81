"""The lock of Hudi's DynamoDBBasedLockProvider, so that Java and Python writers exclude each other; and times from DynamoDB.

Hudi uses Amazon's lock client: an item with the attributes ``key``, ``ownerName``, ``leaseDuration`` (milliseconds, as text) and
``recordVersionNumber``. Its holder writes a new version number with each renewal. Whoever waits and has seen one version number for the length of
the lease replaces the item, on condition that it still has this number. So no two clocks are ever compared.

Rules of this package only: the owner's name is unique for each acquisition, so a request without an answer is recognized later; a
table object remembers what it has observed, so that a repeated call need not observe from the beginning; the lock of a dead process of this
machine is taken at once.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from pyhudi_core.errors import LockServerError, from_extra
from pyhudi_core.lock.observing import Observed
from pyhudi_core.lock.server import Claim, Claimant, describe_process
from pyhudi_core.runtime.base import Clock, Process

_KEY = "key"
_OWNER = "ownerName"
_LEASE = "leaseDuration"
_VERSION = "recordVersionNumber"
_RELEASED = "isReleased"
_NOTE, _PROCESS, _TIME = "pyhudiNote", "pyhudiProcess", "pyhudiTime"


@dataclass(frozen=True, slots=True)
class DynamoDb:
    """Where the table is, and how to get there. Without keys boto3 finds the credentials.

    Attributes:
        table: the table; it is created if it does not exist, with the billing mode and capacities.
        request_s: seconds to wait for a connection, and for each answer.
        creation_s: seconds to wait until a created table can be used.
    """

    table: str
    region: str
    endpoint: str
    request_s: float
    creation_s: float
    billing: str
    capacity: tuple[int, int]
    access_key: str = field(default="", repr=False)
    secret_key: str = field(default="", repr=False)
    session_token: str = field(default="", repr=False)

    @property
    def address(self) -> str:
        return f"{self.endpoint or self.region}/{self.table}"

    def call(self, method: str, **request: Any) -> Mapping[str, Any] | None:
        """Send one request about the table, which is created if it is missing; None if a condition failed. Raises `LockServerError`."""
        found = self._send(method, request)
        if found == "ResourceNotFoundException":
            self._create()
            found = self._send(method, request)
        if isinstance(found, str) and found != "ConditionalCheckFailedException":
            raise self.error(found)
        return None if isinstance(found, str) else found

    def _send(self, method: str, request: Mapping[str, Any]) -> Mapping[str, Any] | str:
        """The answer, or the code of a refusal that says something about the table or the item."""
        client, client_error, _ = self._client()
        with self._errors():
            try:
                answer: Mapping[str, Any] = getattr(client, method)(TableName=self.table, **request)
            except client_error as error:
                code = str(error.response["Error"]["Code"])  # type: ignore[attr-defined]
                if code in ("ResourceNotFoundException", "ConditionalCheckFailedException", "ResourceInUseException"):
                    return code
                raise
        return answer

    def _create(self) -> None:
        capacity = {"ReadCapacityUnits": self.capacity[0], "WriteCapacityUnits": self.capacity[1]}
        more: dict[str, Any] = {"ProvisionedThroughput": capacity} if self.billing == "PROVISIONED" else {}
        self._send(
            "create_table",
            {
                "KeySchema": [{"AttributeName": _KEY, "KeyType": "HASH"}],
                "AttributeDefinitions": [{"AttributeName": _KEY, "AttributeType": "S"}],
                "BillingMode": self.billing,
                **more,
            },
        )
        with self._errors():
            waiter = self._client()[0].get_waiter("table_exists")
            waiter.wait(TableName=self.table, WaiterConfig={"Delay": 1, "MaxAttempts": max(1, int(self.creation_s))})

    def _client(self) -> tuple[Any, type[Exception], type[Exception]]:
        surroundings = tuple(sorted((name, text) for name, text in os.environ.items() if name.startswith("AWS_")))
        return _client(self, surroundings, os.getpid())

    @contextmanager
    def _errors(self) -> Iterator[None]:
        _, client_error, core_error = self._client()
        try:
            yield
        except client_error as error:
            found = error.response["Error"]  # type: ignore[attr-defined]
            raise self.error(f"{found.get('Code', '')} {found.get('Message', '')}") from None
        except core_error as error:
            raise self.error(str(error)) from None

    def error(self, text: str) -> LockServerError:
        """The error for a failure that boto3 describes with this text."""
        return LockServerError(
            f"DynamoDB ({self.address}) failed: {text}".rstrip(),
            hint="Check the region or endpoint, the network, and that the credentials may read and write the table of the locks.",
        )


@lru_cache(maxsize=16)
def _client(
    where: DynamoDb, surroundings: tuple[tuple[str, str], ...], pid: int
) -> tuple[Any, type[Exception], type[Exception]]:
    """boto3's client, which sends each request once, and its two kinds of errors. Raises `LockServerError` if boto3 cannot make one."""
    with from_extra("dynamodb", "The dynamodb lock"):
        import boto3  # noqa: PLC0415 (an extra)
        from botocore.config import Config  # noqa: PLC0415
        from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415

    waits = Config(retries={"total_max_attempts": 1}, connect_timeout=where.request_s, read_timeout=where.request_s)
    try:
        client = boto3.client(
            "dynamodb",
            region_name=where.region,
            endpoint_url=where.endpoint or None,
            aws_access_key_id=where.access_key or None,
            aws_secret_access_key=where.secret_key or None,
            aws_session_token=where.session_token or None,
            config=waits,
        )
    except (BotoCoreError, ValueError) as error:
        # For example half of the credentials in the environment, or a wrong endpoint.
        raise where.error(str(error)) from None
    return client, ClientError, BotoCoreError


@dataclass(frozen=True, slots=True)
class DynamoDbLockServer:
    """A lock's item.

    Args:
        where: the table.
        key: the item.
        lease_ms: milliseconds that others wait for a new version number.
        clock: measures what is observed.
        process: reports whether a holder of this machine has ended.
        observed: the version numbers that were seen.
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

    def claim(self, claimant: Claimant) -> Claim:
        return DynamoDbClaim(self, claimant)

    def read(self) -> dict[str, str]:
        """The item's texts; empty if there is none."""
        answer = self.where.call("get_item", Key={_KEY: {"S": self.key}}, ConsistentRead=True)
        item = (answer or {}).get("Item", {})
        return {name: str(value["S"]) for name, value in item.items() if "S" in value}


class DynamoDbClaim:
    """One acquisition of the item."""

    def __init__(self, server: DynamoDbLockServer, claimant: Claimant) -> None:
        self._server = server
        self._claimant = claimant
        self._owner = f"pyhudi {claimant.token}"
        self._versions = 0

    @property
    def lease_s(self) -> float:
        return self._server.lease_ms / 1000

    @property
    def renew_s(self) -> float:
        return self.lease_s / 4

    def attempt(self) -> bool:
        seen = self._server.read()
        if not seen:
            return self._put("attribute_not_exists(#key)", {}, {"#key": _KEY})
        if not self._may_take(seen):
            return False
        return self._put("#version = :seen", {":seen": {"S": seen.get(_VERSION, "")}}, {"#version": _VERSION})

    def renew(self) -> bool:
        answer = self._server.where.call(
            "update_item",
            Key={_KEY: {"S": self._server.key}},
            UpdateExpression="SET #version = :version",
            ConditionExpression="#owner = :owner",
            ExpressionAttributeNames={"#version": _VERSION, "#owner": _OWNER},
            ExpressionAttributeValues={":version": {"S": self._next_version()}, ":owner": {"S": self._owner}},
        )
        return answer is not None

    def release(self) -> None:
        self._server.where.call(
            "delete_item",
            Key={_KEY: {"S": self._server.key}},
            ConditionExpression="#owner = :owner",
            ExpressionAttributeNames={"#owner": _OWNER},
            ExpressionAttributeValues={":owner": {"S": self._owner}},
        )

    def holder(self) -> str:
        seen = self._server.read()
        if not seen or _RELEASED in seen:
            return ""
        note = f" for {seen[_NOTE]}" if seen.get(_NOTE) else ""
        who = describe_process(seen[_PROCESS]) if _PROCESS in seen else f"{seen.get(_OWNER)} (written by another tool)"
        return f"{who}{note}, with a lease of {seen.get(_LEASE)} ms"

    def _may_take(self, seen: Mapping[str, str]) -> bool:
        """Whether the item is released, ours, or has not been renewed for its lease."""
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
            _KEY: self._server.key,
            _OWNER: self._owner,
            _LEASE: str(self._server.lease_ms),
            _VERSION: self._next_version(),
            _NOTE: self._claimant.note[:200],
            _PROCESS: self._claimant.process,
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
        return f"{self._claimant.token}-{self._versions}"


@dataclass(frozen=True, slots=True)
class DynamoDbCounter:
    """Times that rise over all processes: a number in an item, which one request raises."""

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
            Key={_KEY: {"S": self.key}},
            UpdateExpression=change,
            ConditionExpression=condition,
            ExpressionAttributeNames={"#time": _TIME},
            ExpressionAttributeValues=values,
            ReturnValues="UPDATED_NEW",
        )

    def close(self) -> None:
        """No connection belongs to the counter."""
