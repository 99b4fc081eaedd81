"""Run all pre-commit validators on an attempt, and collect the reasons of validators that refuse."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from pyhudi_core.engine.choice import engine_for
from pyhudi_core.errors import HudiError, InvalidOptionError, PreCommitError
from pyhudi_core.timeline.active import Timeline
from pyhudi_core.validators.candidate import Candidate
from pyhudi_core.write.attempt import Attempt

Validator = Callable[[Candidate], object]
"""A validator accepts the commit with None, True or an empty text. It refuses with False, with a text that gives the reason, or with an exception."""


@dataclass(frozen=True, slots=True)
class Validators:
    """Several validators, in their order."""

    validators: tuple[Validator, ...]

    @classmethod
    def of(cls, given: Sequence[Validator]) -> Validators | None:
        """Return the validators of the argument ``pre_commit``; None if there are none.

        Raises `InvalidOptionError` if a validator is not callable.
        """
        if callable(given) or isinstance(given, str | bytes) or not isinstance(given, Sequence):
            raise InvalidOptionError(
                f"pre_commit= takes a list of validators, not {type(given).__name__}",
                hint='For example pre_commit=[hudi.not_null("id")].',
            )
        wrong = [one for one in given if not callable(one)]
        if wrong:
            raise InvalidOptionError(
                f"{wrong[0]!r} is no pre-commit validator: it cannot be called",
                hint='Give functions that take a Candidate, or ready-made ones such as hudi.not_null("id").',
            )
        return cls(tuple(given)) if given else None

    def refuse_unfit(self, schema: pa.Schema) -> None:
        """Call ``refuse_unfit`` of each validator that has it. It may raise; ready-made validators check that their columns exist."""
        for validator in self.validators:
            look = getattr(validator, "refuse_unfit", None)
            if look is not None:
                look(schema)

    def run(self, attempt: Attempt, timeline: Timeline) -> bool:
        """Run all validators; return whether one of them has read the table.

        Raises `PreCommitError`, and errors of this package that a validator met while it read.
        """
        context = attempt.transaction.context
        candidate = Candidate(attempt, timeline, attempt.engine or engine_for(None, context.runtime.executor))
        failures = {_name(one): found for one in self.validators if (found := _finding(one, candidate)) is not None}
        if failures:
            findings = "; ".join(f"{name} found {what}" for name, what in failures.items())
            raise PreCommitError(
                f"Pre-commit validators refused a commit ({candidate.operation}): {findings}",
                failures=failures,
                table=context.table,
                instant=attempt.transaction.requested_time,
                hint="Nothing was published. Correct the data, or change the validators.",
            )
        return candidate.read_table


def _finding(validator: Validator, candidate: Candidate) -> str | None:
    """Return the reason why a validator refuses the commit; None if it accepts."""
    try:
        answer = validator(candidate)
    except HudiError:
        raise  # the validator could not read: this error says nothing about the rows
    except Exception as error:  # noqa: BLE001  (an assertion, or a fault of the validator: neither may let the commit pass)
        return f"{type(error).__name__}: {error}"
    if answer is None or answer is True or answer == "":
        return None
    return "that the commit must not be made" if answer is False else str(answer)


def _name(validator: Validator) -> str:
    return str(getattr(validator, "name", "") or getattr(validator, "__name__", "") or type(validator).__name__)
