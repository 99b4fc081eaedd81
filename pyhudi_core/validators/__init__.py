"""Pre-commit validators: Python callables that see what would be committed, and can refuse it."""

from pyhudi_core.validators.candidate import Candidate, Finding
from pyhudi_core.validators.ready_made import holds, in_range, not_null, row_count, unique
from pyhudi_core.validators.validators import Validator, Validators

__all__ = [
    "Candidate",
    "Finding",
    "Validator",
    "Validators",
    "holds",
    "in_range",
    "not_null",
    "row_count",
    "unique",
]
