"""A session of Spark Connect on another machine in clear text is said once."""

from __future__ import annotations

import logging
from types import SimpleNamespace

import pytest

from pyhudi_core.orchestration.spark_start import _connected
from pyhudi_core.storage.clear_text import _warn

pytest.importorskip("grpc", reason="an extra")
pytest.importorskip("pyspark.sql.connect.client", reason="an extra")


@pytest.mark.parametrize(
    ("remote", "is_said"),
    [
        ("sc://server:15002", True), ("sc://server", True), ("sc://server:15002/;use_ssl=true", False),
        ("sc://server:15002/;token=very-secret", False), ("sc://localhost:15002", False), ("sc://127.0.0.1:15002", False),
    ],
)  # fmt: skip
def test_a_spark_server_on_another_machine_in_clear_text_is_said_once(
    remote: str, is_said: bool, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyhudi_core.engine.spark_connect.refuse_silent", lambda channel: None)
    _warn.cache_clear()
    for _ in range(2):
        assert _connected(SimpleNamespace(create=lambda: "a session"), remote) == "a session"
    warned = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    said = "Spark Connect at server:15002 is asked in clear text: add ;use_ssl=true to its address"
    assert [one.partition(", unless")[0] for one in warned] == ([said] if is_said else [])
