"""A gap: changes of an input that cannot be read any more. Somebody has to accept it, and the commit says who did, and what was skipped.

A run accepts gaps by two tags: ``hudi/accept_gap`` says how to go on (``read_all`` or ``skip``), ``hudi/accept_gap_by`` who says so, and why.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Literal, get_args

from pyhudi_core.errors import InvalidOptionError

HOW_TAG = "hudi/accept_gap"
BY_TAG = "hudi/accept_gap_by"
PREFIX = "pyhudi.gap."
How = Literal["read_all", "skip"]


@dataclass(frozen=True, slots=True)
class Acceptance:
    """Somebody's word that a gap may be passed over: by reading all rows of the input once, or by skipping what is lost."""

    how: How
    by: str


@dataclass(frozen=True, slots=True)
class Gap:
    """What a run passed over.

    Attributes:
        input: the table that was read.
        after, until: the completion times between which changes were lost; ``after`` is empty for the beginning.
        how: ``read_all`` (all rows of the input were read, so only intermediate states are lost), ``skip``, or ``by_code`` (the asset's
            function caught the error and went on).
        by: who accepted it.
        run_id: the run.
    """

    input: str
    after: str
    until: str
    how: str
    by: str
    run_id: str

    def extra(self) -> dict[str, str]:
        """The entry of the commit."""
        return {PREFIX + self.input: json.dumps(asdict(self))}


def gaps_in(extra: Mapping[str, str]) -> list[dict[str, str]]:
    """The gaps that a commit says it passed over."""
    return [json.loads(text) for key, text in sorted(extra.items()) if key.startswith(PREFIX)]


def acceptance_of(tags: Mapping[str, str]) -> Acceptance | None:
    """What a run's tags accept. Raises `InvalidOptionError` if they do not say both, how and by whom."""
    how, by = tags.get(HOW_TAG, ""), tags.get(BY_TAG, "").strip()
    return accepted(how, by) if how or by else None


def accepted(how: str, by: str) -> Acceptance:
    """The acceptance, if it says how and by whom. Raises `InvalidOptionError`."""
    if how == "read_all" and by:
        return Acceptance("read_all", by)
    if how == "skip" and by:
        return Acceptance("skip", by)
    raise InvalidOptionError(
        f"A gap cannot be accepted with how={how!r} and by={by!r}",
        hint=f"Say how ({' or '.join(get_args(How))}) in the run's tag {HOW_TAG}, and who accepts it in {BY_TAG}.",
    )


def extras(gaps: Iterable[Gap]) -> dict[str, str]:
    """The entries of a commit that passes over these gaps."""
    return {key: text for gap in gaps for key, text in gap.extra().items()}
