"""Two IADs of real processes that know each other from a registration service alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from agent.client import Client, Operator
from agent.wire.messages import Slo
from agent.wire.operator import CreateService, ServiceReport
from fleet.testbed.ports import free_address
from testkit.waiting import PATIENCE_MS
from tests.trust.rig import IADS, NODES, Fleet

# Long enough that nothing but a fault ends it, short enough that a test sees it renewed.
LEASE_S = 12.0
LATENCY_MS = 10_000.0

MASTER = """
[iad]
name = "{iad}"
[sockets]
public = "{public}"
nodes = "{nodes}"
operator = "{operator}"
advertise = "{via}"
[[offers]]
capability = "temperature"
areas = {areas}
[market]
directories = ["{directory}"]
lease_s = {lease_s}
{directory_keys}
[scheduling]
cold_start_ms = {cold_start_ms}
[records]
directory = ""
[state]
path = "{iad}.sqlite"
{trust}
"""
DRS = """
[sockets]
public = "{public}"
[directory]
path = "directory.sqlite"
{trust}
"""
# Beside the operator and the nodes: no IAD stands in a master's list.
CLIENTS = {
    "app": 'services = ["climate"]',
    "guest": 'services = ["other"]',
    "busy": "rate_per_s = 0.001",
}


class Market(Fleet):
    """`drs_via` is where masters reach the registration service; `cold_start_ms[iad]` what a
    master takes for its nodes' times before it has measured some."""

    parties = (*Fleet.parties, "guest", "busy", "stranger", "drs", "iad3")

    def __init__(self, folder: Path, *, keyed: bool) -> None:
        super().__init__(folder, keyed=keyed)
        self.drs = self.drs_via = free_address()
        self.offered = {iad: [area] for iad, area in IADS.items()}
        self.cold_start_ms = dict.fromkeys(IADS, 10.0)
        if keyed:
            registered = [f'[[iad]]\nname = "{i}"\nkeys = {self.publics(i)}\n' for i in
                          (*IADS, "iad3")]  # fmt: skip
            self.replace("drs.allow", "".join(registered))

    def allow(self, iad: str, *without: str) -> None:
        """Write the allow-list of an IAD's master."""
        rows = [("client", name, more) for name, more in CLIENTS.items()]
        rows += [("operator", "operator", ""), ("node", NODES[iad], "")]
        text = "".join(
            f'[[{role}]]\nname = "{name}"\nkeys = {self.publics(name)}\n{more}\n'
            for role, name, more in rows
            if name not in without
        )
        self.replace(f"{iad}.allow", text)

    # --- processes ---

    def start(self) -> None:
        self.start_drs()
        for iad in IADS:
            self.start_master(iad)
        for iad in IADS:
            self.start_node(iad)
        for iad in IADS:
            self.wait_until(iad, ready)

    def start_drs(self) -> None:
        trust = '[trust]\nkey = "drs.secret"\nallow = "drs.allow"\n' if self.keyed else ""
        home = self.folder / "drs.toml"
        home.write_text(DRS.format(public=self.drs, trust=trust))
        self._run("drs", "sanderling-drs", home)

    def start_master(self, iad: str) -> None:
        home = self.folder / f"{iad}.toml"
        home.write_text(
            MASTER.format(
                iad=iad,
                via=self.via[iad],
                areas=json.dumps(self.offered[iad]),
                directory=self.drs_via,
                lease_s=LEASE_S,
                directory_keys='directory_keys = "drs.public"' if self.keyed else "",
                cold_start_ms=self.cold_start_ms[iad],
                trust=f'[trust]\nkey = "{iad}.secret"\nallow = "{iad}.allow"\n'
                if self.keyed
                else "",
                **self.sockets[iad],
            )
        )
        self._run(iad, "sanderling-master", home, iad)

    # --- users ---

    def ask_service(self, iad: str, wanted) -> ServiceReport:
        """What came of it; sent with the operator's key."""
        with Operator(self.sockets[iad]["operator"], self.keys("operator", iad)) as operator:
            return operator.ask_service(wanted, PATIENCE_MS)

    def services(self, iad: str):
        """By id."""
        with Operator(self.sockets[iad]["operator"], self.keys("operator", iad)) as operator:
            return {service.id: service for service in operator.services(PATIENCE_MS)}

    def command(self, iad: str, *arguments: str):
        """`fleet service` at that master: its exit status, and the report."""
        done = subprocess.run(
            [
                Path(sys.executable).with_name("fleet"),
                *("service", *arguments, "--json", "--timeout", "30s"),
                *("--operator", self.sockets[iad]["operator"]),
                *("--key", "operator.secret", "--server-keys", f"{iad}.public"),
            ],
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "NO_COLOR": "1"},
        )
        return done.returncode, json.loads(done.stdout) if done.stdout else done.stderr


def ready(status) -> bool:
    """Whether a master sells."""
    return bool(status.registered and status.nodes and status.nodes[0].state == "live")


def create(name: str, **given) -> CreateService:
    """A request for all rooms, with time to spare."""
    asked = {"slo": Slo(99.0, LATENCY_MS), "rate_per_s": 50.0, "timeout_ms": PATIENCE_MS}
    return CreateService("c", name, "temperature", ("b1",), **(asked | given))


def ask(client: Client, service: str = "climate", areas: tuple[str, ...] = ("b1",)):
    """Aggregates, from both IADs."""
    return client.query(areas, last_s=600, form="aggregate", latency_ms=LATENCY_MS, service=service)
