"""What options and environment say about a server means the same to every driver, and is refused before a request."""

from __future__ import annotations

from pathlib import Path

import pytest

from slatespark.errors import OptionError
from slatespark.storage import obstore_config, open_store, s3_config
from slatespark.storage.credentials import BackendOptions
from slatespark.storage.obstore_config import parse_url
from slatespark.storage.s3_driver import s3_arguments


@pytest.mark.parametrize("driver", ["obstore", "fsspec"])
def test_python_values_reach_the_drivers(driver: str) -> None:
    given = {"region": 5, "key": 6, "secret": 7, "anon": False, "use_ssl": True, "read_timeout": 20, "verify": False}
    options = BackendOptions({**given, "driver": driver})
    open_store("s3://bucket/t", options)
    if driver == "obstore":
        assert obstore_config._client_options(parse_url("s3://bucket/t"), options, None)["allow_invalid_certificates"]
    else:
        arguments = s3_arguments(options)
        assert arguments["client_kwargs"] == {"region_name": "5", "verify": False}
        assert (arguments["key"], arguments["anon"]) == ("6", False)


NO_SERVERS = [
    "minio:9000",
    "127.0.0.1:9000",
    "nonsense",
    "//minio",
    "ftp://minio",
    "http://",
    "http:minio",
    "http:/minio",
    "http://:80",
    "http://[::1",
    "http://a b",
    "http://é",
    "http://a%20b",
    "http://minio\n",
    "http://minio:99999",
    "http://minio:x",
    "http://minio/a b",
    "http://minio?x",
]
STORES = ["s3://bucket/t", "gs://bucket/t", "abfss://container@account.dfs.core.windows.net/t"]


@pytest.mark.parametrize("endpoint", NO_SERVERS)
def test_an_endpoint_that_is_no_url_of_a_server(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for url in STORES:
        with pytest.raises(OptionError, match=r"storage\.endpoint_url"):
            open_store(url, {"endpoint_url": endpoint})
    with pytest.raises(OptionError, match=r"storage\.endpoint_url"):
        open_store("s3://bucket/t", {"endpoint_url": endpoint, "driver": "fsspec"})
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    for driver in ("obstore", "fsspec"):
        with pytest.raises(OptionError, match="AWS_ENDPOINT_URL"):
            open_store("s3://bucket/t", {"driver": driver})


@pytest.mark.parametrize(
    "endpoint",
    [
        "http://minio:9000",
        "https://minio",
        "HTTP://minio/",
        "http://my_minio-1.lan:65535",
        "http://[::1]:9000/prefix",
        "http://127.0.0.1",
    ],
)
def test_an_endpoint(endpoint: str) -> None:
    for url in STORES:
        open_store(url, {"endpoint_url": endpoint})
    expected = endpoint.replace("HTTP:", "http:")
    assert s3_arguments({"endpoint_url": endpoint})["endpoint_url"] == expected
    allows_http = "allow_http" in obstore_config._client_options(parse_url("s3://bucket"), BackendOptions(), expected)
    assert allows_http is endpoint.lower().startswith("http:")


@pytest.mark.parametrize("endpoint", ["me:hidden@minio:9000", "ftp://me@minio/?hidden", "minio?sig=hidden"])
def test_a_refused_endpoint_shows_no_credentials(endpoint: str) -> None:
    for url in STORES:
        with pytest.raises(OptionError) as caught:
            open_store(url, {"endpoint_url": endpoint})
        assert "hidden" not in str(caught.value)


def test_an_empty_endpoint_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The credentials of another server would go to the provider."""
    for url in STORES:
        with pytest.raises(OptionError, match="is empty"):
            open_store(url, {"endpoint_url": ""})
    with pytest.raises(OptionError, match="is empty"):
        open_store("s3://bucket/t", {"endpoint_url": "", "driver": "fsspec"})
    monkeypatch.setenv("AWS_ENDPOINT_URL", "")  # is the usual way to have none
    open_store("s3://bucket/t")


def test_endpoints_of_a_profile_and_of_a_connection_string(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ENDPOINT_URL_S3", "ENDPOINT_URL", "ENDPOINT"):
        monkeypatch.delenv(f"AWS_{name}", raising=False)
    (tmp_path / "config").write_text("[profile mine]\nendpoint_url = minio:9000\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    with pytest.raises(OptionError, match="profile"):
        open_store("s3://bucket/t", {"profile": "mine"})
    with pytest.raises(OptionError, match="BlobEndpoint"):
        open_store(
            "az://container/t", {"connection_string": "AccountName=a;AccountKey=a2V5;BlobEndpoint=azurite:10000"}
        )


@pytest.mark.parametrize(
    ("endpoint", "style", "expected"),
    [
        ("http://minio:9000", "virtual", "http://bucket.minio:9000"),
        ("http://localhost:9000", "virtual", "http://bucket.localhost:9000"),
        ("http://127.0.0.1:9000", "virtual", "http://127.0.0.1:9000"),
        ("http://[::1]:9000", "virtual", "http://[::1]:9000"),
        ("http://minio:9000", "auto", "http://minio:9000"),
    ],
)
def test_the_bucket_is_no_name_below_an_address(endpoint: str, style: str, expected: str) -> None:
    options = BackendOptions({"endpoint_url": endpoint, "addressing_style": style})
    arguments, server = s3_config.s3_arguments("bucket", options)
    assert (arguments["endpoint"], server) == (expected, endpoint)
    assert arguments["virtual_hosted_style_request"] is ("bucket." in expected)


@pytest.mark.parametrize("driver", ["obstore", "fsspec"])
@pytest.mark.parametrize("is_variable", [False, True])
def test_certificates_that_cannot_be_used(
    driver: str, is_variable: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "empty.pem").write_text("no certificate")
    for name in ("absent.pem", "empty.pem", "."):
        place = str(tmp_path / name)
        if is_variable:
            monkeypatch.setenv("AWS_CA_BUNDLE", place)
        options = {"driver": driver} if is_variable else {"driver": driver, "verify": place}
        with pytest.raises(OptionError, match="AWS_CA_BUNDLE" if is_variable else r"storage\.verify"):
            open_store("s3://bucket/t", options)


@pytest.mark.parametrize("url", ["gs://bucket/t", "abfss://container@account.dfs.core.windows.net/t"])
def test_certificates_of_other_stores(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_CA_BUNDLE", "/nonexistent")  # not theirs
    open_store(url)
    with pytest.raises(OptionError, match=r"storage\.verify"):
        open_store(url, {"verify": "/nonexistent"})
