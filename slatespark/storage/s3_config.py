"""Where an S3 bucket is and with which credentials, for obstore: found as Amazon's tools find them.

botocore, which brings the rules for profiles, single sign-on and roles, is imported only where options and environment
leave something open.
"""

from __future__ import annotations

import os
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from email.message import Message
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from slatespark.errors import OptionError
from slatespark.options.values import parse_flag
from slatespark.storage.credentials import BackendOptions, refuse_control_characters
from slatespark.storage.server_options import (
    addressing_style,
    is_address,
    s3_endpoint,
    server_endpoint,
    timeout_s,
)

DEFAULT_REGION: Final = "us-east-1"
AMAZON: Final = "https://s3.amazonaws.com"

# Files that botocore reads, by the variables that move them; variables that choose a profile; what we take from one.
_FILES: Final = (("AWS_CONFIG_FILE", "~/.aws/config"), ("AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials"))
_PROFILES: Final = ("AWS_DEFAULT_PROFILE", "AWS_PROFILE")
_SETTINGS: Final = ("endpoint_url", "region", "s3")

# What asks for credentials whenever those it has are about to expire.
CredentialSource = Callable[[], dict[str, Any]]


def s3_arguments(bucket: str, options: BackendOptions) -> tuple[dict[str, Any], str | None]:
    """Return arguments of obstore's client, and the URL of a server other than Amazon's; sends no request.

    Raises
    ------
    OptionError
    """
    profile = _profile_settings(options.get("profile"))
    endpoint = s3_endpoint(options) or server_endpoint({}, {"endpoint_url of the profile": _profile_endpoint(profile)})
    style = addressing_style(options) or profile.get("s3", {}).get("addressing_style", "auto")
    # Certificates of Amazon hold for one label before the domain, and other servers seldom have names for buckets.
    is_virtual = style == "virtual" or (style == "auto" and endpoint is None and "." not in bucket)
    if endpoint and is_address(endpoint):
        is_virtual = False  # as botocore has it
    if ("key" in options) != ("secret" in options):
        raise OptionError("storage.key and storage.secret belong together.", todo="Set both, or none.")
    arguments = {
        "endpoint": _with_bucket(endpoint, bucket) if endpoint and is_virtual else endpoint,
        "virtual_hosted_style_request": is_virtual,
        "region": _known_region(options) or profile.get("region") or (DEFAULT_REGION if endpoint else None),
        "server_side_encryption": options.get("server_side_encryption"),
        "sse_kms_key_id": options.get("kms_key_id"),
    }
    if "requester_pays" in options:
        arguments["request_payer"] = parse_flag(options["requester_pays"], "storage.requester_pays")
    return arguments, endpoint


def s3_place(bucket: str, options: BackendOptions, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments that `s3_arguments` leaves open: region, credentials; may send requests."""
    found: dict[str, Any] = {}
    region = arguments.get("region")
    if region is None:
        region = found["region"] = bucket_region(bucket, timeout_s(options, "connect_timeout")) or DEFAULT_REGION
    if arguments.get("endpoint") is None and region.startswith("cn-"):  # whose servers have another domain
        server = f"https://s3.{region}.amazonaws.com.cn"
        found["endpoint"] = _with_bucket(server, bucket) if arguments["virtual_hosted_style_request"] else server
    if "skip_signature" not in arguments:
        found["credential_provider"] = s3_credentials(options)
    return found


def s3_credentials(options: BackendOptions) -> CredentialSource:
    """Return a source of credentials: those of the options, of the environment, or what botocore finds and renews."""
    if "key" in options:
        return _fixed(options["key"], options["secret"], options.get("token"))
    key, secret = os.environ.get("AWS_ACCESS_KEY_ID"), os.environ.get("AWS_SECRET_ACCESS_KEY")
    if key and secret and "profile" not in options:
        token = os.environ.get("AWS_SESSION_TOKEN")
        refuse_control_characters(
            {"AWS_ACCESS_KEY_ID": key, "AWS_SECRET_ACCESS_KEY": secret, "AWS_SESSION_TOKEN": token or ""}
        )
        return _fixed(key, secret, token)
    return _found_by_botocore(options.get("profile"))


def bucket_region(bucket: str, wait_s: float, *, server: str = AMAZON) -> str | None:
    """Return where a bucket is, as Amazon tells anybody; None if it does not."""
    request = urllib.request.Request(f"{server}/{bucket}", method="HEAD")
    try:
        with urllib.request.build_opener(_NoRedirects).open(request, timeout=wait_s) as answer:
            headers: Message = answer.headers
    except urllib.error.HTTPError as exc:
        headers = exc.headers
    except OSError:
        return None
    return headers.get("x-amz-bucket-region")


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """The answer that redirects has the region."""

    def redirect_request(self, *_: object) -> None:
        """Follow none."""


def _known_region(options: BackendOptions) -> str | None:
    if region := options.get("region"):
        return region
    variables = {name: os.environ.get(name, "") for name in ("AWS_REGION", "AWS_DEFAULT_REGION")}
    refuse_control_characters(variables)
    return next(filter(None, variables.values()), None)


def _with_bucket(server: str, bucket: str) -> str:
    protocol, _, host = server.partition("://")
    return f"{protocol}://{bucket}.{host}"


def _fixed(key: str, secret: str, token: str | None) -> CredentialSource:
    """Return a source that always has the same; arguments would be mixed with the token of the environment."""
    return lambda: {"access_key_id": key, "secret_access_key": secret, "token": token, "expires_at": None}


def _found_by_botocore(profile: str | None) -> CredentialSource:
    from botocore.session import Session

    session = Session(profile=profile)

    def provide() -> dict[str, Any]:
        credentials = session.get_credentials()
        if credentials is None:
            raise PermissionError("No credentials were found in the environment, files or role.")
        frozen = credentials.get_frozen_credentials()  # renews them a while before they expire
        expiry: datetime | None = getattr(credentials, "_expiry_time", None)
        return {
            "access_key_id": frozen.access_key,
            "secret_access_key": frozen.secret_key,
            "token": frozen.token,
            "expires_at": None if expiry is None else expiry.astimezone(UTC),  # obstore takes no other zone
        }

    return provide


def _profile_settings(profile: str | None) -> Mapping[str, Any]:
    """Return the section of a profile in the configuration file, with that of its services; empty without one."""
    config, credentials = (_file_state(os.environ.get(name, default)) for name, default in _FILES)
    if config is None:
        return {}
    return _read_profile(profile, tuple(map(os.environ.get, _PROFILES)), (config, credentials))


def _file_state(name: str) -> tuple[str, int, int] | None:
    """Return path, time of the last change and size of a file; None if it is not there."""
    try:
        path = Path(name).expanduser()
    except RuntimeError:  # the user has no home
        return None
    if not path.is_file():
        return None
    found = path.stat()
    return str(path), found.st_mtime_ns, found.st_size


@lru_cache(maxsize=16)
def _read_profile(profile: str | None, chosen: tuple[str | None, ...], files: tuple[object, ...]) -> Mapping[str, Any]:
    """Return what `_profile_settings` does, without secrets: each state of the files is parsed once in a process.

    Parameters
    ----------
    chosen : names of the profiles that the environment names
    files : states of the files
    """
    from botocore.exceptions import BotoCoreError
    from botocore.session import Session

    session = Session(profile=profile)
    try:
        found: dict[str, Any] = dict(session.get_scoped_config())
    except BotoCoreError as exc:
        raise OptionError(f"The AWS profile {profile or session.profile!r} cannot be used.", why=str(exc)) from exc
    services = session.full_config.get("services", {}).get(found.get("services"), {})
    return {**{name: found[name] for name in _SETTINGS if name in found}, "services": services}


def _profile_endpoint(profile: Mapping[str, Any]) -> str | None:
    of_s3 = profile.get("services", {}).get("s3", {}).get("endpoint_url")
    endpoint: str | None = of_s3 or profile.get("endpoint_url")
    return endpoint
