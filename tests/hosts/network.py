"""A bridge on this machine, and a network namespace on it for each host."""

from __future__ import annotations

import contextlib
import os
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

from testkit.nspawn import last_line, run

NAMESPACES = Path("/run/netns")
INTERFACES = Path("/sys/class/net")


class Network:
    """The addresses of `network`, the first of them this machine's, behind `bridge` (≤ 9 letters).

    Nothing is routed: the hosts see each other and this machine, and nothing else.
    """

    def __init__(self, bridge: str, network: str) -> None:
        self.bridge = bridge
        self.network = IPv4Network(network)

    @property
    def own_address(self) -> str:
        """This machine's."""
        return str(self.network[1])

    def address(self, number: int) -> str:
        """That of host `number`, from 0."""
        return str(IPv4Address(self.network[10 + number]))

    def path(self, name: str) -> Path:
        """The namespace of a host."""
        return NAMESPACES / f"{self.bridge}-{name}"

    def up(self) -> None:
        """Make the bridge."""
        run("ip", "link", "add", self.bridge, "type", "bridge")
        run("ip", "addr", "add", f"{self.own_address}/{self.network.prefixlen}", "dev", self.bridge)
        run("ip", "link", "set", self.bridge, "up")

    def add(self, name: str, number: int) -> None:
        """Make the namespace of a host, with its address on the bridge."""
        space, outside = self.path(name).name, f"{self.bridge}-{number}"
        address = f"{self.address(number)}/{self.network.prefixlen}"
        run("ip", "netns", "add", space)
        run(
            "ip", "link", "add", outside, "type", "veth", "peer", "name", "eth0", "netns", space
        )  # fmt: skip
        run("ip", "link", "set", outside, "master", self.bridge, "up")
        for words in (["addr", "add", address, "dev", "eth0"], ["link", "set", "eth0", "up"]):
            run("ip", "-n", space, *words)
        run("ip", "-n", space, "link", "set", "lo", "up")

    def cut(self, name: str) -> None:
        """From now on whatever goes to or from a host is lost, in silence."""
        for chain in ("INPUT", "OUTPUT"):
            self._iptables(name, "-I", chain, "!", "-i" if chain == "INPUT" else "-o", "lo")

    def mend(self, name: str) -> None:
        """Undo `cut`."""
        for chain in ("INPUT", "OUTPUT"):
            self._iptables(name, "-D", chain, "!", "-i" if chain == "INPUT" else "-o", "lo")

    def plug(self, number: int, state: str) -> None:
        """Pull a host's cable (`down`), or put it back (`up`)."""
        run("ip", "link", "set", f"{self.bridge}-{number}", state)

    def slow(self, number: int, rate: str) -> None:
        """From now on no more than `rate`, such as 4mbit, goes to a host; empty: no limit."""
        outside = f"{self.bridge}-{number}"
        if rate:
            shape = ("tbf", "rate", rate, "burst", "16kb", "latency", "500ms")
            run("tc", "qdisc", "replace", "dev", outside, "root", *shape)
        else:
            run("tc", "qdisc", "delete", "dev", outside, "root")

    def down(self) -> None:
        """Take everything away; nothing happens if it is gone."""
        # A namespace that is deleted goes by and by, and these with it.
        for link in INTERFACES.glob(f"{self.bridge}-*"):
            with contextlib.suppress(RuntimeError):
                run("ip", "link", "delete", link.name)
        for space in NAMESPACES.glob(f"{self.bridge}-*"):
            with contextlib.suppress(RuntimeError):
                run("ip", "netns", "delete", space.name)
        with contextlib.suppress(RuntimeError):
            run("ip", "link", "delete", self.bridge)

    def _iptables(self, name: str, *rule: str) -> None:
        run("ip", "netns", "exec", self.path(name).name, "iptables", "-w", *rule, "-j", "DROP")


def obstacle() -> str:
    """Why there can be no such network here, found by making one; empty if there can."""
    tried = Network(f"try{os.getpid() % 100_000}", "203.0.113.0/24")  # for documentation only
    try:
        tried.up()
        tried.add("host", 0)
        tried.slow(0, "1mbit")
        tried.cut("host")
    except RuntimeError as error:
        return f"no network of namespaces can be made here: {last_line(error)}"
    finally:
        tried.down()
    return ""
