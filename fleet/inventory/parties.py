"""Key-holding parties of a fleet, and the names of its hosts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, Literal, NamedTuple, Protocol

from fleet.inventory.model import Iad, Inventory, Master, Node

Role = Literal["master", "node", "client", "operator"]
# The name of a master's host within its IAD; reserved among nodes.
MASTER: Final = "master"
MAX_LABEL: Final = 63  # of a host name: RFC 1035, 2.3.4
UNITS: Final = {"node": "sanderling-edge.service", "master": "sanderling-master.service"}


class Party(NamedTuple):
    """A holder of a CURVE key. `name` is the IAD's for a master, ``iad4/n3`` for a node, the
    person's for a client or operator."""

    role: Role
    name: str

    def __str__(self) -> str:
        return f"{self.role} {self.name}"


class Keys(Protocol):
    """The part of the key store that writers of host files use."""

    def publics(self, party: Party) -> tuple[str, ...]:
        """A party's valid public keys, the current one first; () if it has none or was revoked."""
        ...

    def secret_file(self, party: Party) -> bytes:
        """A party's secret key file, in the agents' format."""
        ...

    def public_file(self, party: Party) -> bytes:
        """A party's public key file, in the agents' format."""
        ...

    def webhook_file(self, iad: str, webhook: str) -> bytes:
        """The file with the secrets that an IAD's master signs a webhook's requests with."""
        ...

    def latency_model(self, path: str) -> bytes:
        """The latency model in this file of the fleet's folder."""
        ...


class HostOf(NamedTuple):
    """A host of the fleet: the master of an IAD, or one of its nodes."""

    iad: Iad
    node: Node | None  # None: the master's host

    @property
    def name(self) -> str:
        """``iad4/n3`` for a node, ``iad4/master`` for a master."""
        return f"{self.iad.name}/{self.node.name if self.node else MASTER}"

    @property
    def entry(self) -> Node | Master:
        """Its table in the inventory."""
        return self.node or self.iad.master

    @property
    def address(self) -> str:
        """Address for SSH."""
        return self.entry.address

    @property
    def unit(self) -> str:
        """The systemd unit of its agent."""
        return UNITS["node" if self.node else "master"]

    @property
    def is_local(self) -> bool:
        """Whether it is a master on the operator's own machine, which needs no login."""
        return self.node is None and self.iad.master.local

    @property
    def party(self) -> Party:
        """The party of its agent."""
        return Party("node", self.name) if self.node else Party("master", self.iad.name)


def hosts(fleet: Inventory) -> Iterator[HostOf]:
    """All hosts: each IAD's master, then its nodes."""
    for iad in fleet.iad:
        yield HostOf(iad, None)
        for node in iad.node:
            yield HostOf(iad, node)


def hostname_of(name: str) -> str:
    """The host name of ``iad4/n3``: ``iad4-n3``; lower case, with ``-`` for all other
    characters."""
    label = re.sub(r"[^a-z0-9]+", "-", name.lower())[:MAX_LABEL]
    return label.strip("-") or "node"


class WebhookOf(NamedTuple):
    """A webhook of an IAD's master; each has a secret of its own."""

    iad: str
    name: str

    def __str__(self) -> str:
        return f"webhook {self.name} of {self.iad}"


def webhooks(fleet: Inventory) -> Iterator[WebhookOf]:
    """All webhooks of all masters."""
    for iad in fleet.iad:
        for webhook in iad.master.webhook:
            yield WebhookOf(iad.name, webhook.name)


# The fleet command's own keys, for querying masters' states and for probe queries.
OPERATOR: Final = Party("operator", "fleet")
CLIENT: Final = Party("client", "fleet")


def parties(fleet: Inventory) -> Iterator[Party]:
    """All parties that need a CURVE key."""
    yield OPERATOR
    yield CLIENT
    for host in hosts(fleet):
        yield host.party
    for person in fleet.person:
        for role in person.roles:
            yield Party(role, person.name)
