"""The record of batches in a shared commit (``batches/``): one entry of its extra metadata, a JSON object by token.

For a committed batch it has a list: the numbers of rows, inserted keys and updated keys, and the extra metadata of the batch, if any. For a refused
batch it has an object: the error.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from pyhudi_core.model.bounded_json import parse_json
from pyhudi_core.model.commit import CommitMetadata

BATCHES_KEY = "pyhudi.batches"

Counts = tuple[int, int, int]


def answers_in(commit: CommitMetadata) -> dict[str, Counts | dict[str, Any]]:
    """Return the counts, or the error, by the tokens of the batches; empty if the entry is missing or not valid."""
    try:
        return {
            token: one if isinstance(one, dict) else (int(one[0]), int(one[1]), int(one[2]))
            for token, one in _said(commit).items()
        }
    except (ValueError, TypeError, AttributeError, IndexError, RecursionError):
        return {}


def extra_of(commit: CommitMetadata, token: str) -> Mapping[str, str]:
    """Return the extra metadata of a batch."""
    return _brought(commit).get(token, {})


def extras_of(commit: CommitMetadata) -> list[Mapping[str, str]]:
    """Return the extra metadata of a commit, and of each of its batches, in the order of arrival."""
    return [commit.extra, *(extra for extra in _brought(commit).values() if extra)]


def holding(commit: CommitMetadata, key: str) -> Iterator[CommitMetadata]:
    """Yield the commit if it has an extra entry whose key begins with ``key`` (empty: always).

    If batches have such entries, yields the commit once for each of these batches, the last batch first, with the extra metadata of the batch added.
    So a search for an entry works for shared commits, too.
    """
    if not key or _has(commit.extra, key):
        yield commit
    elif BATCHES_KEY in commit.extra:
        for extra in reversed(_brought(commit).values()):
            if _has(extra, key):
                yield replace(commit, extra={**commit.extra, **extra})


def _has(extra: Mapping[str, str], key: str) -> bool:
    return any(name.startswith(key) for name in extra)


def _brought(commit: CommitMetadata) -> dict[str, dict[str, str]]:
    try:
        said = _said(commit).items()
        found = {
            token: one[3] for token, one in said if isinstance(one, list) and len(one) > 3 and isinstance(one[3], dict)
        }
    except (ValueError, AttributeError, RecursionError):
        return {}
    return {token: {str(key): str(value) for key, value in extra.items()} for token, extra in found.items()}


def _said(commit: CommitMetadata) -> dict[str, Any]:
    found: dict[str, Any] = parse_json(commit.extra.get(BATCHES_KEY, "{}"))
    return found
