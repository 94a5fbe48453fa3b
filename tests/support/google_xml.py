"""The part of Google Cloud Storage's XML API that object stores need, translated to its JSON API."""

from __future__ import annotations

import http.client
import itertools
import json
import re
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler
from typing import TypeAlias
from urllib.parse import parse_qs, quote, unquote, urlencode, urlsplit
from xml.sax.saxutils import escape

from tests.support.server_process import QueueingServer

Answer: TypeAlias = tuple[int, Mapping[str, str], bytes]

_PASSED = ("content-length", "content-range", "content-type", "etag", "last-modified", "x-goog-generation")
_LIST_PARAMETERS = {
    "prefix": "prefix",
    "delimiter": "delimiter",
    "continuation-token": "pageToken",
    "max-keys": "maxResults",
}
_ERRORS = {404: "NoSuchKey", 409: "Conflict", 412: "PreconditionFailed"}


class XmlFront:
    """A server at `endpoint` that answers by asking the JSON API at `target`."""

    def __init__(self, target: str) -> None:
        self.target = urlsplit(target).netloc
        self.parts: dict[str, dict[int, bytes]] = {}  # of uploads, which the JSON API has in another form
        self.uploads = itertools.count()
        self._server = QueueingServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"front": self}))
        self.endpoint = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def stop(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    front: XmlFront
    protocol_version = "HTTP/1.1"

    def handle_any(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        place = urlsplit(self.path)
        bucket, _, key = place.path.lstrip("/").partition("/")
        query = {name: values[0] for name, values in parse_qs(place.query, keep_blank_values=True).items()}
        status, headers, answer = self._answer(bucket, unquote(key), query, body)
        if status >= 400:
            status, headers, answer = self._error(bucket, status)
        self.send_response_only(status)
        for name, value in {"content-length": str(len(answer)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer)

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = handle_any  # noqa: N815 - names of the base class

    def _answer(self, bucket: str, key: str, query: Mapping[str, str], body: bytes) -> Answer:
        if not key:
            return self._list(bucket, query)
        name = f"/storage/v1/b/{bucket}/o/{quote(key, safe='')}"
        match self.command:
            case "GET" | "HEAD":
                ranged = {"Range": self.headers["Range"]} if "Range" in self.headers else {}
                status, headers, answer = self._ask(self.command, f"/download{name}?alt=media", headers=ranged)
                return status, {name: headers[name] for name in _PASSED if name in headers}, answer
            case "DELETE" if "uploadId" in query:
                self.front.parts.pop(query["uploadId"], None)
                return 204, {}, b""
            case "DELETE":
                return self._ask("DELETE", name)[0], {}, b""
            case "POST" | "PUT" if "uploads" in query or "uploadId" in query:
                return self._upload_in_parts(bucket, key, query, body)
            case "PUT" if "X-Goog-Copy-Source" in self.headers:
                source_bucket, _, source = unquote(self.headers["X-Goog-Copy-Source"]).partition("/")
                path = f"/storage/v1/b/{source_bucket}/o/{quote(source, safe='')}/rewriteTo/b/{bucket}/o/"
                return self._stored(self._ask("POST", path + quote(key, safe=""), b"{}"))
        return self._store(bucket, key, body)

    def _store(self, bucket: str, key: str, body: bytes) -> Answer:
        query = {"uploadType": "media", "name": key}
        if (generation := self.headers.get("X-Goog-If-Generation-Match")) is not None:
            query["ifGenerationMatch"] = generation
        return self._stored(self._ask("POST", f"/upload/storage/v1/b/{bucket}/o?{urlencode(query)}", body))

    def _stored(self, answer: Answer) -> Answer:
        if answer[0] >= 400:
            return answer
        found = json.loads(answer[2])
        found = found.get("resource", found)
        return 200, {"ETag": f'"{found["etag"]}"', "X-Goog-Generation": found["generation"]}, b""

    def _upload_in_parts(self, bucket: str, key: str, query: Mapping[str, str], body: bytes) -> Answer:
        if "uploads" in query:
            upload = f"upload-{next(self.front.uploads)}"
            self.front.parts[upload] = {}
            content = f"<UploadId>{upload}</UploadId>"
            return _xml("InitiateMultipartUploadResult", content)
        parts = self.front.parts[query["uploadId"]]
        if self.command == "PUT":
            parts[int(query["partNumber"])] = body
            return 200, {"ETag": f'"{query["partNumber"]}"'}, b""
        chosen = [parts[int(number)] for number in re.findall(rb"<PartNumber>(\d+)</PartNumber>", body)]
        status, headers, answer = self._store(bucket, key, b"".join(chosen))
        if status >= 400:
            return status, headers, answer
        del self.front.parts[query["uploadId"]]
        status, _, answer = _xml("CompleteMultipartUploadResult", f"<ETag>{escape(headers['ETag'])}</ETag>")
        return status, headers, answer

    def _list(self, bucket: str, query: Mapping[str, str]) -> Answer:
        asked = {theirs: query[ours] for ours, theirs in _LIST_PARAMETERS.items() if ours in query}
        if "start-after" in query:
            asked["startOffset"] = query["start-after"] + "\0"
        status, _, answer = self._ask("GET", f"/storage/v1/b/{bucket}/o?{urlencode(asked)}")
        if status >= 400:
            return status, {}, b""
        page = json.loads(answer)
        content = "".join(
            f"<Contents><Key>{escape(item['name'])}</Key><LastModified>{item['updated']}</LastModified>"
            f'<ETag>"{item["etag"]}"</ETag><Size>{item["size"]}</Size></Contents>'
            for item in page.get("items", ())
        )
        for name in page.get("prefixes", ()):
            content += f"<CommonPrefixes><Prefix>{escape(name)}</Prefix></CommonPrefixes>"
        if token := page.get("nextPageToken"):
            content += f"<NextContinuationToken>{token}</NextContinuationToken>"
        return _xml("ListBucketResult", content)

    def _error(self, bucket: str, status: int) -> Answer:
        code = _ERRORS.get(status, "InternalError")
        if status == 404 and self._ask("GET", f"/storage/v1/b/{bucket}")[0] == 404:
            code = "NoSuchBucket"
        return status, {}, b"" if status == 416 else f"<Error><Code>{code}</Code></Error>".encode()

    def _ask(self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None) -> Answer:
        connection = http.client.HTTPConnection(self.front.target, timeout=60)
        try:
            connection.request(method, path, body, dict(headers or {}))
            response = connection.getresponse()
            found = {name.lower(): value for name, value in response.getheaders()}
            return response.status, found, response.read()
        finally:
            connection.close()

    def log_message(self, *_: object) -> None:
        pass


def _xml(tag: str, content: str) -> Answer:
    return 200, {"Content-Type": "application/xml"}, f"<{tag}>{content}</{tag}>".encode()
