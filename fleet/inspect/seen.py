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
    """The status that a master reported for its IAD, or why there is none."""

    iad: str
    address: str  # of its operator socket
    status: IadStatus | None = None
    error: str = ""

    def node(self, name: str) -> NodeStatus | None:
        """The status of the node of this name at its master."""
        nodes = self.status.nodes if self.status else ()
        return next((node for node in nodes if node.node == name), None)


class HostSeen(NamedTuple):
    """Knowledge about a host. `iad` is None if its master was not asked; `facts` and `error`
    are None if there was no login. `skew_s` is how far its clock was ahead of this machine's."""

    host: HostOf
    iad: IadSeen | None = None
    facts: Facts | None = None
    error: HostError | None = None
    wanted: str = ""  # release; empty: none in particular
    diagnosis: Diagnosis | None = None
    skew_s: float | None = None
    # Digests of files below /etc/sanderling according to the inventory.
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
        """Its agent's unit; None if its facts are unknown."""
        return self.facts.units.get(self.unit_name, Unit()) if self.facts else None

    @property
    def node(self) -> NodeStatus | None:
        """Its status at its master; None for a master's host, and for a node that its master does
        not know."""
        if self.host.node is None or self.iad is None:
            return None
        return self.iad.node(self.host.node.name)

    @property
    def release(self) -> str:
        """The release that its agent runs: as the agent reports it, or by the libraries of its
        process."""
        if self.host.node is None:
            said = self.iad.status.version if self.iad and self.iad.status else ""
        else:
            said = self.node.version if self.node and self.node.state == "live" else ""
        return said or (self.unit.running if self.unit else "")
