"""Which credentials, server and region are used for S3, by what users have: the same through both drivers."""

from __future__ import annotations

import hashlib
import itertools
import json
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import botocore.configloader
import pytest
from botocore.credentials import SSOProvider

from slatespark.errors import InvalidRequestError, OptionError
from slatespark.storage import open_store, s3_config
from slatespark.storage.credentials import BackendOptions
from slatespark.storage.driver import driver_name
from slatespark.storage.object_store import ObjectStore
from slatespark.storage.s3_config import bucket_region, s3_arguments, s3_place
from slatespark.table.clock import SystemClock
from tests.support.moto_server import MotoServer
from tests.support.server_process import QueueingServer
from tests.unit.storage.faulty_proxy import FaultyProxy

pytestmark = pytest.mark.s3

_names = itertools.count()
_waits = itertools.count(20)  # options that differ share no connection, and so no credentials

KEYS = {"AccessKeyId": "FOUND-KEY", "SecretAccessKey": "found-secret", "Token": "found-token"}


class Cloud:
    """Answers what services of a cloud are asked for; anything else is not found."""

    def __init__(self) -> None:
        self.answers: dict[str, tuple[int, dict[str, str], bytes]] = {}
        self.asked: list[str] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_any(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                server.asked.append(self.path)
                path = self.path.partition("?")[0]
                status, headers, body = server.answers.get(path, (404, {}, b""))
                self.send_response(status)
                for name, value in {**headers, "Content-Length": str(len(body))}.items():
                    self.send_header(name, value)
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body)

            do_GET = do_PUT = do_POST = do_HEAD = do_any  # noqa: N815 - names of the base class

            def log_message(self, *_: object) -> None:
                pass

        self.server = QueueingServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def answer(self, path: str, body: str, **headers: str) -> None:
        self.answers[path] = (200, headers, body.encode())


@pytest.fixture
def cloud() -> Iterator[Cloud]:
    cloud = Cloud()
    thread = threading.Thread(target=cloud.server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield cloud
    cloud.server.shutdown()
    cloud.server.server_close()
    thread.join()


class Home:
    """The environment of a user who has nothing yet."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.folder, self.patch = folder, patch
        for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "SESSION_TOKEN", "PROFILE", "REGION", "DEFAULT_REGION"):
            patch.delenv(f"AWS_{name}", raising=False)
        for name in ("ENDPOINT", "ENDPOINT_URL", "ENDPOINT_URL_S3"):
            patch.delenv(f"AWS_{name}", raising=False)
        patch.setenv("HOME", str(folder))
        patch.setenv("AWS_CONFIG_FILE", str(folder / "config"))
        patch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(folder / "credentials"))
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")

    def config(self, text: str) -> None:
        (self.folder / "config").write_text(text)

    def keys(self, text: str) -> None:
        (self.folder / "credentials").write_text(text)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    return Home(tmp_path, monkeypatch)


def expires(ahead: timedelta = timedelta(hours=6)) -> str:
    return f"{datetime.fromtimestamp(SystemClock().now_ms() // 1000, UTC) + ahead:%Y-%m-%dT%H:%M:%SZ}"


# --- where credentials come from ------------------------------------------------------------------------------------


def in_variables(home: Home, _: Cloud) -> dict[str, str]:
    home.patch.setenv("AWS_ACCESS_KEY_ID", "FOUND-KEY")
    home.patch.setenv("AWS_SECRET_ACCESS_KEY", "found-secret")
    home.patch.setenv("AWS_SESSION_TOKEN", "found-token")
    return {}


def in_options(home: Home, cloud: Cloud) -> dict[str, str]:
    in_variables(home, cloud)  # not these
    home.patch.setenv("AWS_ACCESS_KEY_ID", "OTHER-KEY")
    return {"key": "FOUND-KEY", "secret": "found-secret", "token": "found-token"}


def in_the_default_profile(home: Home, _: Cloud) -> dict[str, str]:
    home.keys(
        "[default]\naws_access_key_id=FOUND-KEY\naws_secret_access_key=found-secret\naws_session_token=found-token\n"
    )
    return {}


def in_a_profile(home: Home, cloud: Cloud) -> dict[str, str]:
    in_variables(home, cloud)  # a profile that is asked for goes before them
    home.patch.setenv("AWS_ACCESS_KEY_ID", "OTHER-KEY")
    home.keys(
        "[mine]\naws_access_key_id=FOUND-KEY\naws_secret_access_key=found-secret\naws_session_token=found-token\n"
    )
    return {"profile": "mine"}


def in_the_profile_of_the_environment(home: Home, _: Cloud) -> dict[str, str]:
    home.patch.setenv("AWS_PROFILE", "mine")
    home.keys(
        "[mine]\naws_access_key_id=FOUND-KEY\naws_secret_access_key=found-secret\naws_session_token=found-token\n"
    )
    return {}


def by_a_program(home: Home, _: Cloud) -> dict[str, str]:
    found = {**KEYS, "SessionToken": KEYS["Token"], "Expiration": expires(), "Version": 1}
    (home.folder / "keys.json").write_text(json.dumps(found))
    home.config(f"[profile mine]\ncredential_process = cat {home.folder}/keys.json\n")
    return {"profile": "mine"}


def by_assuming_a_role(home: Home, cloud: Cloud) -> dict[str, str]:
    home.patch.setenv("AWS_ENDPOINT_URL_STS", cloud.url)
    home.config(
        "[profile mine]\nrole_arn = arn:aws:iam::123456789012:role/reader\nsource_profile = base\nregion = us-east-1\n"
    )
    home.keys("[base]\naws_access_key_id=BASE-KEY\naws_secret_access_key=base-secret\n")
    cloud.answer(
        "/",
        "<AssumeRoleResponse xmlns='https://sts.amazonaws.com/doc/2011-06-15/'><AssumeRoleResult><Credentials>"
        "<AccessKeyId>FOUND-KEY</AccessKeyId><SecretAccessKey>found-secret</SecretAccessKey>"
        f"<SessionToken>found-token</SessionToken><Expiration>{expires()}</Expiration>"
        "</Credentials></AssumeRoleResult></AssumeRoleResponse>",
    )
    return {"profile": "mine"}


def by_single_sign_on(home: Home, cloud: Cloud) -> dict[str, str]:
    home.patch.setenv("AWS_ENDPOINT_URL_SSO", cloud.url)
    start = "https://acme.awsapps.com/start"
    home.config(
        f"[profile mine]\nsso_start_url = {start}\nsso_region = us-east-1\nsso_account_id = 123456789012\n"
        "sso_role_name = reader\nregion = us-east-1\n"
    )
    cache = home.folder / "sso"
    cache.mkdir()
    home.patch.setattr(SSOProvider, "_SSO_TOKEN_CACHE_DIR", str(cache))  # fixed when botocore is imported
    token = {"startUrl": start, "region": "us-east-1", "accessToken": "signed-on", "expiresAt": expires()}
    name = hashlib.sha1(start.encode()).hexdigest()  # as Amazon's tools name it
    (cache / f"{name}.json").write_text(json.dumps(token))
    expiry_ms = SystemClock().now_ms() + 6 * 3_600_000
    keys = {"accessKeyId": "FOUND-KEY", "secretAccessKey": "found-secret", "sessionToken": "found-token"}
    cloud.answer("/federation/credentials", json.dumps({"roleCredentials": {**keys, "expiration": expiry_ms}}))
    return {"profile": "mine"}


def of_the_pod(home: Home, cloud: Cloud) -> dict[str, str]:
    home.patch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{cloud.url}/pod")
    cloud.answer("/pod", json.dumps({**KEYS, "Expiration": expires()}))
    return {}


def of_the_instance(home: Home, cloud: Cloud) -> dict[str, str]:
    home.patch.setenv("AWS_EC2_METADATA_DISABLED", "false")
    home.patch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", cloud.url)
    cloud.answer("/latest/api/token", "metadata-token")
    cloud.answer("/latest/meta-data/iam/security-credentials/", "reader")
    found = {**KEYS, "Code": "Success", "Expiration": expires(), "LastUpdated": expires(timedelta(0))}
    cloud.answer("/latest/meta-data/iam/security-credentials/reader", json.dumps(found))
    return {}


SOURCES: list[Callable[[Home, Cloud], dict[str, str]]] = [
    in_options,
    in_variables,
    in_the_default_profile,
    in_a_profile,
    in_the_profile_of_the_environment,
    by_a_program,
    by_assuming_a_role,
    by_single_sign_on,
    of_the_pod,
    of_the_instance,
]


def open_through(
    proxy: FaultyProxy, driver: str, options: dict[str, str], bucket: str = "s3://bucket/t"
) -> ObjectStore:
    given = {"endpoint_url": proxy.endpoint, "region": "us-east-1", "driver": driver, "read_timeout": f"{next(_waits)}"}
    return open_store(bucket, {**given, **options})


@pytest.mark.parametrize("driver", ["obstore", "fsspec"])
@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.__name__)
def test_credentials(
    source: Callable[[Home, Cloud], dict[str, str]],
    driver: str,
    home: Home,
    cloud: Cloud,
    proxy: FaultyProxy,
    moto_server: MotoServer,
) -> None:
    url = moto_server.create_bucket(f"credentials-{next(_names)}")
    store = open_through(proxy, driver, source(home, cloud), url)
    store.put("x", [b"1"])
    assert store.get("x") == b"1"
    for sent in proxy.headers:
        assert "Credential=FOUND-KEY/" in sent["authorization"]
        assert sent["x-amz-security-token"] == "found-token"


@pytest.mark.parametrize("driver", ["obstore", "fsspec"])
def test_keys_of_the_options_go_without_a_token_of_the_environment(
    driver: str, home: Home, cloud: Cloud, proxy: FaultyProxy, moto_server: MotoServer
) -> None:
    in_variables(home, cloud)
    url = moto_server.create_bucket(f"credentials-{next(_names)}")
    open_through(proxy, driver, {"key": "FOUND-KEY", "secret": "found-secret"}, url).put("x", [b"1"])
    [sent] = proxy.headers
    assert "Credential=FOUND-KEY/" in sent["authorization"]
    assert "x-amz-security-token" not in sent


@pytest.mark.parametrize("driver", ["obstore", "fsspec"])
def test_anonymous_requests_are_not_signed(
    driver: str, home: Home, cloud: Cloud, proxy: FaultyProxy, moto_server: MotoServer
) -> None:
    in_variables(home, cloud)
    url = moto_server.create_bucket(f"credentials-{next(_names)}")
    assert open_through(proxy, driver, {"anon": "true"}, url).list("") == []
    assert ["authorization" in sent for sent in proxy.headers] == [False]


@pytest.mark.parametrize("driver", ["obstore", "fsspec"])
def test_no_credentials(driver: str, home: Home, proxy: FaultyProxy) -> None:
    with pytest.raises(InvalidRequestError, match="credentials"):
        open_through(proxy, driver, {}).list("")
    assert proxy.requests == []


@pytest.mark.parametrize("driver", ["obstore", "fsspec"])
def test_a_profile_that_does_not_exist(driver: str, home: Home, proxy: FaultyProxy) -> None:
    with pytest.raises(InvalidRequestError):
        open_through(proxy, driver, {"profile": "nobody"}).list("")
    home.config("[profile mine]\nregion = eu-central-1\n")
    with pytest.raises(InvalidRequestError):
        open_through(proxy, driver, {"profile": "nobody"}).list("")


@pytest.mark.parametrize("driver", ["obstore", "fsspec"])
@pytest.mark.parametrize(("ahead", "calls"), [(timedelta(hours=6), 1), (timedelta(minutes=1), 3)])
def test_credentials_that_expire_are_renewed(
    ahead: timedelta, calls: int, driver: str, home: Home, cloud: Cloud, proxy: FaultyProxy, moto_server: MotoServer
) -> None:
    home.patch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{cloud.url}/pod")
    cloud.answer("/pod", json.dumps({**KEYS, "Expiration": expires(ahead)}))
    store = open_through(proxy, driver, {}, moto_server.create_bucket(f"credentials-{next(_names)}"))
    store.put("x", [b"1"])
    renewed = {**KEYS, "AccessKeyId": "RENEWED-KEY", "Expiration": expires(ahead)}
    cloud.answer("/pod", json.dumps(renewed))
    time.sleep(0.2)  # obstore asks ten times a second at most
    assert [bytes(store.get("x")) for _ in range(2)] == [b"1", b"1"]
    assert len(cloud.asked) >= calls
    assert ("RENEWED-KEY" in proxy.headers[-1]["authorization"]) == (calls > 1)


# --- server and region ----------------------------------------------------------------------------------------------


def placed(bucket: str, **options: str) -> dict[str, object]:
    given = BackendOptions({"region": "eu-west-1", "key": "k", "secret": "s", **options})
    arguments, _ = s3_arguments(bucket, given)
    return {name: value for name, value in (arguments | s3_place(bucket, given, arguments)).items() if value}


@pytest.mark.parametrize(
    ("bucket", "options", "endpoint", "is_virtual"),
    [
        ("lake", {}, None, True),
        ("lake.of.acme", {}, None, False),  # the certificate would not fit
        ("lake", {"addressing_style": "path"}, None, False),
        ("lake", {"endpoint_url": "http://minio:9000"}, "http://minio:9000", False),
        ("lake", {"endpoint_url": "http://minio:9000", "addressing_style": "virtual"}, "http://lake.minio:9000", True),
        ("lake", {"region": "cn-north-1"}, "https://lake.s3.cn-north-1.amazonaws.com.cn", True),
        ("la.ke", {"region": "cn-north-1"}, "https://s3.cn-north-1.amazonaws.com.cn", False),
    ],
)
def test_addresses(bucket: str, options: dict[str, str], endpoint: str | None, is_virtual: bool, home: Home) -> None:
    found = placed(bucket, **options)
    assert (found.get("endpoint"), found.get("virtual_hosted_style_request", False)) == (endpoint, is_virtual)


def test_the_region(home: Home) -> None:
    def region(**options: str) -> object:
        return s3_arguments("lake", BackendOptions(options))[0]["region"]

    assert region() is None
    assert region(endpoint_url="http://minio:9000") == "us-east-1"
    home.config("[default]\nregion = eu-south-1\n[profile mine]\nregion = eu-south-2\n")
    assert (region(), region(profile="mine")) == ("eu-south-1", "eu-south-2")
    home.patch.setenv("AWS_DEFAULT_REGION", "eu-north-1")
    assert region() == "eu-north-1"
    home.patch.setenv("AWS_REGION", "eu-west-3")
    assert region() == "eu-west-3"
    assert region(region="eu-west-1") == "eu-west-1"


def test_the_configuration_is_parsed_once_for_each_of_its_states(home: Home) -> None:
    parsed: list[str] = []
    load = botocore.configloader.load_config

    def counted(path: str) -> object:
        parsed.append(path)
        return load(path)

    home.patch.setattr(botocore.configloader, "load_config", counted)
    for number, region in enumerate(("eu-south-1", "eu-west-1"), 1):
        home.config(f"[default]\nregion = {region}\n[profile mine]\nregion = us-east-2\n")
        for _ in range(3):
            assert s3_arguments("lake", BackendOptions({}))[0]["region"] == region
        assert len(parsed) == number
    assert s3_arguments("lake", BackendOptions({"profile": "mine"}))[0]["region"] == "us-east-2"
    home.patch.setenv("AWS_PROFILE", "mine")
    assert s3_arguments("lake", BackendOptions({}))[0]["region"] == "us-east-2"


def test_amazon_tells_the_region_of_a_bucket(cloud: Cloud) -> None:
    cloud.answers["/near"] = (200, {"x-amz-bucket-region": "us-east-1"}, b"")
    cloud.answers["/far"] = (301, {"x-amz-bucket-region": "eu-west-1", "Location": f"{cloud.url}/near"}, b"")
    cloud.answers["/closed"] = (403, {"x-amz-bucket-region": "eu-west-2"}, b"")
    found = [bucket_region(name, 5, server=cloud.url) for name in ("near", "far", "closed", "missing")]
    assert found == ["us-east-1", "eu-west-1", "eu-west-2", None]
    assert bucket_region("near", 5, server="http://127.0.0.1:1") is None


def test_the_server_of_a_profile(home: Home) -> None:
    home.config(
        "[default]\nendpoint_url = http://one:9000\n"
        "[profile mine]\nservices = ours\nendpoint_url = http://two:9000\n"
        "[services ours]\ns3 =\n  endpoint_url = http://three:9000\n"
    )
    servers = [s3_arguments("lake", BackendOptions(each))[1] for each in ({}, {"profile": "mine"})]
    assert servers == ["http://one:9000", "http://three:9000"]
    home.patch.setenv("AWS_ENDPOINT_URL_S3", "http://four:9000")
    assert s3_arguments("lake", BackendOptions({}))[1] == "http://four:9000"


@pytest.mark.parametrize("options", [{"key": "k"}, {"secret": "s"}, {"addressing_style": "none"}])
def test_wrong_options(options: dict[str, str], home: Home) -> None:
    with pytest.raises(OptionError):
        open_store("s3://lake/t", options)


@pytest.mark.parametrize(
    ("url", "options", "expected"),
    [
        ("s3://lake/t", {}, "obstore"),
        ("s3://lake/t", {"driver": "fsspec"}, "fsspec"),
        ("s3://arn:aws:s3:eu-west-1:123456789012:accesspoint/lake/t", {}, "fsspec"),
        ("s3://lake/t", {"use_ssl": "false"}, "fsspec"),
        ("s3://lake/t", {"use_ssl": "false", "endpoint_url": "http://minio:9000"}, "obstore"),
        ("ftp://host/t", {}, "fsspec"),
    ],
)
def test_the_driver(url: str, options: dict[str, str], expected: str) -> None:
    assert driver_name(url, BackendOptions(options)) == expected


def test_a_user_without_a_home_has_no_configuration_file(monkeypatch: pytest.MonkeyPatch) -> None:
    def expanduser(_: Path) -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "expanduser", expanduser)
    assert s3_config._file_state("~/.aws/config") is None
