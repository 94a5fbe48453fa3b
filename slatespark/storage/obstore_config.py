"""Buckets and containers as obstore opens them, by URL and `storage.*` options."""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from slatespark.errors import InvalidRequestError, OptionError
from slatespark.options.values import parse_flag
from slatespark.storage.addressing import AZURE, GOOGLE, PROVIDERS, S3
from slatespark.storage.credentials import BackendOptions
from slatespark.storage.known_options import AZURE_OPTIONS, GOOGLE_OPTIONS, S3_OPTIONS, refuse_unknown_options
from slatespark.storage.s3_config import s3_arguments, s3_place
from slatespark.storage.server_options import is_amazon, server_endpoint, timeout_s, trusted_certificates
from slatespark.storage.shared_clients import SharedClients

_OPTIONS: Final = {S3: S3_OPTIONS, GOOGLE: GOOGLE_OPTIONS, AZURE: AZURE_OPTIONS}

# obstore repeats a request a few times, so that one lost part does not restart a large upload.
_RETRIES: Final = {
    "max_retries": 2,
    "retry_timeout": timedelta(seconds=30),
    "backoff": {"init_backoff": timedelta(milliseconds=50), "max_backoff": timedelta(seconds=1), "base": 2},
}


@dataclass(frozen=True, slots=True)
class Bucket:
    """A bucket or container, and the root of a store in it.

    Attributes
    ----------
    url : URL of the root
    provider : `S3`, `GOOGLE` or `AZURE`
    name, root : names without slashes at the ends
    account : Azure account, if the URL names it
    """

    url: str
    provider: str
    name: str
    root: str
    account: str | None = None


def parse_url(url: str) -> Bucket:
    """Return what a URL names; requires one of `PROVIDERS`."""
    protocol, _, place = url.partition("://")
    host, _, root = place.partition("/")
    container, at, server = host.partition("@")
    account = server.partition(".")[0] if at else None
    return Bucket(url, PROVIDERS[protocol], container, root.strip("/"), account)


def check_options(bucket: Bucket, options: BackendOptions) -> None:
    """Refuse unknown and malformed options; raises `OptionError`."""
    refuse_unknown_options(bucket.provider, options, _OPTIONS[bucket.provider])
    _client_options(bucket, options, _arguments(bucket, options)[1])


def import_obstore() -> Any:
    """Return the module `obstore`."""
    try:
        return importlib.import_module("obstore")
    except ImportError as exc:
        raise InvalidRequestError("obstore is not installed.", why=str(exc), todo="Install it with pip.") from exc


_CLIENTS: Final = SharedClients[Any]()


def open_bucket(bucket: Bucket, options: BackendOptions) -> tuple[Any, str | None]:
    """Return obstore's client of a bucket, and the URL of its server if that is not the provider's own."""
    arguments, endpoint = _arguments(bucket, options)

    def make() -> Any:
        import_obstore()
        module = importlib.import_module("obstore.store")
        kind = {S3: module.S3Store, GOOGLE: module.GCSStore, AZURE: module.AzureStore}[bucket.provider]
        place = s3_place(bucket.name, options, arguments) if bucket.provider == S3 else {}
        client_options = _client_options(bucket, options, endpoint)
        return kind(bucket.name, client_options=client_options, retry_config=_RETRIES, **(arguments | place))

    client = _CLIENTS.get((bucket.provider, bucket.name, bucket.account, endpoint, options.identity()), make)
    return client, None if endpoint is not None and is_amazon(endpoint) else endpoint


def _arguments(bucket: Bucket, options: BackendOptions) -> tuple[dict[str, Any], str | None]:
    """Return the arguments of obstore's client, and the URL of a server other than the provider's own."""
    if bucket.provider == S3:
        arguments, endpoint = s3_arguments(bucket.name, options)
    elif bucket.provider == GOOGLE:
        arguments, endpoint = _google_arguments(options)
    else:
        arguments, endpoint = _azure_arguments(bucket, options)
    if "anon" in options and parse_flag(options["anon"], "storage.anon"):
        arguments["skip_signature"] = True
    return {name: value for name, value in arguments.items() if value is not None}, endpoint


def _client_options(bucket: Bucket, options: Mapping[str, str], endpoint: str | None) -> dict[str, Any]:
    found: dict[str, Any] = {
        "connect_timeout": timedelta(seconds=timeout_s(options, "connect_timeout")),
        "read_timeout": timedelta(seconds=timeout_s(options, "read_timeout")),
        "timeout": timedelta(days=1),  # of a whole request; a slow large one is no failure
    }
    if endpoint is not None and endpoint.startswith("http://"):
        found["allow_http"] = True
    trusted = trusted_certificates(options, "AWS_CA_BUNDLE" if bucket.provider == S3 else None)
    if isinstance(trusted, Path):
        found["root_certificate"] = trusted.read_bytes()
    elif trusted is not None:
        found["allow_invalid_certificates"] = not trusted
    return found


def _google_arguments(options: BackendOptions) -> tuple[dict[str, Any], str | None]:
    endpoint = server_endpoint(options, {})
    return {
        "service_account": options.get("service_account"),
        "service_account_key": options.get("service_account_key"),
        "bearer_token": options.get("token"),
        "base_url": endpoint,
    }, endpoint


def _azure_arguments(bucket: Bucket, options: BackendOptions) -> tuple[dict[str, Any], str | None]:
    connection = _connection_string(options)
    account = bucket.account or options.get("account_name") or connection.get("accountname")
    account = account or os.environ.get("AZURE_STORAGE_ACCOUNT_NAME")
    if account is None:
        raise OptionError(
            f"{bucket.url} names no storage account.",
            todo="Set storage.account_name, or use abfss://container@account.dfs.core.windows.net/path.",
        )
    endpoint = server_endpoint(options, {"BlobEndpoint of the connection string": connection.get("blobendpoint")})
    return {
        "account_name": account,
        "account_key": options.get("account_key") or connection.get("accountkey"),
        "sas_key": options.get("sas_token") or connection.get("sharedaccesssignature"),
        "tenant_id": options.get("tenant_id"),
        "client_id": options.get("client_id"),
        "client_secret": options.get("client_secret"),
        "endpoint": endpoint,
    }, endpoint


def _connection_string(options: Mapping[str, str]) -> dict[str, str]:
    """Return the parts of Azure's `name=value;...`, by lower-case name."""
    text = options.get("connection_string") or os.environ.get("AZURE_STORAGE_CONNECTION_STRING", "")
    pairs = (part.partition("=") for part in text.split(";") if part)
    return {name.strip().lower(): value for name, _, value in pairs}
