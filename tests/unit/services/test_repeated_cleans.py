"""The second clean and the third: each leaves exactly what its policy, savepoints and holds keep, as a clean of all partitions would."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from support.cleanings import states
from support.homes import StandingClock, home_at, make_at, runtime_with
from support.tables import orders, rows

import pyhudi_core as hudi

HOUR_MS = 3_600_000
