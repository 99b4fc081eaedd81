"""No secret of a caller's options is shown by an error, by its traceback with the variables of this package, or by an object that holds the options."""

from __future__ import annotations

import inspect
import json
import logging
import pickle
import traceback
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pyhudi
from pyhudi_core.errors import HudiError
from pyhudi_core.model.masking import Secret, concealed
from pyhudi_core.opened_table.opened_table import OpenedTable
from pyhudi_core.spark import StreamSink
from pyhudi_core.spark.settings import Settings
from pyhudi_core.storage.base import StorageSpec

SECRET = "hunter2-hunter2"
STORAGE = {"secret_access_key": SECRET, "access_key_id": SECRET, "session_token": SECRET, "token": SECRET}
OPTIONS = {"hoodie.aws.secret.key": SECRET, "pyhudi.lock.sql.url": f"postgresql://u:{SECRET}@h/d"}


def _shown(error: BaseException) -> str:
    """The error with its causes, and with the variables of this package's functions."""
    told = traceback.TracebackException.from_exception(error, capture_locals=True)
    inside, waiting = [str(error), repr(error)], [told]
    while waiting:
        each = waiting.pop()
        inside += [f"{frame.name} {frame.locals}" for frame in each.stack if "/pyhudi_core/" in frame.filename]
        waiting += [one for one in (each.__cause__, each.__context__) if one is not None]
    assert len(inside) > 2, "no function of this package is in the traceback"
    return "\n".join(inside)


DOORS = sorted(
    name for name in pyhudi.__all__
    if inspect.isfunction(getattr(pyhudi, name)) and "storage_options" in inspect.signature(getattr(pyhudi, name)).parameters
)  # fmt: skip
"""The public functions that take storage options."""


@pytest.mark.parametrize("location", ["memory://none", "s3://bucket/none", "s3://u:pw@bucket/none", "no-scheme://x"])
@pytest.mark.parametrize("door", DOORS)
def test_an_error_of_a_public_function_shows_no_secret_in_its_traceback(
    door: str, location: str, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    function = getattr(pyhudi, door)
    parameters = inspect.signature(function).parameters
    given: dict[str, Any] = {name: location for name, one in parameters.items() if one.default is one.empty}
    given |= {name: OPTIONS for name in ("options",) if name in parameters}
    given |= {name: STORAGE for name in ("storage_options", "source_options") if name in parameters}
    given |= {"schema": pa.schema([("id", pa.string())])} if "schema" in given else {}
    given |= {"request": {"location": location, "options": OPTIONS}} if "request" in given else {}
    with caplog.at_level(logging.DEBUG), pytest.raises((HudiError, TypeError)) as caught:
        function(**given)
    assert SECRET not in _shown(caught.value)
    assert SECRET not in caplog.text
    assert SECRET not in "".join(capsys.readouterr())


@pytest.mark.parametrize(
    "held",
    [
        Settings.parse({"path": "/t", **{f"storage.{name}": value for name, value in STORAGE.items()}, **OPTIONS}),
        StreamSink("/t", "s", storage_options=STORAGE, options=OPTIONS),
        StorageSpec("/t", STORAGE),
        OpenedTable(None, None, OPTIONS),  # type: ignore[arg-type]
        concealed(STORAGE),
        concealed(OPTIONS),
    ],
    ids=lambda held: type(held).__name__,
)
def test_an_object_that_holds_options_shows_no_secret(held: object) -> None:
    assert SECRET not in repr(held)
    assert SECRET not in f"{held}"


def test_a_table_in_use_shows_and_writes_no_secret(tmp_path: Path) -> None:
    rows = pa.table({"id": ["1"]})
    table = pyhudi.create_table(tmp_path / "t", rows.schema, "id", options={"hoodie.aws.secret.key": SECRET})
    made = table.upsert(rows)
    shown = [repr(table), str(table), repr(made), repr(table.config), repr(vars(type(table))), repr(table.scan())]
    assert SECRET not in "".join(shown)
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]


def test_a_concealed_text_is_the_text() -> None:
    assert concealed(STORAGE) == STORAGE
    assert json.loads(json.dumps(concealed(STORAGE))) == STORAGE
    assert isinstance(pickle.loads(pickle.dumps(concealed(STORAGE)))["token"], Secret)
    assert concealed({"region": "eu", "n": 1}) == {"region": "eu", "n": 1}
    assert not isinstance(concealed({"region": "eu"})["region"], Secret)
    assert concealed(None) is None
