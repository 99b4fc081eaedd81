"""Prefer credentials of storage options to credentials of the environment. The client library reads both, and does not know where each comes from."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from pyhudi_core.errors import InvalidOptionError
from pyhudi_core.storage.kind import OtherNames


def hidden_by_environment(
    given: Mapping[str, str], order: Sequence[str], fixed: Mapping[str, str], names: OtherNames, location: str
) -> tuple[str, str]:
    """Find the given credential that a variable of the environment would hide from the client library.

    Returns the name of the credential in the client library, and its value; ("", "") if no credential is hidden.

    Args:
        given: the storage options.
        order: the options that are credentials, as the client library prefers them.
        fixed: by option, the names of credentials that a program can hand to the client library by itself.
        names: shows which option a variable sets.
        location: for messages.

    Raises `InvalidOptionError` for a hidden credential that is not ``fixed``.
    """
    mine = next((name for name in order if given.get(name)), None)
    if mine is None:
        return "", ""
    stronger = order[: order.index(mine)]
    variables = sorted(name for name, text in os.environ.items() if text and name.lower().startswith(names.prefixes))
    hiding = [name for name in variables if names.own(name, stronger) is not None]
    if not hiding:
        return "", ""
    if mine not in fixed:
        raise InvalidOptionError(
            f"The environment variable {hiding[0]} would count, and not the storage option '{mine}'",
            table=location,
            hint=f"Unset the variable in this process, or omit {mine}.",
        )
    return fixed[mine], str(given[mine])
