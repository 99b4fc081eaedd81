"""Certificates of servers: files with authorities, and what to do if a client refuses a server's certificate."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from pyhudi_core.errors import InvalidOptionError
from pyhudi_core.lazy import lazy

if TYPE_CHECKING:
    import ssl
else:
    ssl = lazy("ssl")

CA_BUNDLE = "the storage option 'ca_bundle'"
_NO_TLS = re.compile(r"wrong[ _]version[ _]number|InvalidContentType", re.IGNORECASE)
_CERTIFICATE = re.compile(r"certificate|hostname '.*' doesn't match", re.IGNORECASE)
_OF_CLIENT = re.compile(r"client certificate|certificate authentication|certificate required", re.IGNORECASE)


def advice(text: str, option: str) -> str:
    """Return the advice for a TLS error of a client; empty for any other error.

    ``option``: where a file with authorities is given.
    """
    if _NO_TLS.search(text):
        return "Check the address and the port: what answers there does not speak TLS."
    if _CERTIFICATE.search(text) and not _OF_CLIENT.search(text):
        return (
            "Check the address. The server's certificate has to be for this name, valid today, and signed by an authority"
            f" of this machine, or by one in the file of {option}."
        )
    return ""


def checking(ca: str, key: str, own: tuple[str, str] = ("", "")) -> ssl.SSLContext:
    """Return a TLS context that checks certificate and name against the authorities in a file, or against the authorities of this machine.

    ``key``: the option with the file. ``own``: files with the certificate of this client and its key.
    """
    for path in filter(None, (ca, *own)):
        if not os.path.isfile(path):
            raise InvalidOptionError(
                f"{key if path == ca else 'The certificate or key of this client'} is no file: {path}",
                hint="Give a file in the format PEM, which this process can read.",
            )
    try:
        context = ssl.create_default_context(cafile=ca or None)
    except OSError as error:
        raise InvalidOptionError(
            f"{key} has no certificates: {ca}",
            hint="Give a file with the certificates of the authorities, in the format PEM.",
        ) from error
    try:
        if all(own):
            context.load_cert_chain(*own, password="")  # without one, OpenSSL would ask at the terminal
    except OSError as error:
        raise InvalidOptionError(
            f"These files are not the certificate of this client and its key: {own[0]}, {own[1]}",
            hint="Give files in the format PEM; the key has no password.",
        ) from error
    return context
