"""Requests to a table of DynamoDB, through boto3: bounded, each sent once, and errors without credentials."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from pyhudi_core.errors import LockServerError, from_extra
from pyhudi_core.storage.certificates import advice
from pyhudi_core.storage.clear_text import warn_of_clear_text

KEY = "key"


@dataclass(frozen=True, slots=True)
class DynamoDb:
    """The location of the table, and the credentials for it. Without keys, boto3 finds the credentials.

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
        """Send one request about the table, and return the answer; None if a condition failed. Creates a missing table. Raises `LockServerError`."""
        found = self._send(method, request)
        if found == "ResourceNotFoundException":
            self._create()
            found = self._send(method, request)
        if isinstance(found, str) and found != "ConditionalCheckFailedException":
            raise self.error(found)
        return None if isinstance(found, str) else found

    def _send(self, method: str, request: Mapping[str, Any]) -> Mapping[str, Any] | str:
        """Return the answer, or the code of a refusal about the table or the item."""
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
                "KeySchema": [{"AttributeName": KEY, "KeyType": "HASH"}],
                "AttributeDefinitions": [{"AttributeName": KEY, "AttributeType": "S"}],
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
        """Return the error for a failure that boto3 describes with this text."""
        return LockServerError(
            f"DynamoDB ({self.address}) failed: {text}".rstrip(),
            hint=advice(text, "the variable AWS_CA_BUNDLE")
            or "Check the region or endpoint, the network, and that the credentials may read and write the table of the locks.",
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
    warn_of_clear_text(client.meta.endpoint_url, "DynamoDB")
    return client, ClientError, BotoCoreError
