"""A DynamoDB in memory that answers as the real one does, as far as locks need it; tests/locks/test_dynamodb.py has Amazon's own."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

Item = dict[str, dict[str, str]]


class FakeDynamoDb:
    """Items by key. A read that is not consistent is late by one write, and a value that no expression names is refused."""

    def __init__(self) -> None:
        self.items: dict[str, Item] = {}
        self.late: dict[str, Item] = {}

    def as_client(self, *_: object) -> tuple[FakeDynamoDb, type[Exception], type[Exception]]:
        """In place of `pyhudi_core.lock.clients.dynamodb._client`."""
        return self, ClientError, BotoCoreError

    def get_item(self, *, TableName: str, Key: Item, ConsistentRead: bool = False) -> dict[str, Any]:
        found = (self.items if ConsistentRead else self.late).get(Key["key"]["S"])
        return {} if found is None else {"Item": found}

    def put_item(self, *, TableName: str, Item: Item, **condition: Any) -> dict[str, Any]:
        self._begin(Item, condition)
        self.items[Item["key"]["S"]] = dict(Item)
        return {}

    def delete_item(self, *, TableName: str, Key: Item, **condition: Any) -> dict[str, Any]:
        self._begin(Key, condition)
        self.items.pop(Key["key"]["S"], None)
        return {}

    def update_item(self, *, TableName: str, Key: Item, UpdateExpression: str, **condition: Any) -> dict[str, Any]:
        condition.pop("ReturnValues", None)
        self._begin(Key, condition, UpdateExpression)
        item = self.items.setdefault(Key["key"]["S"], dict(Key))
        names, values = condition["ExpressionAttributeNames"], condition["ExpressionAttributeValues"]
        target, _, change = UpdateExpression.removeprefix("SET ").partition(" = ")
        name = names[target]
        if " + " in change:
            item[name] = {"N": str(int(item[name]["N"]) + int(values[change.split(" + ")[1]]["N"]))}
        else:
            item[name] = values[change]
        return {"Attributes": {name: item[name]}}

    def _begin(self, key: Item, condition: Mapping[str, Any], change: str = "") -> None:
        """Refuse what the real one refuses; what is there now is what late reads see from now on."""
        names, values = condition["ExpressionAttributeNames"], condition.get("ExpressionAttributeValues", {})
        text = condition["ConditionExpression"]
        words = set(f"{text} {change}".replace("(", " ").replace(")", " ").split())
        if {word for word in words if word.startswith(":")} != set(values):
            raise self._refused("ValidationException")
        item = self.items.get(key["key"]["S"], {})
        if not any(_holds(clause, item, names, values) for clause in text.split(" OR ")):
            raise self._refused("ConditionalCheckFailedException")
        self.late = deepcopy(self.items)

    def _refused(self, code: str) -> ClientError:
        return ClientError({"Error": {"Code": code, "Message": code}}, "a request")


def _holds(clause: str, item: Item, names: Mapping[str, str], values: Mapping[str, dict[str, str]]) -> bool:
    if clause.startswith("attribute_not_exists("):
        return names[clause.removeprefix("attribute_not_exists(").removesuffix(")")] not in item
    name, relation, value = clause.split()
    if names[name] not in item:
        return False
    (have,), (want,) = item[names[name]].values(), values[value].values()
    if relation == "=":
        return have == want
    return int(have) < int(want) if relation == "<" else int(have) >= int(want)
