"""The local engine does what every engine must do."""

from __future__ import annotations

from typing import Any

import pytest
from support.engine_cases import CASES

from pyhudi_core.engine import LocalEngine
from pyhudi_core.runtime.executors import SerialExecutor


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_the_local_engine(case: Any) -> None:
    engine = LocalEngine(SerialExecutor(), 3)
    case(engine, engine.dataset)
