"""Addresses of servers, which may contain a password: no message shows an address."""

from __future__ import annotations

from urllib.parse import SplitResult, urlsplit

from pyhudi_core.errors import InvalidOptionError


def parts_of(key: str, address: str, form: str, *schemes: str) -> SplitResult:
    """Parse the address in an option. It must have one of the schemes, and a host. Raises `InvalidOptionError`.

    ``form``: the form of the address, for the hint. A second @ is refused: a part of the password would count as the host or the path, which messages
    show.
    """
    try:
        parts = urlsplit(address)
        if parts.port == 0 or parts.scheme not in schemes or not parts.hostname:
            raise ValueError
    except ValueError:
        raise invalid_address(key, form) from None
    if address.count("@") > parts.netloc.count("@") or parts.netloc.count("@") > 1:
        raise InvalidOptionError(
            f"{key} is not a valid address: it has an @ that does not end the password",
            hint="Percent-encode special characters of user and password: %40 for @, %2F for /, %3F for ?, %23 for #, %3A for :.",
        )
    return parts


def invalid_address(key: str, form: str) -> InvalidOptionError:
    """Return the error for an address that cannot be used."""
    return InvalidOptionError(f"{key} is not a valid address", hint=f"Write it as {form}.")
