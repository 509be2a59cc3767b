"""Two IADs of real processes: a master and an edge node each, with keys or without."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from pathlib import Path

from agent.client import Client, NoReplyError, Operator
from agent.net.keys import KeyFiles, new, read_publics
from fleet.testbed.ports import free_address
from testkit.waiting import PATIENCE_S, wait_until

# A connection that is made anew at that moment may lose a request: it is sent again.
STATUS_MS = 30_000

IADS = {"iad1": "b1/f4", "iad2": "b1/f5"}
# What must never leave an IAD, so nothing else is called like it.
NODES = {"iad1": "pi-heron", "iad2": "pi-plover"}
ROOMS = {"iad1": "b1/f4/r413", "iad2": "b1/f5/r510"}
ROOM = {"iad1": 413, "iad2": 510}

MASTER = """
[iad]
name = "{iad}"
[sockets]
public = "{public}"
nodes = "{nodes}"
operator = "{operator}"
[records]
flush_s = 0.01
[liveness]
lost_after = 6
{pool}{trust}
"""
MEMBER = """
[[pool]]
iad = "{iad}"
address = "{address}"
areas = ["{area}"]
"""
NEIGHBOUR = """
[overlay]
vertex = "b1"
cluster = {cluster}
clusters = 2
[[overlay.neighbour]]
iad = "{iad}"
vertex = "b1"
cluster = {other}
address = "{address}"
"""
TRIGGER = """
[[trigger]]
name = "warm"
condition = "temperature > 0"
"""
EDGE = """
[node]
name = "{name}"
areas = ["{area}"]
[master]
address = "{address}"
reconnect_first_s = 0.05
reconnect_longest_s = 0.2
{keys}
[[sensor]]
driver = "replay"
interval_s = 1.0
options = {{ room = {room}, start_row = 900, preload_rows = 900 }}
{trust}
"""


class Fleet:
    """`via[iad]` is where the other master reaches that one: a proxy's address, or its own."""

    parties = ("app", "operator", *IADS, *NODES.values())

    def __init__(
        self,
        folder: Path,
        *,
        keyed: bool,
        hosts: dict[str, str] | None = None,
        enter: dict[str, list[str]] | None = None,
        overlay: bool = False,
    ) -> None:
        """`hosts` are IP addresses of IADs that are not on loopback, `enter` the commands that
        start a process there. With `overlay` the masters are neighbours, and each node raises a
        trigger."""
        self.overlay = overlay
        self.folder = folder
        self.keyed = keyed
        self.hosts = hosts or {}
        self.enter = enter or {}
        self.sockets = {iad: self._addresses(iad) for iad in IADS}
        self.via = {iad: at["public"] for iad, at in self.sockets.items()}
        self.processes: dict[str, subprocess.Popen[str]] = {}
        if keyed:
            for name in self.parties:
                new(str(folder / name))
            for iad in IADS:
                self.allow(iad)

    def _addresses(self, iad: str) -> dict[str, str]:
        found = {kind: free_address() for kind in ("public", "nodes", "operator")}
        host = self.hosts.get(iad)
        return {k: a.replace("127.0.0.1", host) if host else a for k, a in found.items()}

    # --- keys ---

    def publics(self, name: str) -> list[str]:
        return list(read_publics(str(self.folder / f"{name}.public")))

    def allow(self, iad: str, *without: str) -> None:
        """Write the allow-list of an IAD's master."""
        (other,) = set(IADS) - {iad}
        rows = [
            ("client", "app"),
            ("operator", "operator"),
            ("iad", other),
            *(("node", node) for owner, node in NODES.items() if owner == iad),
        ]
        text = "".join(
            f'[[{role}]]\nname = "{name}"\nkeys = {self.publics(name)}\n'
            for role, name in rows
            if name not in without
        )
        self.replace(f"{iad}.allow", text)

    def replace(self, name: str, text: str) -> None:
        """Write a file at once."""
        part = self.folder / "part"
        part.write_text(text)
        part.chmod(0o600)
        part.replace(self.folder / name)

    def keys(self, name: str, server: str) -> KeyFiles | None:
        files = KeyFiles(str(self.folder / f"{name}.secret"), str(self.folder / f"{server}.public"))
        return files if self.keyed else None

    # --- processes ---

    def start(self) -> None:
        for iad in IADS:
            self.start_master(iad)
        for iad in IADS:
            self.start_node(iad)
        for iad in IADS:
            self.wait_until(iad, lambda s: s.nodes and not s.unreachable_iads)

    def start_master(self, iad: str) -> None:
        pool = "".join(
            MEMBER.format(
                iad=name,
                address=self.via[name] if name != iad else self.sockets[name]["public"],
                area=area,
            )
            + (f'keys = "{name}.public"\n' if self.keyed and name != iad else "")
            for name, area in IADS.items()
        )
        trust = f'[trust]\nkey = "{iad}.secret"\nallow = "{iad}.allow"\n' if self.keyed else ""
        home = self.folder / f"{iad}.toml"
        text = MASTER.format(iad=iad, pool=pool, trust=trust, **self.sockets[iad])
        text += self._overlay(iad)
        home.write_text(text + f'[state]\npath = "{iad}.sqlite"\n')
        home.write_text(home.read_text().replace("[records]", f'[records]\ndirectory = "{iad}"'))
        self._run(iad, "sanderling-master", home, iad)

    def _overlay(self, iad: str) -> str:
        if not self.overlay:
            return ""
        (other,) = set(IADS) - {iad}
        cluster, beside = (list(IADS).index(each) for each in (iad, other))
        address = self.via[other]
        text = NEIGHBOUR.format(cluster=cluster, iad=other, other=beside, address=address)
        return text + (f'keys = "{other}.public"\n' if self.keyed else "")

    def start_node(self, iad: str, name: str = "", key: str = "", area: str = "") -> None:
        name = name or NODES[iad]
        home = self.folder / f"{name}.toml"
        home.write_text(
            EDGE.format(
                name=name,
                area=area or ROOMS[iad],
                room=ROOM[iad],
                address=self.sockets[iad]["nodes"],
                keys=f'keys = "{iad}.public"' if self.keyed else "",
                trust=f'[trust]\nkey = "{key or name}.secret"' if self.keyed else "",
            )
            + f'[history]\npath = "{name}.sqlite"\n'
            + (TRIGGER if self.overlay else "")
        )
        self._run(name, "sanderling-edge", home, iad)

    def _run(self, name: str, command: str, config: Path, iad: str = "") -> None:
        with (self.folder / f"{name}.err").open("a") as errors:
            self.processes[name] = subprocess.Popen(
                [
                    *self.enter.get(iad, []),
                    Path(sys.executable).with_name(command),
                    "--config",
                    config,
                    "--exit-on-stdin-eof",
                ],
                stdin=subprocess.PIPE,
                stderr=errors,
                text=True,
            )

    def said(self, name: str) -> str:
        """What a process wrote on standard error."""
        return (self.folder / f"{name}.err").read_text()

    def stop(self, *names: str) -> None:
        """Stop the processes of these names, or all."""
        ending = [self.processes[name] for name in names or self.processes]
        for process in ending:
            process.terminate()
        for process in ending:
            process.wait(PATIENCE_S)
            assert process.stdin is not None
            with contextlib.suppress(OSError):
                process.stdin.close()

    # --- users ---

    def client(self, iad: str, name: str = "app") -> Client:
        return Client(self.sockets[iad]["public"], self.keys(name, iad))

    def status(self, iad: str):
        try:
            return self._asked(iad)
        except NoReplyError as error:
            raise AssertionError(self.said(iad)) from error

    def _asked(self, iad: str):
        with Operator(self.sockets[iad]["operator"], self.keys("operator", iad)) as operator:
            return operator.status(STATUS_MS)

    def wait_for(self, iad: str, look, holds):
        """As long as its master lives."""
        try:
            return wait_until(look, holds, processes=[self.processes[iad]])
        except AssertionError as error:
            raise AssertionError(self.said(iad)) from error

    def wait_until(self, iad: str, condition):
        def look():
            with contextlib.suppress(NoReplyError):  # it may not listen yet
                return self._asked(iad)

        return self.wait_for(iad, look, lambda found: found is not None and condition(found))


def ask(client: Client, latency_ms: float = 5_000.0):
    """Everything, from both IADs."""
    return client.query(["b1"], last_s=600, latency_ms=latency_ms)
