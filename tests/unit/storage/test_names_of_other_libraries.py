"""Locations and storage options as other libraries spell them: each is taken, or refused with the name that is right here."""

from __future__ import annotations

from typing import Any

import pytest

from pyhudi_core.errors import ConfigError, InvalidOptionError, UnknownOptionError
from pyhudi_core.storage import open_storage
from pyhudi_core.storage.opening import refuse_unfit_storage_options as refuse

SETTINGS: dict[str, Any] = {"gs": {}, "az": {"account_name": "a"}, "s3": {}}


@pytest.mark.parametrize(
    ("cloud", "name", "says"),
    [
        ("s3", "key", "'access_key_id'"),
        ("s3", "secret", "'secret_access_key'"),
        ("s3", "client_kwargs", "endpoint_url"),
        ("s3", "config_kwargs", "endpoint_url"),
        ("s3", "s3_additional_kwargs", "endpoint_url"),
        ("s3", "anon", "'skip_signature'"),
        ("s3", "use_ssl", "https://"),
        ("s3", "scheme", "https://"),
        ("s3", "endpoint_override", "'endpoint_url'"),
        ("s3", "s3.access-key-id", "'access_key_id'"),
        ("s3", "s3.endpoint", "'endpoint_url'"),
        ("s3", "s3.force-virtual-addressing", "Known"),
        ("s3", "spark.hadoop.fs.s3a.secret.key", "'secret_access_key'"),
        ("s3", "AWS_S3_ALLOW_UNSAFE_RENAME", "condition"),
        ("s3", "AWS_WEB_IDENTITY_TOKEN_FILE", "environment variable"),
        ("s3", "proxy_url", "HTTPS_PROXY"),
        ("az", "key", "'account_key'"),
        ("az", "credential", "'account_key'"),
        ("az", "account_url", "'endpoint_url'"),
        ("az", "adls.account-name", "'account_name'"),
        ("az", "adls.sas-token", "'sas_token'"),
        ("az", "use_emulator", "devstoreaccount1"),
        ("az", "use_fabric_endpoint", "onelake"),
        ("gs", "key", "'service_account_key'"),
        ("gs", "credentials", "'service_account'"),
        ("gs", "gcs.oauth2.token", "'bearer_token'"),
        ("gs", "gcs.project-id", "project"),
        ("gs", "project", "project"),
        ("s3", 5, "Known"),
    ],
)
def test_an_option_of_another_library_is_refused_by_the_name_that_is_right_here(
    cloud: str, name: Any, says: str
) -> None:
    with pytest.raises(UnknownOptionError, match=f"'{name}'") as refused:
        refuse(f"{cloud}://lake/t", {name: "x"})
    assert says in str(refused.value.hint)


@pytest.mark.parametrize(
    ("cloud", "name", "value"),
    [
        ("s3", "region", {"a": 1}),
        ("s3", "endpoint_url", b"http://h"),
        ("gs", "token", {"private_key": "y"}),
        ("az", "account_key", ["x"]),
    ],
)
def test_a_value_that_is_no_text_is_refused_and_not_shown(cloud: str, name: str, value: Any) -> None:
    with pytest.raises(InvalidOptionError, match=f"'{name}' is a {type(value).__name__}") as refused:
        refuse(f"{cloud}://lake/t", {name: value})
    assert "private_key" not in str(refused.value)


def test_a_variable_that_is_not_set_gives_no_option() -> None:
    nothing: Any = {"access_key_id": None, "secret_access_key": None, "region": None}
    assert open_storage("s3://lake/t", {**nothing, "region": "r"}).spec().options == {"region": "r"}


@pytest.mark.parametrize(
    ("token", "says"),
    [
        ("anon", "skip_signature"),
        ("google_default", "Omit it"),
        ("cloud", "Omit it"),
        ("/secrets/lake.json", "service_account"),
        ('{"private_key": "y"}', "service_account_key"),
    ],
)
def test_a_token_of_gcsfs_is_not_sent_to_google(token: str, says: str) -> None:
    with pytest.raises(InvalidOptionError, match="no OAuth token") as refused:
        refuse("gs://lake/t", {"token": token})
    assert says in str(refused.value.hint)


@pytest.mark.parametrize(
    ("location", "says"),
    [
        ("s3n://lake/t", "s3://bucket"),
        ("arn:aws:s3:::lake/t", "s3://bucket"),
        ("minio://lake/t", "endpoint_url"),
        ("https://lake.s3.eu-west-1.amazonaws.com/t", "s3://bucket"),
        ("https://s3.eu-west-1.amazonaws.com/lake/t", "s3://bucket"),
        ("https://storage.googleapis.com/lake/t", "gs://bucket"),
        ("https://acc.dfs.core.windows.net/c/t?sig=abc", "abfss://container"),
        ("abfss://acc.dfs.core.windows.net/c/t", "abfss://container"),
        ("s3://lake/t\n", "line break"),
    ],
)
def test_a_location_of_another_library_is_refused_with_the_spelling_of_this_one(location: str, says: str) -> None:
    with pytest.raises(ConfigError) as refused:
        open_storage(location)
    assert says in str(refused.value.hint)
