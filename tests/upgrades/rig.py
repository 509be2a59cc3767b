"""Earlier states of the code, and two IADs of which some processes run one, with their files.

`tools/build_previous.sh` unpacks and builds a state. It stands first in PYTHONPATH of this
environment's Python, so that both have the same libraries, as on a host whose agent is replaced.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final, NamedTuple

from tests.trust.market import Market
from tests.trust.rig import Fleet

ROOT: Final = Path(__file__).parents[2]
# Without safe paths the working directory, which has this state, would come first.
SAFE: Final = {"PYTHONSAFEPATH": "1"}


class Earlier(NamedTuple):
    """An earlier state of the code, and its module with the functions that start agents."""

    commit: str
    starts: str

    @property
    def folder(self) -> Path:
        """Where it is, once it is built."""
        return ROOT / "var/cache/previous" / self.commit

    @property
    def environment(self) -> dict[str, str]:
        """In which Python finds it; besides, what is in PYTHONPATH."""
        paths = [str(self.folder), *filter(None, [os.environ.get("PYTHONPATH")])]
        return {**os.environ, **SAFE, "PYTHONPATH": os.pathsep.join(paths)}

    def command(self, agent: str) -> tuple[str, ...]:
        """The command that starts an agent of it, in any environment."""
        own = [f"{name}={self.environment[name]}" for name in ("PYTHONPATH", *SAFE)]
        start = agent.removeprefix("sanderling-")
        code = f"from {self.starts} import {start}; {start}()"
        return ("env", *own, sys.executable, "-c", code)


# Of 2026-11-22: the first with alerts, watches, a market and the overlay.
FIRST: Final = Earlier("4565fa2513d2acc15064fd0f4980342caf9497e6", "agent.start")
# Of 2026-11-27, with topics, clones and the gateway.
RECENT: Final = Earlier("b2e617138017c40d67fe9118266bbffec4694331", "agent.entry_points")
ALL: Final = (FIRST, RECENT)
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


class Mixed(Fleet):
    """`old` are the processes that run the earlier state, by their names: IADs are masters."""

    def __init__(self, folder: Path, earlier: Earlier, *old: str, **options: bool) -> None:
        super().__init__(folder, keyed=False, **options)
        self.earlier = earlier
        self.old = set(old)

    def _run(self, name: str, command: str, config: Path, iad: str = "") -> None:
        if name not in self.old:
            super()._run(name, command, config, iad)
            return
        with (self.folder / f"{name}.err").open("a") as errors:
            self.processes[name] = subprocess.Popen(
                [*self.earlier.command(command), "--config", config, "--exit-on-stdin-eof"],
                stdin=subprocess.PIPE,
                stderr=errors,
                text=True,
            )

    def start_linked(self) -> None:
        """Start the masters; wait for the links of their overlay."""
        for iad in self.sockets:
            self.start_master(iad)
        for iad in self.sockets:
            self.wait_until(iad, lambda s: s.counters["overlay_links_up"] == 1)

    def old_client(self, iad: str) -> list[str]:
        """What a client of the earlier state is answered."""
        return self._said(ASKING, self.sockets[iad]["public"])

    def old_operator(self, iad: str) -> list[str]:
        """What an operator of the earlier state is told of an IAD: its name, nodes with states."""
        return self._said(OPERATING, self.sockets[iad]["operator"])

    def old_subscriber(self, iad: str, wanted: str) -> subprocess.Popen[str]:
        """A subscriber of the earlier state, which prints `subscribed`, then one alert."""
        heard = subprocess.Popen(
            [sys.executable, "-c", HEARING, self.sockets[iad]["public"], wanted],
            env=self.earlier.environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert heard.stdout is not None
        assert heard.stdout.readline() == "subscribed\n"
        return heard

    def _said(self, program: str, *words: str) -> list[str]:
        return subprocess.run(
            [sys.executable, "-c", program, *words],
            env=self.earlier.environment,
            check=True,
            capture_output=True,
            text=True,
        ).stdout.split()


class MixedMarket(Mixed, Market):
    """With a registration service, whose process is `drs`."""
