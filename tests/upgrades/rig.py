"""Two IADs of which some processes run an earlier state of the code, with their files.

`tools/build_previous.sh` unpacks and builds that state. It stands first in PYTHONPATH of this
environment's Python, so that both have the same libraries, as on a host whose agent is replaced.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.trust.market import Market
from tests.trust.rig import Fleet

ROOT: Final = Path(__file__).parents[2]
# The last state before 2026-11-23: the first with alerts, watches, a market and the overlay.
COMMIT: Final = "4565fa2513d2acc15064fd0f4980342caf9497e6"
PREVIOUS: Final = ROOT / "var/cache/previous" / COMMIT
# Without -P the working directory, which has this state, would come first.
PYTHON: Final = (sys.executable, "-P", "-c")
OLD_START: Final = {
    f"sanderling-{name}": f"from agent import start; start.{name}()"
    for name in ("master", "edge", "drs")
}
ASKING: Final = """
import sys
from agent.client import Client
with Client(sys.argv[1]) as client:
    answer = client.query(["b1"], last_s=600, latency_ms=60_000.0, timeout_ms=100_000.0)
    print(answer.status, *sorted(result.area for result in answer.results))
"""

HEARING: Final = """
import sys
from agent.client import Client
address, wanted = sys.argv[1:]
with Client(address) as client, client.subscribe(wanted) as alerts:
    print("subscribed", flush=True)
    told = next(iter(alerts)).notification.attributes
    print(told["iad"], told["trigger"])
"""
OPERATING: Final = """
import sys
from agent.client import Operator
with Operator(sys.argv[1]) as operator:
    status = operator.status(100_000.0)
    print(status.iad, *sorted(f"{node.node}:{node.state}" for node in status.nodes))
"""


def old_environment() -> dict[str, str]:
    """In which Python finds the earlier state."""
    return {**os.environ, "PYTHONPATH": str(PREVIOUS)}


class Mixed(Fleet):
    """`old` are the processes that run the earlier state, by their names: IADs are masters."""

    def __init__(self, folder: Path, *old: str, **options: bool) -> None:
        super().__init__(folder, keyed=False, **options)
        self.old = set(old)

    def _run(self, name: str, command: str, config: Path, iad: str = "") -> None:
        if name not in self.old:
            super()._run(name, command, config, iad)
            return
        with (self.folder / f"{name}.err").open("a") as errors:
            self.processes[name] = subprocess.Popen(
                [*PYTHON, OLD_START[command], "--config", config,
                 "--exit-on-stdin-eof"],
                env=old_environment(),
                stdin=subprocess.PIPE,
                stderr=errors,
                text=True,
            )  # fmt: skip

    def start_linked(self) -> None:
        """Start the masters; wait for the links of their overlay."""
        for iad in self.sockets:
            self.start_master(iad)
        for iad in self.sockets:
            self.wait_until(iad, lambda s: s.counters["overlay_links_up"] == 1)

    def old_client(self, iad: str) -> list[str]:
        """What a client of the earlier state is answered."""
        return _said(ASKING, self.sockets[iad]["public"])

    def old_operator(self, iad: str) -> list[str]:
        """What an operator of the earlier state is told of an IAD: its name, nodes with states."""
        return _said(OPERATING, self.sockets[iad]["operator"])

    def old_subscriber(self, iad: str, wanted: str) -> subprocess.Popen[str]:
        """A subscriber of the earlier state, which prints `subscribed`, then one alert."""
        heard = subprocess.Popen(
            [*PYTHON, HEARING, self.sockets[iad]["public"], wanted],
            env=old_environment(),
            stdout=subprocess.PIPE,
            text=True,
        )
        assert heard.stdout is not None
        assert heard.stdout.readline() == "subscribed\n"
        return heard


def _said(program: str, *words: str) -> list[str]:
    return subprocess.run(
        [*PYTHON, program, *words],
        env=old_environment(),
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()


class MixedMarket(Mixed, Market):
    """With a registration service, whose process is `drs`."""
