"""Each kind of lock says once what it is: its names, Hudi's classes, options, extra, and a section of the page."""

from __future__ import annotations

import tomllib
from collections import Counter
from dataclasses import fields

import pytest
from support.sources import ROOT

from pyhudi_core.errors import InvalidOptionError
from pyhudi_core.lock.kind import LockKind
from pyhudi_core.lock.kinds import PROVIDER, every_kind, kind_of
from pyhudi_core.options import WriteOptions, every_option
from pyhudi_core.options.fitting import refuse_unfit_options

KINDS = pytest.mark.parametrize("kind", every_kind(), ids=[kind.name for kind in every_kind()])
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]


@KINDS
def test_a_lock_is_found_by_each_of_its_names_and_by_hudis_classes(kind: LockKind) -> None:
    for name, of_hudi in kind.names.items():
        assert kind_of(name) is kind
        for written in filter(None, (name, name.upper(), of_hudi)):
            assert WriteOptions.parse({PROVIDER: written}).lock.provider == name


@KINDS
def test_a_lock_on_a_server_is_refused_without_each_option_that_it_needs(kind: LockKind) -> None:
    assert set(kind.needs) == (set(kind.names) if kind.on_server else set())
    own = {option.attribute.partition(".")[2]: option.key for option in kind.options()}
    for name, needed in kind.needs.items():
        for left_out in needed:
            given: dict[str, object] = {own[each]: "h" for each in needed if each != left_out}
            with pytest.raises(InvalidOptionError, match=f"={name} needs the option {own[left_out]}"):
                refuse_unfit_options({PROVIDER: name, **given}, location="s3://b/t")


@KINDS
def test_an_option_of_a_lock_that_is_not_used_is_refused_before_there_is_a_table(kind: LockKind) -> None:
    refuse_unfit_options({}, location="s3://b/t")
    for option in kind.options():
        given = {option.key: option.default}
        if kind.name == "storage_based":
            refuse_unfit_options({**given, PROVIDER: kind.name}, location="s3://b/t")
        with pytest.raises(InvalidOptionError, match=f"belongs to the lock {kind.name}, but the lock"):
            refuse_unfit_options({**given, PROVIDER: "in_process"}, location="s3://b/t")


@KINDS
def test_the_extra_of_a_lock_can_be_installed_and_developers_have_it(kind: LockKind) -> None:
    assert not kind.extra or (EXTRAS[kind.extra] and kind.extra in EXTRAS["dev"][0])


@KINDS
def test_a_lock_is_on_the_page_with_its_names(kind: LockKind) -> None:
    page = (ROOT / "docs/locks.md").read_text()
    assert [name for name in kind.names if f"`{name}`" not in page] == []
    assert not kind.extra or kind.extra in page.partition("pip install")[2].partition("\n")[0]


def test_no_two_locks_share_a_name_or_an_option() -> None:
    names = Counter(name for kind in every_kind() for each in kind.names.items() for name in each if name)
    assert max(names.values()) == 1
    assert max(Counter(option.attribute for option in every_option() if option.attribute).values()) == 1


@KINDS
def test_the_fields_of_a_lock_are_its_options_and_have_their_defaults(kind: LockKind) -> None:
    if kind.options():
        assert [each.name for each in fields(kind.values)] == [o.attribute.partition(".")[2] for o in kind.options()]
        assert kind.values() == kind.values(**{o.attribute.partition(".")[2]: o.default for o in kind.options()})
