"""Pre-commit validators: Python callables that see what would be committed, and can refuse it."""

from pyhudi_core.validators.candidate import Candidate, FoundRows
from pyhudi_core.validators.ready_made import in_range, not_null, row_count, satisfies, unique
from pyhudi_core.validators.validators import Validator, Validators

__all__ = [
    "Candidate",
    "FoundRows",
    "Validator",
    "Validators",
    "in_range",
    "not_null",
    "row_count",
    "satisfies",
    "unique",
]
