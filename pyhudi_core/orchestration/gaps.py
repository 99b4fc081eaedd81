"""A gap is a range of changes of an input that can no longer be read. A person must accept a gap; the commit records this person and the skipped
changes.

A run accepts gaps with two entries (tags in Dagster): ``hudi/accept_gap`` says how to continue (``read_all`` or ``skip``), and
``hudi/accept_gap_by`` names the person and the reason.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Literal, get_args

from pyhudi_core.errors import InvalidOptionError
from pyhudi_core.model.bounded_json import parse_json

HOW_TAG = "hudi/accept_gap"
BY_TAG = "hudi/accept_gap_by"
SETTING = "tag"
"""The name of such an entry, unless the orchestrator has another word."""
PREFIX = "pyhudi.gap."
How = Literal["read_all", "skip"]


@dataclass(frozen=True, slots=True)
class Acceptance:
    """A person's permission to continue after a gap: read all rows of the input once, or skip the lost changes."""

    how: How
    by: str


@dataclass(frozen=True, slots=True)
class Gap:
    """The lost changes that a run skipped.

    Attributes:
        input: the table that was read.
        after, until: changes were lost between these completion times; ``after`` is empty for the beginning.
        how: ``read_all`` (all rows of the input were read, so only intermediate states are lost), ``skip``, or ``by_code`` (the asset's
            function caught the error and continued).
        by: the person who accepted it.
        run_id: the run.
    """

    input: str
    after: str
    until: str
    how: str
    by: str
    run_id: str

    def extra(self) -> dict[str, str]:
        """Return the entry for the commit's extra metadata."""
        return {PREFIX + self.input: json.dumps(asdict(self))}


def gaps_in(extra: Mapping[str, str]) -> list[dict[str, str]]:
    """Return the gaps in a commit's extra metadata, without entries that this package has not written."""
    found = (_parsed(text) for key, text in sorted(extra.items()) if key.startswith(PREFIX))
    return [one for one in found if one is not None]


def _parsed(text: str) -> dict[str, str] | None:
    try:
        found = parse_json(text)
    except (ValueError, RecursionError):
        return None
    names = {each.name for each in fields(Gap)}
    is_gap = isinstance(found, dict) and found.keys() >= names and all(isinstance(one, str) for one in found.values())
    return found if is_gap else None


def acceptance_of(entries: Mapping[str, str], setting: str = SETTING) -> Acceptance | None:
    """Return the acceptance in the entries of a run. Raises `InvalidOptionError` unless they say how to continue and who accepts it."""
    how, by = entries.get(HOW_TAG, ""), entries.get(BY_TAG, "").strip()
    return accepted(how, by, setting) if how or by else None


def accepted(how: str, by: str, setting: str = SETTING) -> Acceptance:
    """Return the acceptance, if both values are valid. Raises `InvalidOptionError`."""
    if how == "read_all" and by:
        return Acceptance("read_all", by)
    if how == "skip" and by:
        return Acceptance("skip", by)
    raise InvalidOptionError(
        f"A gap cannot be accepted with how={how!r} and by={by!r}",
        hint=f"Say how ({' or '.join(get_args(How))}) in the run's {setting} {HOW_TAG}, and who accepts it in {BY_TAG}.",
    )


def extras(gaps: Iterable[Gap]) -> dict[str, str]:
    """Return the extra metadata of a commit that skips these gaps."""
    return {key: text for gap in gaps for key, text in gap.extra().items()}
