"""The console in a browser: how soon the page is drawn, and how soon it has rooms.

Chromium opens the link of a gateway before a master that is played (`bench.gateway`), with nothing
in its cache. Goal: first useful paint, which is the first room in the list, within 1 s of the
request.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from agent.gateway import tokens
from bench.gateway import PATIENCE_S, PlayedMaster
from bench.output import CannotRunError, Result, result
from fleet.testbed.ports import free_address, free_ports
from testkit.browser import browser, program

WIDTH = 1_280
# When the first room was in the list, in milliseconds since the page was asked for. The observer is
# there before the page's own scripts.
LOOK = """
new MutationObserver((_, observer) => {
  if (!document.querySelector('.rooms .body .line .value')) return;
  observer.disconnect();
  requestAnimationFrame(() => { window.firstRoomMs = performance.now(); });
}).observe(document, {childList: true, subtree: true});
"""
PAINT = "performance.getEntriesByName('first-contentful-paint')[0].startTime"


def run() -> Iterable[Result]:
    """The results. CannotRunError where there is no Chromium."""
    if program() is None:
        raise CannotRunError("a Chromium; install the package chromium")
    address, [port] = free_address(), free_ports(1)
    master = PlayedMaster(address)
    master.start()
    with tempfile.TemporaryDirectory() as name, tempfile.TemporaryDirectory() as profile:
        config = Path(name) / "gateway.toml"
        config.write_text(
            f'[master]\naddresses = ["{address}"]\n[http]\nlisten = "127.0.0.1:{port}"\n'
        )
        code = tokens.create_link(str(Path(name) / "access.json"), "viewer")
        command = [sys.executable, "-m", "agent.gateway.main", "--config", str(config)]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as gateway:
            assert gateway.stderr is not None
            while "listening" not in gateway.stderr.readline():
                assert gateway.poll() is None
            with browser(Path(profile)) as tab:
                tab.call("Page.addScriptToEvaluateOnNewDocument", source=LOOK)
                tab.open(f"http://127.0.0.1:{port}/login?code={code}", WIDTH)
                tab.wait_for("window.firstRoomMs")
                first_ms = tab.evaluate("window.firstRoomMs")
                paint_ms = tab.evaluate(PAINT)
            gateway.terminate()
            gateway.wait(PATIENCE_S)
    master.is_over = True
    master.join()
    yield result("gateway: first contentful paint", paint_ms / 1e3, "ms")
    yield result("gateway: first room in a browser", first_ms / 1e3, "ms", "goal", 1.0)
