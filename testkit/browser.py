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

from testkit.waiting import wait_until

NAMES = ("chromium", "chromium-browser", "google-chrome")
TIMEOUT_S = 60.0
KEYS = {"Tab": 9, "Enter": 13, "Escape": 27, "ArrowUp": 38, "ArrowDown": 40}


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

    def open(self, page: Path | str, width: int, height: int = 800, *, dark: bool = False) -> None:
        """Show a page, a file or a URL, in a window of that many CSS pixels, and wait until it is
        loaded."""
        self.resize(width, height, dark=dark)
        # From elsewhere: to another place of the same page no load would come.
        self._load("about:blank")
        self._load(page if isinstance(page, str) else page.as_uri())

    def _load(self, url: str) -> None:
        self.events.clear()
        self.call("Page.navigate", url=url)
        while not any(event["method"] == "Page.loadEventFired" for event in self.events):
            self._hear()

    def resize(self, width: int, height: int = 800, *, dark: bool = False) -> None:
        """Another size of the window, and light or dark."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=width < 600,
        )  # fmt: skip
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def press(self, key: str, text: str = "") -> None:
        """Press and release a key, such as Tab; `text` is what it types."""
        number = KEYS.get(key, 0)
        said = {"key": key, "code": key, "windowsVirtualKeyCode": number}
        typed = {"text": text} if text else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", **said, **typed)
        self.call("Input.dispatchKeyEvent", type="keyUp", **said)

    def type(self, text: str) -> None:
        """Put text where the focus is."""
        self.call("Input.insertText", text=text)

    def wait_for(self, expression: str) -> None:
        """Until an expression is true in the page."""
        wait_until(lambda: self.evaluate(f"Boolean({expression})"), pause_s=0.02, what=expression)

    @contextmanager
    def another(self) -> Iterator[Browser]:
        """A second tab, in front; meanwhile this one only waits."""
        try:
            yield (second := Browser(self._into, self._out))
            second.call("Page.close")
        finally:
            self.call("Page.bringToFront")  # a page behind draws nothing

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression in the page; of a promise, what comes of it."""
        found = self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def screenshot(self, path: Path, *, whole: bool = True) -> None:
        """The whole page, or what is in the window, as PNG."""
        found = self.call("Page.captureScreenshot", captureBeyondViewport=whole)
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
