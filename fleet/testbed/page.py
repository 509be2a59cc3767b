"""The live page of a run: its gateway, one more process of the testbed."""

from __future__ import annotations

import re
import socket
import subprocess
import time
import tomllib
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import tomli_w

from fleet.testbed import processes
from fleet.testbed.keyring import OPERATOR
from fleet.testbed.testbed import Testbed

GATEWAY: Final = "gateway"
# What `fleet lake pull --local` takes for an agent of a host is called config.toml.
CONFIG: Final = "gateway.toml"
# A user's, which is never written here.
OUTPUTS: Final = "outputs.toml"
ABOVE: Final = f"# Written anew at each start. Outputs stand in {OUTPUTS}: docs/use/outputs.md\n\n"
USUAL: Final = 8_080
HOST: Final = "127.0.0.1"
READY_S: Final = 30.0
LOOK_EVERY_S: Final = 0.05
LINK_S: Final = 30.0
LINK: Final = re.compile(r"https?://\S+")


def start(bed: Testbed, results: Path | None = None, log_entries: int | None = None) -> str:
    """Start the page, of the fleet's first master, and wait until it is served. Why there is none,
    a line each; empty if there is. `results`: where those of a demo will be;
    `log_entries`: how many its log of alerts keeps."""
    config = bed.directory / GATEWAY / CONFIG
    port = bed.port(USUAL)
    config.parent.mkdir(parents=True, exist_ok=True)
    settings = ABOVE + tomli_w.dumps(_settings(bed, port, results, log_entries))
    config.write_text(settings, encoding="utf-8")
    try:
        command = [*processes.agent_command("sanderling-gateway"), "--config", str(config)]
    except FileNotFoundError as error:
        config.unlink()
        return f"there is no live page: {error}"
    child = bed.add(GATEWAY, command)
    give_up_s = time.monotonic() + READY_S
    while child.running and time.monotonic() < give_up_s:
        with suppress(OSError), socket.create_connection((HOST, port)):
            return ""
        time.sleep(LOOK_EVERY_S)
    bed.kill(GATEWAY)
    config.unlink()
    return "\n".join([f"there is no live page: {child.end}", *child.last_lines()])


def link(directory: Path) -> str:
    """A link to the page of the run in `directory`, for one browser and ten minutes; empty if it
    has none, or none can be made now."""
    config = directory / GATEWAY / CONFIG
    if not config.exists():
        return ""
    command = [*processes.agent_command("fleet"), "gateway", "link", "--config", str(config)]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=LINK_S, errors="replace"
        )
    except subprocess.TimeoutExpired:
        return ""
    found = LINK.search(done.stdout)
    return found[0] if found is not None and done.returncode == 0 else ""


def served_at(directory: Path) -> str:
    """The page's address, for a browser that has been let in; empty if there is none."""
    config = directory / GATEWAY / CONFIG
    if not config.exists():
        return ""
    return f"http://{tomllib.loads(config.read_text('utf-8'))['http']['listen']}/"


def _settings(
    bed: Testbed, port: int, results: Path | None, log_entries: int | None
) -> dict[str, Any]:
    iad, *others = [each.name for each in bed.plan.iads]
    console = {"results": str(results.resolve())} if results is not None else {}
    master: dict[str, Any] = {"addresses": [bed.public(iad)]}
    if (keys := bed.keys(GATEWAY, iad)) is not None:
        master |= {"key": keys.key, "keys": [keys.server_keys]}
    alerts = {} if log_entries is None else {"most": log_entries}
    return {
        "gateway": {"outputs": OUTPUTS},
        "console": console,
        "master": master,
        "alerts": alerts,
        "operator": _operator(bed, iad),
        "operators": [_operator(bed, each) for each in others],
        "http": {"listen": f"{HOST}:{port}"},
    }


def _operator(bed: Testbed, iad: str) -> dict[str, str]:
    keys = bed.keys(OPERATOR, iad)
    found = {} if keys is None else {"key": keys.key, "keys": keys.server_keys}
    return {"address": bed.operator(iad)} | found
