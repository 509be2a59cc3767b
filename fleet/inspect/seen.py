"""Snapshot of a fleet: what its masters and its hosts reported."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from agent.wire.operator import IadStatus, NodeStatus
from fleet.inspect.facts.diagnosis import Diagnosis
from fleet.inspect.facts.facts import Facts, Unit
from fleet.inventory.parties import HostOf
from fleet.ssh.errors import HostError


class IadSeen(NamedTuple):
    """What a master said of its IAD, or why it said nothing."""

    iad: str
    address: str  # of its operator socket
    status: IadStatus | None = None
    error: str = ""

    def node(self, name: str) -> NodeStatus | None:
        """The node of this name as its master sees it."""
        nodes = self.status.nodes if self.status else ()
        return next((node for node in nodes if node.node == name), None)


class HostSeen(NamedTuple):
    """What is known of a host. `iad` is None where its master was not asked, `facts` and `error`
    are where nobody was to log in. `skew_s` is how far its clock was before this machine's."""

    host: HostOf
    iad: IadSeen | None = None
    facts: Facts | None = None
    error: HostError | None = None
    wanted: str = ""  # release; empty: none in particular
    diagnosis: Diagnosis | None = None
    skew_s: float | None = None
    # Of files below /etc/sanderling: digests as the inventory has them.
    files: Mapping[str, str] = {}

    @property
    def name(self) -> str:
        """Its name in the fleet."""
        return self.host.name

    @property
    def unit_name(self) -> str:
        """The unit of its agent."""
        return self.host.unit

    @property
    def unit(self) -> Unit | None:
        """Its agent's unit; None where its facts are not known."""
        return self.facts.units.get(self.unit_name, Unit()) if self.facts else None

    @property
    def node(self) -> NodeStatus | None:
        """As its master sees it; None of a master's host, and of a node that the master does not
        know."""
        if self.host.node is None or self.iad is None:
            return None
        return self.iad.node(self.host.node.name)

    @property
    def release(self) -> str:
        """What its agent runs: as the agent itself said, or by what its process has loaded."""
        if self.host.node is None:
            said = self.iad.status.version if self.iad and self.iad.status else ""
        else:
            said = self.node.version if self.node and self.node.state == "live" else ""
        return said or (self.unit.running if self.unit else "")
