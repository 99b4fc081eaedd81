"""Pre-commit validators of an asset. Each validator is an asset check: the validator runs before anything is visible, and its result is stored.

A refused commit leaves a failed check, no materialization and no row (write, audit, publish in one step). A run that writes nothing passes the
checks, because it publishes nothing; the description of the check's result says so.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import dagster as dg
import pyarrow as pa

from pyhudi.errors import HudiError, PreCommitError
from pyhudi_core.orchestration.errors import definition_error

Validator = Callable[[Any], object]


def checked_validators(asset: str, given: Sequence[Validator], schema: Any) -> tuple[Validator, ...]:
    """Return the validators of an asset.

    Raises `InvalidOptionError` for values that cannot be called, for equal names, and for missing columns.
    """
    names: list[str] = []
    for validator in given:
        if not callable(validator):
            raise definition_error(
                f"The asset {asset} has {validator!r} in pre_commit, which cannot be called",
                "Pass functions that take a Candidate, or ready-made ones such as pyhudi.not_null('id').",
            )
        if (name := check_name(validator)) in names:
            raise definition_error(
                f"The asset {asset} has two validators with the name {name} in pre_commit",
                "Give functions of different names.",
            )
        names.append(name)
        try:
            _refuse_unfit(validator, schema)
        except HudiError as error:
            raise definition_error(
                f"The asset {asset} has the validator {_name(validator)} in pre_commit, which cannot work: {error.message}",
                error.hint or "",
            ) from error
    return tuple(given)


def _refuse_unfit(validator: Validator, schema: Any) -> None:
    """Check that a ready-made validator matches the schema, or, without a schema, that its SQL can be parsed."""
    if isinstance(schema, pa.Schema):
        if (fits := getattr(validator, "refuse_unfit", None)) is not None:
            fits(schema)
    elif (reads := getattr(validator, "refuse_unreadable", None)) is not None:
        reads()


def check_name(validator: Validator) -> str:
    """Return the name of a validator as an asset check: ``not_null('id')`` is ``not_null_id``."""
    return re.sub(r"\W+", "_", _name(validator)).strip("_")[:100]


def check_specs(key: dg.AssetKey, validators: Sequence[Validator]) -> list[dg.AssetCheckSpec]:
    """Return the asset checks of the validators."""
    return [
        dg.AssetCheckSpec(
            check_name(validator),
            asset=key,
            description=f"{_name(validator)}: asked before a commit, which it can refuse.",
        )
        for validator in validators
    ]


def passed(key: dg.AssetKey, validators: Sequence[Validator], why: str) -> list[dg.AssetCheckResult]:
    """Return the check results of validators that refused nothing."""
    return [
        dg.AssetCheckResult(passed=True, asset_key=key, check_name=check_name(each), description=why)
        for each in validators
    ]


def answers(
    key: dg.AssetKey, validators: Sequence[Validator], refused: PreCommitError
) -> Iterator[dg.AssetCheckResult]:
    """Yield the results of the validators of a refused commit."""
    for validator in validators:
        found = refused.failures.get(_name(validator))
        yield dg.AssetCheckResult(
            passed=found is None,
            asset_key=key,
            check_name=check_name(validator),
            description=f"It found {found}. This commit was not published."
            if found is not None
            else "Another validator refused the commit.",
            metadata={"hudi/requested_instant": refused.instant} if refused.instant else {},
        )


def _name(validator: Validator) -> str:
    """Return the name that the core uses in a `PreCommitError`."""
    return str(getattr(validator, "name", "") or getattr(validator, "__name__", "") or type(validator).__name__)
