"""What Hadoop's connectors are told about a store, as `storage.*` options: `fs.s3a.*`, `fs.azure.*` and `fs.gs.*`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

Setting: TypeAlias = Callable[[str], str]  # the value of a setting by its full name; empty without one

_S3_TEXTS: Final = {
    "key": "access.key",
    "secret": "secret.key",
    "token": "session.token",
    "region": "endpoint.region",
    "kms_key_id": "encryption.key",
}
_S3_ENCRYPTION: Final = {"SSE-S3": "AES256", "AES256": "AES256", "SSE-KMS": "aws:kms"}
_ANONYMOUS: Final = ("AnonymousAWSCredentialsProvider", "AnonymousCredentialsProvider")

_AZURE_HOSTS: Final = ("dfs.core.windows.net", "blob.core.windows.net")


def hadoop_options(path: str, setting: Setting) -> dict[str, str]:
    """Return options for a table at `path`, without the prefix `storage.`; its protocol says whose settings count."""
    protocol, _, place = path.partition("://")
    bucket = place.partition("/")[0]
    match protocol.lower():
        case "s3" | "s3a":
            return _s3_options(bucket, setting)
        case "az" | "abfs" | "abfss":
            return _azure_options(bucket, setting)
        case "gs" | "gcs":
            return _google_options(setting)
    return {}


def _s3_options(bucket: str, setting: Setting) -> dict[str, str]:
    def of(name: str) -> str:
        own = setting(f"fs.s3a.bucket.{bucket}.{name}") if bucket else ""
        return own or setting(f"fs.s3a.{name}")

    options = {option: value for option, name in _S3_TEXTS.items() if (value := of(name))}
    with_tls = of("connection.ssl.enabled").lower() != "false"
    if endpoint := of("endpoint"):
        options["endpoint_url"] = endpoint if "://" in endpoint else f"http{'s' * with_tls}://{endpoint}"
    elif not with_tls:
        options["use_ssl"] = "false"
    if of("path.style.access").lower() == "true":
        options["addressing_style"] = "path"
    if of("requester.pays.enabled").lower() == "true":
        options["requester_pays"] = "true"
    if encryption := _S3_ENCRYPTION.get(of("encryption.algorithm")):
        options["server_side_encryption"] = encryption
    first_provider = of("aws.credentials.provider").split(",")[0].strip()
    if first_provider.rpartition(".")[2] in _ANONYMOUS:
        options["anon"] = "true"
    return options


def _azure_options(container: str, setting: Setting) -> dict[str, str]:
    account = container.partition("@")[2].partition(".")[0]

    def of(*names: str) -> str:
        found = (setting(full) for name in names for full in _azure_names(name, account))
        return next(filter(None, found), "")

    if key := of("fs.azure.account.key"):
        return {"account_key": key}
    if signature := of("fs.azure.sas.fixed.token"):
        return {"sas_token": signature.removeprefix("?")}
    options = {
        "client_id": of("fs.azure.account.oauth2.client.id"),
        "client_secret": of("fs.azure.account.oauth2.client.secret"),
        "tenant_id": of("fs.azure.account.oauth2.msi.tenant"),
    }
    # https://login.microsoftonline.com/TENANT/oauth2/token
    address = of("fs.azure.account.oauth2.client.endpoint").partition("://")[2].split("/")
    if len(address) > 1:
        options["tenant_id"] = address[1]
    return {option: value for option, value in options.items() if value}


def _azure_names(name: str, account: str) -> Sequence[str]:
    return [*(f"{name}.{account}.{host}" for host in _AZURE_HOSTS if account), name]


def _google_options(setting: Setting) -> dict[str, str]:
    options = {
        "service_account": setting("fs.gs.auth.service.account.json.keyfile")
        or setting("google.cloud.auth.service.account.json.keyfile"),
        "endpoint_url": setting("fs.gs.storage.root.url").rstrip("/"),
        "anon": "true" if setting("fs.gs.auth.type").upper() == "UNAUTHENTICATED" else "",
    }
    return {option: value for option, value in options.items() if value}
