"""Secrets are masked by as many stars, and what is none stays as it is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyhudi_core.errors import ConfigError
from pyhudi_core.model.masking import is_secret, masked, masked_text
from pyhudi_core.storage.paths import parse_location

SECRET = "wJalrXUtnFEMI0000000SECRET"


@pytest.mark.parametrize(
    "text",
    [
        f"https://user:{SECRET}@host/path", f"jdbc://root:{SECRET}@db:5432/x", f"s3://AKIAIOSFODNN7EXAMPLE:{SECRET}@bucket",
        f"AKIAIOSFODNN7EXAMPLE:{SECRET}@bucket", f"https://h/x?X-Amz-Signature={SECRET}&a=b", f"https://h/x?a=b&sig={SECRET}",
        f"h%3FX-Amz-Signature%3D{SECRET}/x", f"fs.s3a.secret.key={SECRET}", f"aws_secret_access_key = {SECRET}", f'{{"password": "{SECRET}"}}',
        f"fs.azure.account.key.x.net={SECRET}", f"hoodie.aws.session.token={SECRET}", f"PASSWORD:{SECRET}", f"'api_key': '{SECRET}'",
    ],
)  # fmt: skip
def test_secrets_are_masked(text: str) -> None:
    found = masked_text(text)
    assert SECRET not in found
    assert len(found) == len(text)


@pytest.mark.parametrize(
    "text",
    [
        "hoodie.table.recordkey.fields=id", "hoodie.table.keygenerator.type=SIMPLE", "s3://bucket/key=value/file.parquet", "day=2026-01-01/x.parquet",
        '{"name":"password_hash","type":"string"}', "the token 20260101000000000-0123456789abcdef", "/lake/orders", "https://host:8080/path",
        "jdbc:oracle:thin:@h:1521:x", "abfss://container@account.dfs.core.windows.net/x", "digest:sha256:0123", "valid_token=5", "s3://bucket/day%3D1/x",
        '{"name"\\:"secret","type"\\:"string"}',
        "partition token=5", "token=5/f.parquet", "day=1/token=abcdefghijklmnop12345/x.parquet", "token=abcdefghijklmnop12345/x.parquet", "token: int64 not null", "sig=5", "pass=3",
        "tests pass: 3, fail: 4", "mkdir -p folder", "--password-file /etc/x", "the password is wrong", "authorization: denied", "hf_models", "--api-key --verbose",
    ],
)  # fmt: skip
def test_other_texts_stay(text: str) -> None:
    assert masked_text(text) == text


def test_access_key_ids_are_masked() -> None:
    assert masked(b"id AKIAIOSFODNN7EXAMPLE.") == b"id " + b"*" * 20 + b"."


@given(st.binary(max_size=400))
def test_any_bytes_keep_their_length(data: bytes) -> None:
    assert len(masked(data)) == len(data)


@pytest.mark.parametrize("key", ["password", "fs.s3a.secret.key", "aws.session_token", "db-password", "SECRET"])
def test_names_of_secrets_are_known(key: str) -> None:
    assert is_secret(key)


@pytest.mark.parametrize("key", ["schema", "pyhudi.commit_token", "recordkey", "secretary", "operationType"])
def test_names_of_other_options_are_not(key: str) -> None:
    assert not is_secret(key)


@pytest.mark.parametrize(
    "location", [f"s3://AKIAIOSFODNN7EXAMPLE:{SECRET}@bucket/t", f"s3://user:{SECRET}@bucket", f"https://user:{SECRET}@host/t", f"file://user:{SECRET}@host/t",
                 f"abfss://c@a.dfs.core.windows.net/t?sv=2020&sig={SECRET}%3D", f"https://a.blob.core.windows.net/c/t?sv=2020&SIG={SECRET}", f"s3://bucket/t?X-Amz-Signature={SECRET}"]
)  # fmt: skip
def test_a_location_with_credentials_is_refused_without_repeating_them(location: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_location(location)
    assert SECRET not in str(caught.value)
    assert caught.value.hint


def test_a_path_that_looks_like_an_option_is_kept_as_it_is() -> None:
    assert parse_location("/lake/password=x/t").path == "/lake/password=x/t"
    assert parse_location("file:/lake/secret=x/t").path == "/lake/secret=x/t"
    assert parse_location("s3://bucket/api_key=x/t").path == "api_key=x/t"


@pytest.mark.parametrize("text", [f"s3://user:{'x' * 900}@host", f"s3://user:{'x' * 3000}@host", f"s3://user:one@two{'x' * 80}@host", f"password={'x' * 5000}"])  # fmt: skip
@pytest.mark.parametrize("most", [None, 40, 200, 950])
def test_a_long_secret_is_masked_to_its_end_also_if_it_is_cut(text: str, most: int | None) -> None:
    found = masked_text(text, most)
    assert len(found) == min(len(text), most or len(text))
    assert "x" not in found
    assert found.startswith(text[:5])
    assert most or found.endswith(text[-3:] if "host" in text else "*")


S = "SeCrEt9271x"
SHAPES = [
    f"-----BEGIN PRIVATE KEY-----\nMII{S}\n-----END PRIVATE KEY-----", f"-----BEGIN RSA PRIVATE KEY-----\\nMII{S}\\n-----END RSA PRIVATE KEY-----",
    f"-----BEGIN ENCRYPTED PRIVATE KEY-----\nMII\n{S}", f"-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\n{S}\n-----END RSA PRIVATE KEY-----",
    f"Authorization: Bearer {S}0123456789", f'{{"Authorization": "Basic {S}0123456789="}}', f"host=db password='two {S}' user=x", f'password="abc\\"{S}"',
    f'{{\\"secret_access_key\\": \\"{S}\\"}}', f'{{"refresh_token":\n  "{S}"}}', f"access_token={S}", f"passphrase={S}", f"password => {S}", f"password := {S}",
    f"<SecretAccessKey>{S}</SecretAccessKey>", f"redis://:{S}@host", f"https://:{S}@host/", f"fs.azure.sas.container.account.blob.core.windows.net: {S}",
    f'{{"passwords": ["a]", "{S}"], "x": 1}}', f"passwords=['a', '{S}']", f"passwords: [a, {S}]", f'{{"passwords": [\n  "a",\n  "{S}"\n]}}',
    f"jdbc:oracle:thin:u/{S}@", f"jdbc:oracle:thin:u/x@{S}@//h:1521/x", f"digest:user:{S}", f"add_auth('digest', 'user:{S}')", f"https://{S}@host/p",
    f"id_token={S}", f"idToken: {S}", f"password: |\n  {S}\nnext: 1", f"  password: >-\n    a\n\n    {S}\nnext: 1", f"passwords:\n  - a\n  - {S}\nnext: 1",
    f"password%3D{S}", f"a%26password%253d{S}", f"{{b'password': b'{S}'}}", f"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOjF9.{S}", f"passcode={S}", f"password%22%3A%20%22{S}",
    f"SECRET_ACCESS_KEY={S}", f"{{'SESSION_TOKEN': '{S}'}}", f"https://a.blob.core.windows.net/c?SIG={S}%2Babc%3D&se=2026", f"AccountKey={S}+/==;EndpointSuffix=x",
    f"--password {S}", f"--db-password 'two {S}' -x", f"-secret-key {S}", f"--secret-key\n{S}", f"['--password', '{S}']", f'"--api-key", "{S}"', f"-passin pass:{S}",
    f"token={S}012345", f"'token': '{S}012345'", f"<Token>{S}012345</Token>", f"sv=2020&se=1 sig={S}012345%3D", f"oauth={S}012345", f'"pass": "{S}012345"',
    f"abfss://c@a.dfs.core.windows.net/t?sv=2020&sig={S}%3D", f"https%3A%2F%2Fu%3A{S}%40host", f"https://u%3A{S}%40host/p", f"x?X-Goog-Signature={S}",
    f"Authorization: {S}01234567", f"authorization=Token {S}", f"Authorization: Digest username=x, response={S}", f"X-Vault-Token: {S}", f"x-amz-security-token: {S}",
    f"ghp_{S}0123456789", f"xoxb-{S}0123456789", f"jdbc:sqlserver://h:1433;user=sa;password={S};encrypt=true", f"jdbc:hive2://h:1/x;user=u;password={S}",
]  # fmt: skip


@pytest.mark.parametrize("text", SHAPES)
def test_secrets_are_masked_in_every_shape_in_which_they_are_written(text: str) -> None:
    shown = masked_text(f"it failed: {text}")
    assert S not in shown
    assert len(shown) == len(f"it failed: {text}")
    assert masked_text(shown) == shown


def test_what_stands_behind_a_secret_in_quotes_is_shown() -> None:
    shown = masked_text(
        """{'password': 'a b', 'region': 'eu'} {\\"secret_key\\": \\"x\\", \\"host\\": \\"h\\"} price > 5, basic authentication"""
    )
    expected = """{'password': '***', 'region': 'eu'} {\\"secret_key\\": \\"*\\", \\"host\\": \\"h\\"} price > 5, basic authentication"""
    assert shown == expected


def test_what_stands_behind_a_list_or_a_block_of_secrets_is_shown() -> None:
    assert masked_text("passwords=['a', 'b'], region=eu") == "passwords=**********, region=eu"
    assert masked_text("password: |\n  a\n  b\nregion: eu") == "password: *********\nregion: eu"
    assert masked_text("passwords:\n- a\n- b\nregion: eu") == "passwords:\n*******\nregion: eu"
