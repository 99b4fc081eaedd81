"""Pre-commit validators: Python callables that get the staged commit, and can refuse it.

Names are imported on first use. So a DAG file that only names a validator does not import the code that runs it.
"""

from typing import TYPE_CHECKING

from pyhudi_core.lazy import lazy_names

if TYPE_CHECKING:
    from pyhudi_core.validators.candidate import Candidate as Candidate
    from pyhudi_core.validators.candidate import FoundRows as FoundRows
    from pyhudi_core.validators.ready_made import in_range as in_range
    from pyhudi_core.validators.ready_made import not_null as not_null
    from pyhudi_core.validators.ready_made import row_count as row_count
    from pyhudi_core.validators.ready_made import satisfies as satisfies
    from pyhudi_core.validators.ready_made import unique as unique
    from pyhudi_core.validators.validators import Validator as Validator
    from pyhudi_core.validators.validators import Validators as Validators

_HOMES = {
    "Candidate": "candidate",
    "FoundRows": "candidate",
    "Validator": "validators",
    "Validators": "validators",
    "in_range": "ready_made",
    "not_null": "ready_made",
    "row_count": "ready_made",
    "satisfies": "ready_made",
    "unique": "ready_made",
}

__all__ = sorted(_HOMES)  # noqa: PLE0605

__getattr__ = lazy_names(__name__, _HOMES)
