"""The storage options of S3. Parsing them needs neither boto3 nor a store, so a program can check them before it starts a job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyhudi_core.errors import InvalidOptionError
from pyhudi_core.model.masking import Secret
from pyhudi_core.storage.kind import (
    OtherNames,
    allow_sources,
    given_options,
    in_own_names,
    read_flag,
    refuse_bad_address,
    seconds_of,
    secret_option,
    storage_option,
    timeout,
)
from pyhudi_core.storage.paths import ALLOW_SOURCES, parse_sources, sources_text

_NAMES = OtherNames(
    ("aws_",),
    {
        "default_region": "region",
        "endpoint": "endpoint_url",
        "endpoint_url_s3": "endpoint_url",
        "token": "session_token",
        "server_side_encryption": "server_side_encryption",
        "iam_role_arn": "role_arn",
        "iam_role_session_name": "role_session_name",
        "no_sign_request": "skip_signature",
    },
    bare=False,
)
_KMS = ("aws:kms", "aws:kms:dsse")


@dataclass(frozen=True, slots=True)
class S3Options:
    """Storage options of S3. boto3 finds missing options (environment, profile, role)."""

    endpoint_url: str = storage_option(
        "endpoint_url", "", "Address of another store than Amazon's, such as `https://store:9000`."
    )
    region: str = storage_option("region", "", "The bucket's region.")
    access_key_id: str = storage_option("access_key_id", "", "The access key. Without it boto3 finds the credentials.")
    secret_access_key: Secret = secret_option("secret_access_key", "The secret key.")
    session_token: Secret = secret_option("session_token", "The token of temporary credentials.")
    role_arn: str = storage_option(
        "role_arn",
        "",
        "A role that is assumed with these credentials, and again before its session ends.",
    )
    role_session_name: str = storage_option(
        "role_session_name", "pyhudi", "The name of the role's session, which CloudTrail shows."
    )
    external_id: str = storage_option("external_id", "", "The external id that the role's trust policy asks for.")
    sts_endpoint_url: str = storage_option(
        "sts_endpoint_url", "", "The address of another service than Amazon's that gives the role's credentials."
    )
    ca_bundle: str = storage_option(
        "ca_bundle",
        "",
        "A file with the authorities that may sign the store's certificate; by default boto3's (`AWS_CA_BUNDLE`).",
    )
    server_side_encryption: str = storage_option(
        "server_side_encryption",
        "",
        "How the store encrypts objects: `AES256`, `aws:kms` or `aws:kms:dsse`; by default as the bucket says.",
    )
    sse_kms_key_id: str = storage_option(
        "sse_kms_key_id",
        "",
        "The key of `aws:kms`; by default Amazon's own. Every writer of a table gives it, or the bucket's default has it.",
    )
    skip_signature: bool = storage_option("skip_signature", False, "Read a public bucket without credentials.")
    timeout: str = timeout()
    allow_sources: str = allow_sources()

    @classmethod
    def parse(cls, given: Mapping[str, str], location: str) -> S3Options:
        """Parse storage options. Raises `UnknownOptionError` and `InvalidOptionError`."""
        given = in_own_names(cls, given, location, _NAMES)
        if bool(given.get("access_key_id")) != bool(given.get("secret_access_key")):
            raise InvalidOptionError(
                "Of 'access_key_id' and 'secret_access_key' only one is given",
                table=location,
                hint="Give both, or neither and let boto3 find the credentials.",
            )
        refuse_bad_address(given, "endpoint_url", "a store", location)
        refuse_bad_address(given, "sts_endpoint_url", "a service", location)
        _refuse_unfit_encryption(given, location)
        seconds_of(str(given.get("timeout", "")) or "20s")
        _refuse_without_role(given, location)
        unsigned = _unsigned(given, location)
        rest = (ALLOW_SOURCES, "skip_signature")
        texts: dict[str, Any] = {name: str(text) for name, text in given.items() if name not in rest and str(text)}
        secrets = {name: Secret(texts.pop(name, "")) for name in ("secret_access_key", "session_token")}
        sources = sources_text(parse_sources(given.get(ALLOW_SOURCES, "")))
        return cls(**texts, **secrets, skip_signature=unsigned, allow_sources=sources)

    def to_mapping(self) -> dict[str, str]:
        """Return the options that differ from their defaults; secrets stay masked."""
        return given_options(self)

    @property
    def encryption(self) -> dict[str, str]:
        """Return the encryption fields of a request that creates an object."""
        given = {"ServerSideEncryption": self.server_side_encryption, "SSEKMSKeyId": self.sse_kms_key_id}
        return {name: text for name, text in given.items() if text}


def _refuse_unfit_encryption(given: Mapping[str, str], location: str) -> None:
    kind, key = given.get("server_side_encryption", ""), given.get("sse_kms_key_id", "")
    if kind not in ("", "AES256", *_KMS):
        raise InvalidOptionError(
            f"The storage option 'server_side_encryption' is '{kind}'",
            table=location,
            hint="Use AES256, aws:kms or aws:kms:dsse.",
        )
    if key and kind not in _KMS:
        raise InvalidOptionError(
            "The storage option 'sse_kms_key_id' is given without the encryption that uses it",
            table=location,
            hint="Set 'server_side_encryption' to aws:kms, or omit the key.",
        )


def _unsigned(given: Mapping[str, str], location: str) -> bool:
    """Say whether requests have no signature. Raises `InvalidOptionError` if a credential is given, too, which nobody would see."""
    unsigned = read_flag(given, "skip_signature", False)
    both = [name for name in ("access_key_id", "session_token", "role_arn") if given.get(name)]
    if unsigned and both:
        raise InvalidOptionError(
            f"The storage options 'skip_signature' and '{both[0]}' are given",
            table=location,
            hint="Omit skip_signature, or the credentials.",
        )
    return unsigned


def _refuse_without_role(given: Mapping[str, str], location: str) -> None:
    alone = [name for name in ("role_session_name", "external_id", "sts_endpoint_url") if given.get(name)]
    if alone and not given.get("role_arn"):
        raise InvalidOptionError(
            f"The storage option '{alone[0]}' is given without 'role_arn'",
            table=location,
            hint="Give the role that is assumed, or omit it.",
        )
