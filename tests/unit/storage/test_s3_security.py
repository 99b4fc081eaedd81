"""S3 with an authority of one's own, with encryption by a key, and with a role; and requests in clear text are said."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest
from moto import mock_aws
from moto.core import set_initial_no_auth_action_count
from moto.server import DomainDispatcherApplication, create_backend_app
from support.certificates import certificate
from werkzeug.serving import make_server

from pyhudi_core.errors import InvalidOptionError, StorageError, UnknownOptionError
from pyhudi_core.lock.clients.dynamodb import DynamoDb
from pyhudi_core.storage import open_storage
from pyhudi_core.storage.clear_text import _warn, warn_of_clear_text
from pyhudi_core.storage.opening import refuse_unfit_storage_options
from pyhudi_core.storage.s3 import S3Storage
from pyhudi_core.storage.s3_options import S3Options

KEYS = {"region": "us-east-1", "access_key_id": "AKIDEXAMPLE", "secret_access_key": "very-secret"}
KMS = {"server_side_encryption": "aws:kms", "sse_kms_key_id": "1234abcd-12ab-34cd-56ef-1234567890ab"}
ROLE = "arn:aws:iam::123456789012:role/writer"


@pytest.fixture
def secure_store(tmp_path: Path) -> Iterator[str]:
    """The address of a store with a certificate that no known authority has signed."""
    server = make_server(
        "127.0.0.1", 0, DomainDispatcherApplication(create_backend_app), threaded=True,
        ssl_context=certificate(tmp_path, "localhost"),
    )  # fmt: skip
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"https://localhost:{server.port}"
    server.shutdown()
    thread.join(10)
    server.server_close()


def test_only_with_its_authority_a_store_with_an_own_certificate_is_trusted(
    secure_store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trusting = {**KEYS, "endpoint_url": secure_store, "ca_bundle": str(tmp_path / "server.pem")}
    client = boto3.client(
        "s3", endpoint_url=secure_store, region_name="us-east-1", verify=trusting["ca_bundle"],
        aws_access_key_id="AKIDEXAMPLE", aws_secret_access_key="very-secret",
    )  # fmt: skip
    client.create_bucket(Bucket="lake")
    storage = open_storage("s3://lake/t", trusting)
    storage.put("a", b"1")
    assert storage.get("a") == b"1"
    without = open_storage("s3://lake/t", {**KEYS, "endpoint_url": secure_store})
    with pytest.raises(StorageError, match="certificate verify failed") as refused:
        without.get("a")
    assert "very-secret" not in str(refused.value)
    monkeypatch.setenv("AWS_CA_BUNDLE", trusting["ca_bundle"])
    assert open_storage("s3://lake/t", {**KEYS, "endpoint_url": secure_store}).get("a") == b"1"
    with pytest.raises(InvalidOptionError, match=r"'ca_bundle' is no file: .*none\.pem"):
        open_storage("s3://lake/t", {**trusting, "ca_bundle": str(tmp_path / "none.pem")})


@mock_aws
def test_every_way_to_write_an_object_asks_for_the_encryption_of_the_options() -> None:
    client = boto3.client("s3", region_name="us-east-1")
    client.create_bucket(Bucket="lake")
    storage = open_storage("s3://lake/t", {**KEYS, **KMS})
    storage.put("put", b"1")
    storage.put_if_match("put", b"2", storage.put("put", b"1").etag)
    storage.put_if_absent("absent", b"1")
    for name, size in (("small", 10), ("parts", 20 << 20)):
        file = storage.open_output(name)
        file.stream.write(bytes(size))
        file.close()
    for name in ("put", "absent", "small", "parts"):
        found = client.head_object(Bucket="lake", Key=f"t/{name}")
        assert (found["ServerSideEncryption"], found["SSEKMSKeyId"]) == tuple(KMS.values()), name
    assert storage.get("put") == b"2"
    storage.delete_if_match("put", storage.put("put", b"3").etag)
    again = open_storage(storage.spec().location, storage.spec().options)
    again.put("of another process", b"1")
    assert client.head_object(Bucket="lake", Key="t/of another process")["SSEKMSKeyId"] == KMS["sse_kms_key_id"]


@mock_aws
def test_a_role_is_assumed_with_the_given_credentials_and_its_rights_count() -> None:
    iam = boto3.client("iam", region_name="us-east-1")
    boto3.client("s3", region_name="us-east-1").create_bucket(Bucket="lake")

    def policy(action: str) -> str:
        allowed = {"Effect": "Allow", "Action": action, "Resource": "*"}
        return json.dumps({"Version": "2012-10-17", "Statement": [allowed]})

    trust = {"Effect": "Allow", "Principal": {"AWS": "*"}, "Action": "sts:AssumeRole"}
    iam.create_role(
        RoleName="writer", AssumeRolePolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": [trust]})
    )
    iam.put_role_policy(RoleName="writer", PolicyName="p", PolicyDocument=policy("s3:*"))
    iam.create_user(UserName="job")
    iam.put_user_policy(UserName="job", PolicyName="p", PolicyDocument=policy("sts:AssumeRole"))
    key = iam.create_access_key(UserName="job")["AccessKey"]
    own = {"region": "us-east-1", "access_key_id": key["AccessKeyId"], "secret_access_key": key["SecretAccessKey"]}

    @set_initial_no_auth_action_count(0)  # type: ignore[untyped-decorator]
    def write() -> None:
        with pytest.raises(StorageError, match="AccessDenied"):
            open_storage("s3://lake/t", own).put("a", b"1")
        storage = open_storage("s3://lake/t", {**own, "role_arn": ROLE, "role_session_name": "nightly"})
        storage.put("a", b"1")
        assert storage.get("a") == b"1"
        assert isinstance(storage, S3Storage)
        assert key["SecretAccessKey"] not in f"{storage!r} {storage.spec()!r}"

    write()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"server_side_encryption": "kms"}, "'server_side_encryption' is 'kms'"),
        ({"sse_kms_key_id": "k"}, "without the encryption that uses it"),
        ({"sse_kms_key_id": "k", "server_side_encryption": "AES256"}, "without the encryption that uses it"),
        ({"external_id": "x"}, "'external_id' is given without 'role_arn'"),
        ({"sts_endpoint_url": "https://u:very-secret@h", "role_arn": ROLE}, "'sts_endpoint_url' is not the address of a service"),
    ],
)  # fmt: skip
def test_options_that_do_not_fit_together_are_refused_before_anything_is_asked(
    given: dict[str, str], said: str
) -> None:
    with pytest.raises(InvalidOptionError, match=said) as refused:
        refuse_unfit_storage_options("s3://b/t", given)
    assert "very-secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("fs.s3a.access.key", "access_key_id"), ("secret", "secret_access_key"), ("endpoint", "endpoint_url"), ("SSEKMSKeyId", "sse_kms_key_id"),
        ("fs.s3a.assumed.role.arn", "role_arn"), ("fs.s3a.encryption.key", "sse_kms_key_id"), ("fs.s3a.encryption.algorithm", "server_side_encryption"),
    ],
)  # fmt: skip
def test_the_names_of_other_libraries_are_answered_with_ours(written: str, meant: str) -> None:
    with pytest.raises(UnknownOptionError, match=f"Did you mean '{meant}'"):
        S3Options.parse({written: "x"}, "s3://b/t")


@pytest.mark.parametrize(
    ("address", "is_said"),
    [
        ("http://minio:9000", True), ("http://10.0.0.5:9000", True), ("http://store", True), ("http://localhost.example.com", True),
        ("https://minio:9000", False), ("http://127.0.0.1:9000", False), ("http://127.8.8.8", False), ("http://localhost:1", False),
        ("http://[::1]:9000", False), ("http://s3.localhost:9000", False),
    ],
)  # fmt: skip
def test_requests_in_clear_text_to_another_machine_are_said_once(
    address: str, is_said: bool, caplog: pytest.LogCaptureFixture
) -> None:
    _warn.cache_clear()
    for _ in range(2):
        open_storage("s3://b/t", {**KEYS, "endpoint_url": address})
        open_storage("s3://b/another", {**KEYS, "endpoint_url": address})
    warned = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warned) == (1 if is_said else 0)
    assert not [text for text in warned if "S3 at " not in text or "very-secret" in text]


def test_the_address_of_a_lock_and_one_of_the_environment_are_looked_at_too(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    _warn.cache_clear()
    DynamoDb("t", "eu-west-1", "http://dynamo:8000", 1, 1, "", (1, 1), "AKIDEXAMPLE", "very-secret")._client()
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://user:very-secret@store:9000")
    open_storage("s3://b/t", KEYS)
    warn_of_clear_text("http://u:very-secret@sts", "STS")
    warned = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert [record.getMessage().partition(" is asked")[0] for record in warned] == [
        "DynamoDB at dynamo:8000", "S3 at store:9000", "STS at sts",
    ]  # fmt: skip
    assert "very-secret" not in caplog.text
