"""Chromium without a window, asked over its own pipe: what a page looks like, measured in it."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome")
TIMEOUT_S = 60.0


def program() -> str | None:
    """Where Chromium is, or None."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


class Browser:
    """One tab. Requests, errors and messages of the pages go into `events`."""

    def __init__(self, into: Any, out: Any) -> None:
        self._into = into
        self._out = out
        self._number = 0
        self._session: str | None = None
        self.events: list[dict[str, Any]] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """One command of the DevTools protocol; events on the way are kept."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        self._into.write(json.dumps(message).encode() + b"\0")
        self._into.flush()
        while True:
            heard = self._hear()
            if heard.get("id") == self._number:
                assert "error" not in heard, (method, heard["error"])
                return heard["result"]

    def open(self, page: Path, width: int, height: int = 800, *, dark: bool = False) -> None:
        """Show a page in a window of that many CSS pixels, and wait until it is loaded."""
        self.events.clear()
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=width < 600,
        )  # fmt: skip
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.call("Page.navigate", url=page.as_uri())
        while not any(event["method"] == "Page.loadEventFired" for event in self.events):
            self._hear()

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression in the page."""
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def screenshot(self, path: Path) -> None:
        """The whole page as PNG."""
        found = self.call("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(found["data"]))

    def complaints(self) -> list[str]:
        """Errors and warnings of the page."""
        kinds = ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded")
        return [str(e["params"]) for e in self.events if e["method"] in kinds]

    def requests(self) -> list[str]:
        """What was asked for, the pictures inside the page left out."""
        asked = [
            event["params"]["request"]["url"]
            for event in self.events
            if event["method"] == "Network.requestWillBeSent"
        ]
        return [url for url in asked if not url.startswith("data:")]

    def _hear(self) -> dict[str, Any]:
        heard = bytearray()
        while (byte := self._out.read(1)) != b"\0":
            assert byte, "the browser ended"
            heard += byte
        message: dict[str, Any] = json.loads(heard)
        if "method" in message:
            self.events.append(message)
        return message


@contextmanager
def browser(folder: Path) -> Iterator[Browser]:
    """A browser that keeps what it keeps in `folder`, and ends with the context."""
    path = program()
    assert path is not None
    theirs_in, ours_in = os.pipe()
    ours_out, theirs_out = os.pipe()

    def descriptors() -> None:
        # Chromium reads from 3 and writes to 4.
        first, second = os.dup(theirs_in), os.dup(theirs_out)
        for number, copy in ((3, first), (4, second)):
            os.dup2(copy, number)
            os.set_inheritable(number, True)

    command = [
        path, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
        "--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking",
        "--remote-debugging-pipe", f"--user-data-dir={folder}",
    ]  # fmt: skip
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        preexec_fn=descriptors,  # noqa: PLW1509 - it only copies descriptors
        close_fds=False,
        start_new_session=True,
    )
    os.close(theirs_in)
    os.close(theirs_out)
    try:
        with os.fdopen(ours_in, "wb") as into, os.fdopen(ours_out, "rb") as out:
            tab = Browser(into, out)
            yield tab
            with suppress(AssertionError, OSError):
                tab._session = None
                tab.call("Browser.close")
    finally:
        try:
            process.wait(TIMEOUT_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            process.wait(TIMEOUT_S)
