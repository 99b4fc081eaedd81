"""The garbage collector is as it was, whatever happens inside."""

from __future__ import annotations

import gc

import pytest

from pyhudi_core.runtime.collection import collector_paused


def test_collections_pause_and_go_on() -> None:
    with collector_paused():
        assert not gc.isenabled()
        with collector_paused():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_an_error_inside_switches_the_collector_on_again() -> None:
    with pytest.raises(KeyError), collector_paused():
        raise KeyError
    assert gc.isenabled()


def test_who_has_switched_it_off_keeps_it_off() -> None:
    gc.disable()
    try:
        with collector_paused():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
