"""What options and environment say about a server means the same to every driver, and is refused before a request."""

from __future__ import annotations

from pathlib import Path

import pytest

from slatespark.errors import OptionError
from slatespark.storage import obstore_config, open_store
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
