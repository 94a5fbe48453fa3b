from __future__ import annotations

import pytest

from slatespark.spark.hadoop_settings import hadoop_options
from slatespark.storage import open_store

TWO_KEYS = {"fs.s3a.access.key": "k", "fs.s3a.bucket.b.access.key": "own", "fs.s3a.secret.key": "s"}
AZURE = "abfss://lake@acme.dfs.core.windows.net/t"


@pytest.mark.parametrize(
    ("path", "settings", "expected"),
    [
        ("s3a://b/t", {}, {}),
        ("s3a://b/t", {"fs.s3a.access.key": "k", "fs.s3a.secret.key": "s"}, {"key": "k", "secret": "s"}),
        ("s3a://b/t", TWO_KEYS, {"key": "own", "secret": "s"}),
        ("s3a://c/t", TWO_KEYS, {"key": "k", "secret": "s"}),
        (
            "s3://b",
            {"fs.s3a.endpoint": "h:1", "fs.s3a.connection.ssl.enabled": "false"},
            {"endpoint_url": "http://h:1"},
        ),
        (
            "s3a://b",
            {"fs.s3a.encryption.algorithm": "SSE-KMS", "fs.s3a.encryption.key": "arn"},
            {"server_side_encryption": "aws:kms", "kms_key_id": "arn"},
        ),
        ("s3a://b", {"fs.s3a.requester.pays.enabled": "true"}, {"requester_pays": "true"}),
        ("s3a://b", {"fs.gs.auth.type": "UNAUTHENTICATED", "fs.azure.account.key": "k"}, {}),
        (
            AZURE,
            {"fs.azure.account.key.acme.dfs.core.windows.net": "k", "fs.azure.account.key": "x"},
            {"account_key": "k"},
        ),
        (AZURE, {"fs.azure.account.key.acme.blob.core.windows.net": "k"}, {"account_key": "k"}),
        (AZURE, {"fs.azure.account.key.other.dfs.core.windows.net": "k"}, {}),
        (AZURE, {"fs.azure.sas.fixed.token.acme.dfs.core.windows.net": "?sv=1&sig=2"}, {"sas_token": "sv=1&sig=2"}),
        (
            AZURE,
            {
                "fs.azure.account.oauth2.client.id.acme.dfs.core.windows.net": "id",
                "fs.azure.account.oauth2.client.secret.acme.dfs.core.windows.net": "secret",
                "fs.azure.account.oauth2.client.endpoint": "https://login.microsoftonline.com/tenant/oauth2/token",
            },
            {"client_id": "id", "client_secret": "secret", "tenant_id": "tenant"},
        ),
        (AZURE, {"fs.azure.account.oauth2.msi.tenant": "t"}, {"tenant_id": "t"}),
        ("gs://b", {"fs.gs.auth.service.account.json.keyfile": "/k"}, {"service_account": "/k"}),
        ("gs://b", {"google.cloud.auth.service.account.json.keyfile": "/k"}, {"service_account": "/k"}),
        (
            "gs://b",
            {"fs.gs.auth.type": "unauthenticated", "fs.gs.storage.root.url": "http://h/"},
            {"anon": "true", "endpoint_url": "http://h"},
        ),
        ("/some/folder", {"fs.s3a.access.key": "k"}, {}),
    ],
)
def test_what_hadoop_is_told_is_what_we_are_told(
    path: str, settings: dict[str, str], expected: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = hadoop_options(path, lambda name: settings.get(name, ""))
    assert found == expected
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "acme")
    open_store(path, found)  # which refuses options that it does not know
