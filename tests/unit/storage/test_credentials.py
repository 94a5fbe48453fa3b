from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from slatespark.errors import InvalidRequestError, OptionError
from slatespark.storage import open_store
from slatespark.storage.credentials import BackendOptions

SECRETS = {"key": "AKIAEXAMPLE", "secret": "s3cr3t/with+signs", "token": "t0ken-value"}


def test_options_show_only_their_names() -> None:
    options = BackendOptions({**SECRETS, "Region": "eu-west-1", "root": "s3://elsewhere"})
    assert repr(options) == "BackendOptions(key, secret, token, region)"
    assert dict(options) == {**SECRETS, "region": "eu-west-1"}


def test_python_values_are_as_their_text() -> None:
    options = BackendOptions({"verify": False, "anon": True, "read_timeout": 1.5, "key": 5, "token": None, "Root": 1})
    assert dict(options) == {"verify": "false", "anon": "true", "read_timeout": "1.5", "key": "5"}
    assert dict(BackendOptions({"verify": Path("ca.pem")})) == {"verify": "ca.pem"}


@pytest.mark.parametrize("value", [b"hidden", ["hidden"], {"hidden": "x"}])
def test_other_values_are_refused(value: object) -> None:
    with pytest.raises(OptionError, match=r"storage\.secret") as caught:
        open_store("s3://bucket/t", {"Secret": value})
    assert "hidden" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "name"),
    [
        *(("s3://bucket/t", name) for name in ("key", "secret", "token", "region", "kms_key_id")),
        ("gs://bucket/t", "token"),
        *(("az://container/t", name) for name in ("account_name", "account_key", "sas_token", "client_id")),
    ],
)
@pytest.mark.parametrize("value", ["hidden\n", "hid\rden", "hidden\x00", "\x7fhidden"])
def test_control_characters_are_refused(url: str, name: str, value: str) -> None:
    options = {"key": "k", "secret": "s"} if url.startswith("s3:") else {}
    with pytest.raises(OptionError, match=rf"storage\.{name} has") as caught:
        open_store(url, {**options, name: value})
    assert "hid" not in str(caught.value)


def test_the_content_of_a_key_file_has_lines() -> None:
    open_store("gs://bucket/t", {"service_account_key": '{\n  "type": "service_account"\n}\n'})
    open_store("az://container/t", {"connection_string": "AccountName=a;AccountKey=a2V5;EndpointSuffix=x.net\n"})


@pytest.mark.parametrize("name", ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_REGION"])
def test_control_characters_in_the_environment(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "k")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s")
    monkeypatch.setenv(name, "hidden\n")
    with pytest.raises(OptionError, match=name) as caught:
        open_store("s3://bucket/t", {"driver": "obstore", "endpoint_url": "http://127.0.0.1:9"}).list("")
    assert "hidden" not in str(caught.value)


def test_a_store_shows_no_secrets() -> None:
    store = open_store("s3://bucket/t", SECRETS)
    again = pickle.loads(pickle.dumps(store))
    for text in (repr(store), store.url, repr(again), str(pickle.dumps(store)), repr(vars(store))):
        assert not any(secret in text for secret in SECRETS.values())
    assert dict(again._options) == SECRETS


def test_masking(monkeypatch: pytest.MonkeyPatch) -> None:
    options = BackendOptions({"secret": "long-secret", "key": "long", "region": "eu-west-1", "token": "abc"})
    assert options.mask("long-secret long eu-west-1 abc") == "*** *** eu-west-1 abc"
    assert options.mask("to http://me:pw@host/x") == "to http://***@host/x"
    assert options.mask("mail me@host: http://host:80/a@b") == "mail me@host: http://host:80/a@b"
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "from-the-environment")
    assert options.mask("from-the-environment") == "***"


@pytest.mark.parametrize(
    "url",
    [
        "s3://AKIAEXAMPLE:hidden-secret@bucket/table",
        "s3a://AKIAEXAMPLE:hidden/with/slash-secret@bucket/table",
        "ftp://me:hidden-secret@host/table",
        "https://me:hidden-secret@host:8080/table",
    ],
)
def test_credentials_in_urls_are_refused(url: str) -> None:
    with pytest.raises(InvalidRequestError, match=r"storage\.key") as caught:
        open_store(url)
    assert "hidden" not in str(caught.value)
    assert "secret@" not in str(caught.value)


def test_credentials_in_the_endpoint_are_refused() -> None:
    with pytest.raises(InvalidRequestError) as caught:
        open_store("s3://bucket/t", {"endpoint_url": "http://me:hidden@minio:9000"})
    assert "hidden" not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "abfss://container@account.dfs.core.windows.net/t",
        "s3://arn:aws:s3:eu-west-1:123456789012:accesspoint/mine/t@x",
        "https://host:8080/a:b@c",
        "s3://bucket/a:b@c",
    ],
)
def test_urls_without_credentials_are_accepted(url: str) -> None:
    assert open_store(url).url == url


def test_unknown_and_malformed_options() -> None:
    for options, text in (
        ({"secrte": "hidden"}, r"storage\.secret\?"),
        ({"anon": "hidden"}, "storage.anon"),
        ({"read_timeout": "-1"}, "storage.read_timeout"),
        ({"addressing_style": "odd"}, "storage.addressing_style"),
    ):
        with pytest.raises(OptionError, match=text):
            open_store("s3://bucket/t", options)
