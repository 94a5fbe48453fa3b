"""Take pictures of the site in Chromium, to look at: `python tools/screenshots.py SITE FOLDER`.

Needs the program `chromium`. It is driven through a pair of pipes, by the DevTools protocol: messages are JSON, each
ends with a zero byte.
"""

from __future__ import annotations

import base64
import functools
import http.server
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

WAIT_S: Final = 30  # for a page


@dataclass(frozen=True)
class Shot:
    """A picture: its name, the page, the scheme of colours, the size of the window, and an element to wait for."""

    name: str
    page: str
    scheme: str = "light"
    width: int = 1280
    height: int = 900
    waits_for: str = "h1"


SHOTS: Final = (
    Shot("start-light", "index.html", height=1700),
    Shot("start-dark", "index.html", "dark", height=1700),
    Shot("start-mobile", "index.html", width=390, height=844),
    Shot("how-to", "how-to/merge.html"),
    Shot("how-to-mobile", "how-to/merge.html", "dark", width=390, height=844),
    Shot("api", "reference/api/slate-table.html", height=1400),
    Shot("commands", "reference/commands.html", "dark"),
    Shot("notebook", "examples/first_look.html", height=2600),
    Shot("notebook-history", "examples/history_and_expiry.html", height=3600),
    Shot("search", "index.html?q=merge", waits_for=".md-search-result__item"),
)


def chromium() -> str | None:
    """Return the browser, if this machine has one."""
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class Browser:
    """A headless Chromium with one page."""

    def __init__(self, receive: Any, send: Any) -> None:
        self._receive, self._send = receive, send
        self._numbers = itertools.count(1)
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = ""
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.call("Page.enable")
        # Otherwise a page keeps the scheme of the one before.
        self.call("Page.addScriptToEvaluateOnNewDocument", source="try { localStorage.clear() } catch {}")

    def call(self, method: str, **params: Any) -> Any:
        """Return the answer to a command; events in between are passed over."""
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": params}
        if getattr(self, "_session", ""):
            message["sessionId"] = self._session
        self._send.write(json.dumps(message).encode() + b"\0")
        self._send.flush()
        while True:
            answer = json.loads(self._read())
            if answer.get("id") == number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]

    def _read(self) -> bytes:
        data = bytearray()
        while (byte := self._receive.read(1)) != b"\0":
            if not byte:
                raise RuntimeError("Chromium has ended.")
            data += byte
        return bytes(data)

    def evaluate(self, expression: str) -> Any:
        """Return the value of a JavaScript expression in the page."""
        return self.call("Runtime.evaluate", expression=expression, returnByValue=True)["result"].get("value")

    def show(self, shot: Shot, address: str) -> None:
        """Open the page of a picture, and wait until it is there."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=shot.width,
            height=shot.height,
            deviceScaleFactor=1,
            mobile=shot.width < 600,
        )
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": shot.scheme}])
        self.call("Page.navigate", url="about:blank")
        self.call("Page.navigate", url=f"{address}/{shot.page}")
        is_there = f"document.readyState == 'complete' && !!document.querySelector({json.dumps(shot.waits_for)})"
        ends = time.monotonic() + WAIT_S
        while not self.evaluate(is_there):
            if time.monotonic() > ends:
                raise RuntimeError(f"{shot.page}: no {shot.waits_for} after {WAIT_S} s")
            time.sleep(0.05)
        time.sleep(0.4)  # transitions

    def picture(self) -> bytes:
        """Return what the window shows, as PNG."""
        return base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])


@contextmanager
def open_browser(program: str) -> Iterator[Browser]:
    """Start a Chromium, and end it."""
    to_child, from_us = os.pipe()
    to_us, from_child = os.pipe()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:

        def place_pipes() -> None:
            """Give the pipes the numbers that Chromium expects, by way of numbers that are out of the way."""
            os.dup2(to_child, 1003)
            os.dup2(from_child, 1004)
            os.dup2(1003, 3)
            os.dup2(1004, 4)

        process = subprocess.Popen(
            [
                program,
                "--headless",
                "--no-sandbox",  # which a container has not
                "--disable-gpu",
                "--hide-scrollbars",
                "--no-first-run",
                "--remote-debugging-pipe",
                f"--user-data-dir={profile}",
            ],
            preexec_fn=place_pipes,
            close_fds=False,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_child)
        os.close(from_child)
        try:
            with os.fdopen(to_us, "rb") as receive, os.fdopen(from_us, "wb") as send:
                yield Browser(receive, send)
        finally:
            process.terminate()
            process.wait(WAIT_S)


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # the name of the base class
        """Print nothing."""


@contextmanager
def serve(site: Path) -> Iterator[str]:
    """Serve a folder; yields the address."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Quiet, directory=str(site)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def take_screenshots(program: str, site: Path, folder: Path, shots: tuple[Shot, ...] = SHOTS) -> list[Path]:
    """Return the pictures of pages of a site."""
    folder.mkdir(parents=True, exist_ok=True)
    with serve(site) as address, open_browser(program) as browser:
        for shot in shots:
            browser.show(shot, address)
            (folder / f"{shot.name}.png").write_bytes(browser.picture())
    return [folder / f"{shot.name}.png" for shot in shots]


if __name__ == "__main__":
    found = chromium()
    if found is None:
        sys.exit("There is no chromium on the path.")
    for picture in take_screenshots(found, Path(sys.argv[1]), Path(sys.argv[2])):
        print(picture)
