"""The fleet on its hosts, and the desk from which it is run."""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from testkit import hosts, releases, root_file_system
from testkit.desk import Desk, Ended, await_
from tests.hosts import network
from tests.hosts.results import Results
from tests.hosts.testbed import IAD, MASTER, SCHEDULER, Host, Testbed

HEALTH_S: Final = 60.0
RELEASE: Final = "opt/sanderling/current/RELEASE"


def missing() -> str:
    """Why there can be no such hosts here; empty if there can."""
    if not os.environ.get("SANDERLING_HOSTS"):
        return "only with make test-hosts"
    if os.geteuid():
        return "needs root"
    return hosts.obstacle() or network.obstacle()


class Site:
    """Hosts, desk, and what they showed so far."""

    def __init__(self, bed: Testbed, results: Results) -> None:
        self.bed = bed
        self.results = results
        self.desk = Desk(bed.folder)
        self.hosts: Mapping[str, Host] = bed.hosts
        self.release = ""  # what every host shall run

    def init(self) -> None:
        """Make the keys, flash the hosts, boot them, and start the master of this machine."""
        made = self.desk.fleet("keys", "init")
        assert made.status == 0, made
        self.bed.up(self.desk.store)
        self.desk.write_master(SCHEDULER)
        self.desk.start_master(SCHEDULER)

    def close(self) -> None:
        """End everything."""
        try:
            self.desk.stop_masters()
        finally:
            self.bed.down()

    # --- deployments ----------------------------------------------------------------------------

    def deploy(self, *more: str) -> Ended:
        """Deploy to the IAD's hosts."""
        return self.desk.fleet("deploy", "--iad", IAD, "--yes", "--allow-dirty", *more)

    def deploy_first(self) -> Ended:
        """From bare Debian to a release of these sources, which is pinned from now on: others may
        be at work on them."""
        ended = self.deploy("--json")
        releases.keep(self.bed.folder)
        self.release = releases.latest(self.bed.folder).release
        self.pin(self.release)
        return ended

    def pin(self, release: str) -> None:
        """Let the inventory want this release."""
        fleet = self.desk.inventory
        pinned = msgspec.structs.replace(fleet.releases, pin=release)
        self.desk.inventory = msgspec.structs.replace(fleet, releases=pinned)

    def another(self, marker: str, edits: dict[str, releases.Edit] | None = None) -> str:
        """Another release, not wanted yet."""
        return releases.another(self.bed.folder, edits or {}, marker=marker)

    def want(self, release: str) -> None:
        """From now on all hosts shall run this release."""
        self.release = release
        self.pin(release)

    def mend(self) -> None:
        """Put right what a scenario that failed has left as it was."""
        if not self.ill():
            return
        sudoers = (root_file_system.ensure() / root_file_system.SUDOERS).read_text()
        for host in self.hosts.values():
            host.set_host_key(self.desk.store.host_key(host.full_name).private)
            (host.root / root_file_system.SUDOERS).write_text(sudoers)
        hosts.boot([host for host in self.hosts.values() if not host.launcher])
        self.pin(self.release)
        ended = self.deploy()
        assert ended.status == 0, ended

    # --- how it is ------------------------------------------------------------------------------

    def running(self, name: str) -> str:
        """The release that a host has in use; empty for none."""
        path = self.hosts[name].root / RELEASE
        try:
            return path.read_text().strip()
        except FileNotFoundError:
            return ""

    def ill(self) -> list[str]:
        """What is wrong with the fleet, a line each."""
        found = [
            f"{name} runs {self.running(name) or 'nothing'}, not {self.release}"
            for name in self.hosts
            if self.running(name) != self.release
        ]
        live = self.desk.live(IAD)
        return found + [
            f"its master sees {name} with {live.get(name, 'nothing')}"
            for name in self.hosts
            if name != MASTER and live.get(name) != self.release
        ]

    def assert_healthy(self) -> None:
        """All hosts run the release, all nodes are live, and all areas are answered."""
        await_(lambda: not self.ill(), f"a healthy fleet: {self.ill()}", HEALTH_S)
        for iad in (IAD, SCHEDULER):
            complete = functools.partial(self.answers, iad)
            await_(complete, f"a complete answer through {iad}", HEALTH_S)

    def answers(self, iad: str) -> bool:
        """Whether a query of all areas through the master of `iad` is answered by all nodes."""
        with self.desk.client(iad) as client:
            answer = client.query(
                self.desk.areas(IAD), last_s=60, form="aggregate", timeout_ms=2_000
            )
        return answer.status == "complete"


def outcomes(ended: Ended) -> dict[str, str]:
    """How it ended for each host, of a deployment with --json."""
    return {host["host"]: host["outcome"] for host in report(ended)["hosts"]}


def report(ended: Ended) -> dict[str, Any]:
    """The document of --json."""
    return msgspec.json.decode(ended.out)
